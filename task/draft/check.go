package draft

import (
	"cmp"
	_ "embed" // the texts
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/task"
)

// Level is how serious a finding is.
type Level string

// The levels.
const (
	Problem Level = "problem" // the task cannot be right for these data
	Warning Level = "warning" // it may be right, but somebody should look
)

// Finding is one thing that does not fit.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"` // a feature, a constraint, or a part of the task file
	Text  string `json:"text"`
	// Rows is how many rows show it, 0 when it is not about rows.
	Rows int `json:"rows,omitempty"`
}

// Report is a task held against data.
type Report struct {
	Rows         int              `json:"rows"`                   // data rows that data.filter keeps
	Read         int              `json:"read"`                   // of them, those that can be read
	Filtered     int              `json:"filtered"`               // rows that data.filter leaves out
	Features     []Column         `json:"features"`               // in the order of the model's inputs
	Rules        []task.RuleCount `json:"rules"`                  // in the order of the task file
	Score        *Score           `json:"score,omitempty"`        // nil without a model or outcomes
	Encoding     string           `json:"encoding,omitempty"`     // see Evidence.State; "" without a model
	Reason       string           `json:"encoding_why,omitempty"` // of Encoding
	Verification *Verification    `json:"verification,omitempty"`
	Findings     []Finding        `json:"findings"` // problems first
}

// Column is a feature as the data have it.
type Column struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind"`
	Missing int       `json:"missing,omitempty"` // rows without a category or number
	Below   int       `json:"below,omitempty"`   // rows under the bounds
	Above   int       `json:"above,omitempty"`   // rows over the bounds
	Mean    *float64  `json:"mean,omitempty"`    // of the data, in raw units
	Std     *float64  `json:"std,omitempty"`
	Shares  []float64 `json:"shares,omitempty"` // of the data, in the order of values; of one alone for a binary feature
}

// Score says how well a model decides rows whose outcome is known.
type Score struct {
	Rows     int     `json:"rows"`
	Index    int     `json:"index"`    // class index that stands for the favourable outcome
	Accuracy float64 `json:"accuracy"` // share of rows that are decided as labelled
	Majority float64 `json:"majority"` // accuracy of always naming the more frequent outcome
}

// Problems counts the findings that are problems.
func (r *Report) Problems() int {
	return len(lists.Filter(r.Findings, func(f Finding) bool { return f.Level == Problem }))
}

// findingTexts are the templates of what findings say.
//
//go:embed findings.tmpl
var findingTexts string

//nolint:gochecknoglobals // constant
var findingTemplates = sync.OnceValue(func() *message.Templates {
	return message.NewTemplates(findingTexts, template.FuncMap{
		"quote": message.Quote, "flow": flow, "numbers": numbers, "decimal": task.Decimal,
		"rounded": func(x float64) string { return task.Decimal(task.Rounded(x, 6)) },
	})
})

// facts are what a text is filled in with.
type facts map[string]any

type checker struct {
	t *task.Task
	p *task.People
	r *Report
	n int // values of the column that is looked at
}

func (c *checker) find(level Level, about string, rows int, text string, filled any) {
	c.r.Findings = append(c.r.Findings, Finding{level, about, findingTemplates().Text(text, filled), rows})
}

// Check holds a task against the people of a data file. Open questions of the task file are problems. rules says for
// how many people each constraint holds, and margins how far a model decides each of them for the favourable outcome
// (nil: no model). known is what else there is about the encoding. The error is a row that is no encoding by the task.
func Check(t *task.Task, open []Question, p *task.People, rules []task.RuleCount, margins []float32,
	known Evidence,
) (*Report, error) {
	c := &checker{t: t, p: p, r: &Report{
		Rows: p.Total - p.Filtered - p.Excluded, Read: p.N, Filtered: p.Filtered,
		Features: []Column{}, Rules: rules, Findings: []Finding{},
	}}
	for _, q := range open {
		c.find(Problem, fmt.Sprintf("question on line %d", q.Line), 0, "question", q)
	}
	c.rows()
	for _, column := range t.Columns() {
		if err := c.column(column); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(t.Features, func(f task.Feature) bool { return f.Actionable }) {
		c.find(Problem, "features", 0, "no action", nil)
	}
	for _, r := range rules {
		c.rule(r)
	}
	if margins != nil {
		c.model(margins)
		c.encoding(&known)
	}
	c.r.sort()
	return c.r, nil
}

// Find adds something that does not fit to the report.
func (r *Report) Find(level Level, about, text string) {
	r.Findings = append(r.Findings, Finding{Level: level, About: about, Text: text})
	r.sort()
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return strings.Compare(string(a.Level), string(b.Level)) })
}

func (c *checker) share(values int) float64 { return float64(values) / float64(max(c.n, 1)) }

// Shares of rows above which a finding is worth a warning, or is taken for a mistake of the task.
const (
	few  = 0.05
	most = 0.5
)

func (c *checker) rows() {
	level := Warning
	if float64(c.p.Failed) > most*float64(c.r.Rows) {
		level = Problem
	}
	for i, p := range c.p.Problems {
		alike := func(o task.Problem) bool { return o.Column == p.Column }
		if slices.IndexFunc(c.p.Problems, alike) < i { // counted with the first
			continue
		}
		rows := len(lists.Filter(c.p.Problems, alike))
		about := "data"
		if p.Column != "" {
			about = "column " + message.Legible(p.Column)
		}
		c.find(level, about, rows, "unreadable", facts{
			"rows": rows, "place": p.Place(), "reason": p.Reason,
			"some": c.p.Failed > len(c.p.Problems),
		})
	}
	for _, w := range c.p.Warnings {
		c.r.Findings = append(c.r.Findings, Finding{Level: Warning, About: "data", Text: w})
	}
	if slices.Contains(c.p.Labels, 0) && !slices.Contains(c.p.Labels, 1) {
		c.find(Warning, "data.favourable", 0, "none favourable", c.t.Data)
	}
}

const maxPixels = 1 << 20

func (c *checker) column(of task.Column) error {
	f := &of.Feature
	raw := newColumn(f.Name)
	texts := map[float32]string{} // of inputs of width one: most values of a column come again
	rows := c.p.N
	if len(of.At) > 1 {
		rows = min(rows, maxPixels/len(of.At))
	}
	for row := range rows {
		for _, at := range of.At {
			x := c.p.X[row*c.p.Dim+at:][:f.Width]
			field, known := texts[x[0]]
			if !known || f.Width > 1 {
				var err error
				if field, err = f.Decode(x); err != nil {
					return fmt.Errorf("%s: %w", c.p.Place(row), err)
				}
				texts[x[0]] = field
			}
			raw.add(field)
		}
	}
	c.n = rows * len(of.At)
	p, col := look(&raw), Column{Name: f.Name, Kind: f.Encoding.Kind(), Missing: c.imputed(f)}
	values, n := f.Values(), f.Number()
	if two, ok := f.Encoding.(*task.Binary); ok {
		if col.Shares = []float64{p.share(two.One)}; col.Shares[0] == 0 {
			c.find(Warning, f.Name, 0, "no one", two)
		}
	} else if n != nil && p.numeric {
		c.number(f, n, p, &col, len(of.At) > 1)
	} else if len(values) > 0 {
		c.category(f, values, p, &col)
	}
	c.r.Features = append(c.r.Features, col)
	return nil
}

// imputed counts the rows without a value of f, but those whose imputed value means "not known", which counts them.
func (c *checker) imputed(f *task.Feature) int {
	n, number := f.Encoding.(*task.Standardized)
	hot, category := f.Encoding.(*task.OneHot)
	if unknown(f.Impute) || category && slices.Contains(hot.MissingValues, f.Impute) ||
		number && slices.ContainsFunc(n.Missing, func(v float64) bool { return task.Decimal(v) == f.Impute }) {
		return 0
	}
	this := func(k int) bool { return c.t.Features[k].Name == f.Name }
	return len(lists.Filter(c.p.Imputed, func(of []int) bool { return slices.ContainsFunc(of, this) }))
}

func (c *checker) number(f *task.Feature, n *task.Standardized, p *profile, col *Column, image bool) {
	mean, std := p.moments()
	shown, spread := short(mean), short(std)
	col.Mean, col.Std = &shown, &spread
	c.reach(f, n, p.without(n.Missing))
	if p = c.codes(f, n, p, col); len(p.points) == 0 {
		c.find(Problem, f.Name, col.Missing, "all missing", n)
		return
	}
	for j, v := range p.points {
		switch {
		case v < f.Bounds[0]:
			col.Below += int(p.weights[j])
		case v > f.Bounds[1]:
			col.Above += int(p.weights[j])
		}
	}
	out := col.Below + col.Above
	if out == p.rowsOf(p.points) {
		c.find(Problem, f.Name, out, "out of bounds", facts{"bounds": f.Bounds, "data": p.points, "last": len(p.points) - 1})
	} else if c.share(out) > few && f.Actionable {
		c.find(Warning, f.Name, out, "bounds", facts{"bounds": f.Bounds, "share": c.share(out), "column": col})
	}
	if n.Spread != 0 && otherScale(n.Spread, std) {
		c.find(Warning, f.Name, 0, "spread", facts{"task": n, "std": std})
	}
	open := math.IsInf(f.Bounds[1]-f.Bounds[0], 1) && math.IsInf(f.MaxChange, 1) && len(n.Levels) == 0
	if open && f.Actionable && n.Spread == 0 && n.Mean == 0 && n.Std == 1 && std > 10 {
		c.find(Warning, f.Name, 0, "no scale", std)
	}
	p.points = lists.Map(p.points, n.Seen) // by the model
	mean, std = p.moments()
	switch {
	case n.Log != nil:
		if (n.Mean != 0 || n.Std != 1) && (math.Abs(n.Mean-mean) > 0.5*std || otherScale(n.Std, std)) {
			c.find(Warning, f.Name, 0, "logarithm", facts{"task": n, "mean": mean, "std": std})
		}
	case n.Spread != 0 || std == 0 || n.Mean == 0 && n.Std == 1: // nothing to compare: the raw number
	case image && n.Std == f.Bounds[1]-n.Mean: // bytes between 0 and 1, or -1 and 1
	case math.Abs(n.Mean-mean) > 0.5*std:
		apart := task.Rounded(math.Abs(n.Mean-mean)/std, 2)
		c.find(Warning, f.Name, 0, "mean", facts{"task": n, "mean": mean, "apart": apart})
	case otherScale(n.Std, std):
		c.find(Warning, f.Name, 0, "std", facts{"task": n, "std": std})
	}
}

func otherScale(std, data float64) bool { return std > 2*data || std < data/2 }

func (c *checker) category(f *task.Feature, values []string, p *profile, col *Column) {
	col.Shares = p.shares(values)
	var unseen, missing []string
	hot, isHot := f.Encoding.(*task.OneHot)
	if isHot {
		missing = hot.MissingValues
		col.Missing += p.missing
		for _, v := range missing {
			if !unknown(v) { // which p.missing counts
				col.Missing += int(math.Round(p.share(v) * float64(p.col.rows)))
			}
		}
	}
	for i, v := range values {
		if col.Shares[i] == 0 && !slices.Contains(missing, v) {
			unseen = append(unseen, v)
		}
	}
	if m := markers(values); m != nil && missing == nil && f.Actionable && f.Transitions == nil {
		c.find(Warning, f.Name, 0, "unknown", facts{"values": m, "most": mostCodes})
	}
	if len(unseen) == len(values) {
		c.find(Problem, f.Name, 0, "no value", nil)
	} else if len(unseen) > 0 && f.Actionable && f.Transitions == nil {
		c.find(Warning, f.Name, 0, "unseen", unseen)
	}
}

func (c *checker) rule(r task.RuleCount) {
	about := "constraint " + strconv.Quote(r.Text)
	switch {
	case r.Applies == 0:
		c.find(Warning, about, 0, "no condition", nil)
	case r.Applies == r.Broken:
		c.find(Problem, about, r.Broken, "all break", nil)
	case float64(r.Broken) > few*float64(r.Applies):
		c.find(Warning, about, r.Broken, "some break", float64(r.Broken)/float64(r.Applies))
	}
}

// rounded is a difference that may be one of scores with three digits.
const rounded = 1.1e-3

func (c *checker) encoding(known *Evidence) {
	if s := c.r.Score; s != nil {
		known.Stated, known.Rows = c.t.Target.Accuracy, s.Rows
		known.Right, known.Frequent = int(math.Round(s.Accuracy*float64(s.Rows))), int(math.Round(s.Majority*float64(s.Rows)))
	}
	c.r.Encoding, c.r.Reason = known.State()
	switch known.accuracy() {
	case Verified:
		c.r.Verification = &Verification{Rows: known.Rows, Accuracy: known.Stated}
	case Contradicted:
		c.find(Problem, "target.accuracy", 0, "other accuracy", known)
	case Unverified:
		c.find(Warning, "target.accuracy", 0, "few outcomes", facts{"rows": known.Rows, "least": minAccuracyRows})
	}
	if known.Scores != nil {
		c.scores(known.Scores)
	}
}

func (c *checker) scores(v *Verification) {
	c.r.Verification = v
	if v.Unread > 0 {
		c.find(Warning, "scores", v.Unread, "unread scores", v)
	}
	switch {
	case v.Verified() && len(v.Unseen) == 0:
	case v.Verified():
		c.find(Warning, "scores", 0, "unseen inputs", v)
	case v.Differ == 0:
		c.find(Problem, "scores", v.Rows, "few scores", facts{"telling": v.Telling, "rows": v.Rows, "least": MinScores})
	case v.Largest < rounded:
		c.find(Problem, "scores", v.Differ, "rounded scores", v)
	default:
		c.find(Problem, "scores", v.Differ, "other scores", v)
	}
}

// Of an outcome of fewer than one row in rarely, as one of ten classes is, a model may find many and still decide worse
// than always naming the other: it must then decide so much of both outcomes, on average, where chance has half.
const rarely, ofBoth = 5, 0.6

func (c *checker) model(margins []float32) {
	rows, right, favourable, found := 0, 0, 0, 0
	for i, label := range c.p.Labels {
		if label < 0 {
			continue
		}
		rows++
		favourable += int(label)
		if (margins[i] > 0) == (label == 1) {
			right++
			found += int(label)
		}
	}
	if rows == 0 {
		c.find(Warning, "model", 0, "no outcome", nil)
		return
	}
	frequent := max(favourable, rows-favourable)
	s := &Score{
		Rows: rows, Index: c.t.Target.Index,
		Accuracy: float64(right) / float64(rows), Majority: float64(frequent) / float64(rows),
	}
	c.r.Score = s
	if rare := rows - frequent; rare*rarely < rows && rare > 0 {
		others := rows - favourable
		if both := (float64(found)/float64(favourable) + float64(right-found)/float64(others)) / 2; both >= ofBoth {
			return
		}
	}
	if right < frequent { // counts: a model exactly at the base rate is not below it by a rounding
		opposite := rows-right > frequent
		c.find(Problem, "model", 0, "below chance", facts{"score": s, "wrong": 1 - s.Accuracy, "opposite": opposite})
		return
	}
	all, none := found == favourable && right == favourable, found == 0 && right == rows-favourable
	if (all || none) && favourable > 0 && favourable < rows {
		c.find(Warning, "model", 0, "all alike", s)
	}
}

func numbers(v []float64) string {
	all := decimals(v)
	if n := len(all) - 1; n > 0 {
		return strings.Join(all[:n], ", ") + " or " + all[n]
	}
	return all[0]
}

func (c *checker) codes(f *task.Feature, n *task.Standardized, p *profile, col *Column) *profile {
	if n.Missing != nil {
		col.Missing += p.rowsOf(n.Missing)
		return p.without(n.Missing)
	}
	codes := p.codes()
	if codes == nil || !f.Mutable {
		return p
	}
	rows, values := p.rowsOf(codes), p.without(codes)
	c.find(Warning, f.Name, rows, "codes", facts{
		"codes": codes, "share": c.share(rows), "values": values.points,
		"last": len(values.points) - 1,
	})
	return values
}

// reach warns of numbers that an action may choose and no row has: beyond 0, beyond the data by half of their range,
// between whole numbers, and of an ordinal feature each.
func (c *checker) reach(f *task.Feature, n *task.Standardized, p *profile) {
	if !f.Actionable || len(p.points) < 2 || n.Missing == nil && p.codes() != nil {
		return
	}
	lo, hi := p.points[0], p.points[len(p.points)-1]
	if n.Levels != nil {
		c.unseen(f, p, n.Levels)
		return
	}
	far := (hi - lo) / 2
	var ways []string
	if to := max(f.Bounds[0], lo-min(f.MaxDecrease, f.MaxChange)); f.Direction != "increase" &&
		(to < 0 && lo >= 0 || to < lo-far) {
		ways = append(ways, "down "+limit(to))
	}
	if to := min(f.Bounds[1], hi+min(f.MaxIncrease, f.MaxChange)); f.Direction != "decrease" &&
		(to > 0 && hi <= 0 || to > hi+far) {
		ways = append(ways, "up "+limit(to))
	}
	if ways != nil {
		c.find(Warning, f.Name, 0, "reach", facts{"ways": ways, "low": lo, "high": hi})
	}
	switch {
	case p.whole && f.Step > 0 && f.Step != math.Trunc(f.Step):
		c.find(Warning, f.Name, 0, "odd step", f)
	case p.whole && !n.Ordinal && f.Step == 0 && len(p.points) <= maxGrades:
		c.find(Warning, f.Name, 0, "no step", p.step())
	case n.Ordinal && f.Step > 0 && (f.Bounds[1]-f.Bounds[0])/f.Step < 2*maxGrades:
		var grid []float64
		for v := f.Bounds[0]; v <= f.Bounds[1]; v += f.Step {
			grid = append(grid, v)
		}
		c.unseen(f, p, grid)
	}
}

func (c *checker) unseen(f *task.Feature, p *profile, grades []float64) {
	none := slices.DeleteFunc(slices.Clone(grades), func(v float64) bool { return slices.Contains(p.points, v) })
	if len(none) > 0 {
		c.find(Warning, f.Name, 0, "unseen", decimals(none))
	}
}

func limit(v float64) string {
	if math.IsInf(v, 0) {
		return "without limit"
	}
	return "to " + task.Decimal(v)
}

const maxSample = 2000

type scaling struct {
	name      string
	pixels    bool
	mean, std float64 // std 0: those of the data, or its least value and its range
	between   bool
}

func scalings() []scaling {
	return []scaling{
		{"numbers as they are", false, 0, 1, false},
		{"pixels as bytes (std: 1)", true, 0, 1, false},
		{"pixels between 0 and 1 (std: 255)", true, 0, 255, false},
		{"pixels between -1 and 1 (mean: 127.5, std: 127.5)", true, 127.5, 127.5, false},
		{"numbers standardised by these data", false, 0, 0, false},
		{"pixels standardised by these data", true, 0, 0, false},
		{"numbers between 0 and 1 (mean: least value, std: range of these data)", false, 0, 0, true},
	}
}

// CompareScalings warns where a model decides more rows as labelled with another scaling of numbers or pixels than with
// that of the task file. margins runs the model on rows of inputs.
func (r *Report) CompareScalings(
	t *task.Task, people *task.People, margins func(x []float32) ([]float32, error),
) error {
	if r.Score == nil || t.Latent != nil {
		return nil
	}
	known := slices.DeleteFunc(task.AllRows(people.N), func(i int) bool { return people.Labels[i] < 0 })
	var sample []int // from all of the file, which may be sorted
	for i := 0; i < len(known); i += (len(known)-1)/maxSample + 1 {
		sample = append(sample, known[i])
	}
	some := people.Subset(sample)
	own, err := decidedAsLabelled(some, margins)
	if err != nil {
		return err
	}
	most, best, name := 0.0, 0.0, ""
	for _, s := range scalings() {
		other := *some
		if other.X = s.apply(t, some); other.X == nil {
			continue
		}
		right, err := decidedAsLabelled(&other, margins)
		if err != nil {
			return err
		}
		if gain := clearGain(own, right); gain > most {
			most, best, name = gain, stat.Mean(right, nil), s.name
		}
	}
	if name != "" {
		r.Find(Warning, "model", fmt.Sprintf("it decides %.1f %% of %d rows as labelled with %s, and %.1f %% with "+
			"mean and std of the task file: which ones does it take?", 100*best, some.N, name, 100*stat.Mean(own, nil)))
	}
	return nil
}

func (s *scaling) apply(t *task.Task, people *task.People) []float32 {
	var x []float32
	for _, c := range t.Columns() {
		f := &c.Feature
		n := f.Number()
		if n == nil || s.pixels != t.IsPixel(f) || n.Log != nil || n.Clip != nil {
			continue
		}
		if x == nil {
			x = slices.Clone(people.X)
		}
		mean, std := s.mean, s.std
		if std == 0 {
			var raw []float64
			for row := range people.N {
				for _, at := range c.At {
					raw = append(raw, n.FromInput(people.X[row*people.Dim+at]))
				}
			}
			if mean, std = stat.PopMeanStdDev(raw, nil); s.between {
				mean, std = slices.Min(raw), slices.Max(raw)-slices.Min(raw)
			}
			std = cmp.Or(std, 1)
		}
		if n.Spread != 0 { // the model gets input times std
			std *= n.Unit()
		}
		for row := range people.N {
			for _, at := range c.At {
				v := &x[row*people.Dim+at]
				*v = float32((n.FromInput(*v) - mean) / std)
			}
		}
	}
	return x
}

// clearGain is by how much more rows are right than before: 0 unless that is above 2 points and above three standard
// deviations of the rows in which the two differ, so that the same model with a few rows is not suspected.
func clearGain(before, after []float64) float64 {
	differ := floats.Distance(before, after, 1)
	gain := stat.Mean(after, nil) - stat.Mean(before, nil)
	if gain >= max(0.02, 3*math.Sqrt(differ)/float64(len(after))) {
		return gain
	}
	return 0
}

// decidedAsLabelled is 1 for each person whom a model decides as labelled, and 0 for the others. If it decides most
// of them otherwise, its class index is the wrong one, which is reported elsewhere: then 1 is the opposite.
func decidedAsLabelled(people *task.People, run func(x []float32) ([]float32, error)) ([]float64, error) {
	margins, err := run(people.X)
	if err != nil {
		return nil, err
	}
	right := make([]float64, people.N)
	for i, label := range people.Labels {
		if (margins[i] > 0) == (label == 1) {
			right[i] = 1
		}
	}
	if stat.Mean(right, nil) < 0.5 {
		floats.AddConst(-1, right)
		floats.Scale(-1, right)
	}
	return right, nil
}
