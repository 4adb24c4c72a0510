package eval

// Grouping is the people told apart by one attribute, or by several at once.
type Grouping struct {
	By     string     `json:"by"`     // the attribute, or attributes joined by "*"
	Groups []Group    `json:"groups"` // in the order of the attribute's values; people without a value are in none
	Gaps   []GroupGap `json:"gaps"`   // of the metrics that tell groups apart
}

// Group is some of the people.
type Group struct {
	Name   string  `json:"name"`
	Small  bool    `json:"small"`  // fewer promises than the minimum: shown, but not ranked
	Result *Result `json:"result"` // every metric of them
}

// GroupGap compares the groups of a grouping by one metric.
type GroupGap struct {
	Metric     string  `json:"metric"` // Metric.ID
	Margin     float64 `json:"margin"`
	Worst      string  `json:"worst"` // group, among those that are not small; "" when there are fewer than two
	Best       string  `json:"best"`
	Difference Float   `json:"difference"` // of their values
	P          Float   `json:"p"`          // that the worst differs from the rest by chance: Fisher's exact test, Holm over the groups
}

// Scenario is the evaluation under other conditions than those of the data and the task.
type Scenario struct {
	Name   string  `json:"name"` // as it was asked for, see Stress
	Result *Result `json:"result"`
}
