package eval

// Contest compares several quantized models of one original on the same people: each with the first one.
type Contest struct {
	Names      []string     `json:"names"`
	Results    []*Result    `json:"results"` // in the order of Names
	Confidence float64      `json:"confidence"`
	Rows       []ContestRow `json:"rows"`
}

// ContestRow is one metric of all models.
type ContestRow struct {
	Metric string   `json:"metric"`           // Metric.ID
	Margin *float64 `json:"margin,omitempty"` // required; nil for metrics that have none
	Cells  []Cell   `json:"cells"`            // in the order of Names; the first has no difference
}

// Cell is one model's value and how it differs from the first model's.
type Cell struct {
	Value Estimate `json:"value"`
	Delta Estimate `json:"delta"` // this less the first, of the people who count in both
	P     Float    `json:"p"`     // that the difference is chance, adjusted for the models in the row by Holm; undefined without a test
	Test  string   `json:"test"`  // "McNemar exact", "paired bootstrap", "" where there is nothing to test
	Call  Call     `json:"call"`
}

// Call is what can be said of a difference.
type Call string

// The calls.
const (
	BetterThan Call = "better"
	WorseThan  Call = "worse"
	Alike      Call = "~"       // nothing can be said
	Differs    Call = "differs" // certain, of a metric that has no better side
	Baseline   Call = ""        // the first model
)
