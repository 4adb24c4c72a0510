package draft

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

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
	Rows     int         `json:"rows"`            // data rows that data.filter keeps
	Read     int         `json:"read"`            // of them, those that can be read
	Filtered int         `json:"filtered"`        // rows that data.filter leaves out
	Features []Column    `json:"features"`        // in the order of the model's inputs
	Rules    []RuleCount `json:"rules"`           // in the order of the task file
	Score    *Score      `json:"score,omitempty"` // nil without a model or outcomes
	// Encoding is "unverified" when a model was asked: nothing has compared its scores with known ones. "" without a
	// model.
	Encoding string    `json:"encoding,omitempty"`
	Findings []Finding `json:"findings"` // problems first
}

// Column is a feature as the data have it.
type Column struct {
	Name    string    `json:"name"`
	Kind    task.Kind `json:"kind"`
	Missing int       `json:"missing,omitempty"` // rows without a category
	Below   int       `json:"below,omitempty"`   // rows under the bounds
	Above   int       `json:"above,omitempty"`   // rows over the bounds
	Off     int       `json:"off,omitempty"`     // rows that are no whole number of steps from most others
	Mean    *float64  `json:"mean,omitempty"`    // of the data, in raw units
	Std     *float64  `json:"std,omitempty"`
	Shares  []float64 `json:"shares,omitempty"` // of the data, in the order of values; of one alone for a binary feature
}

// RuleCount says for how many rows a constraint holds as they are.
type RuleCount struct {
	Text    string `json:"text"`
	Applies int    `json:"applies"` // rows for which the condition of an if-then holds, all rows otherwise
	Broken  int    `json:"broken"`
}

// Problems counts the findings that are problems.
func (r *Report) Problems() (n int) {
	for _, f := range r.Findings {
		if f.Level == Problem {
			n++
		}
	}
	return n
}

// checker holds a task against people.
type checker struct {
	t      *task.Task
	p      *task.People
	r      *Report
	raws   [][]string // per feature: the distinct raw texts
	codes  [][]int32  // per feature and person: index into raws
	counts [][]int    // per feature and raw text
}

func (c *checker) find(level Level, about string, rows int, format string, args ...any) {
	c.r.Findings = append(c.r.Findings, Finding{level, about, fmt.Sprintf(format, args...), rows})
}

// Check holds a task against the people of a data file, as task.Read returns them, and against a model (nil: none).
// Open questions of the task file are problems. The error is one of the model.
func Check(ctx context.Context, t *task.Task, open []Question, p *task.People, m Model) (*Report, error) {
	c := &checker{t: t, p: p, r: &Report{
		Rows: p.Total - p.Filtered - p.Excluded, Read: p.N, Filtered: p.Filtered,
		Features: []Column{}, Rules: []RuleCount{}, Findings: []Finding{},
	}}
	if err := c.decode(); err != nil {
		return nil, err
	}
	for _, q := range open {
		c.find(Problem, fmt.Sprintf("question on line %d", q.Line), 0, "%s Answer it in the file, then remove its comment",
			q.Text)
	}
	c.rows()
	for i := range t.Features {
		c.feature(i)
	}
	c.rules()
	c.conflicts()
	c.links()
	c.whole()
	if m != nil {
		if err := c.model(ctx, m); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.r.Findings, func(a, b Finding) int {
		return strings.Compare(string(a.Level), string(b.Level)) // problems come before warnings
	})
	return c.r, nil
}

// decode finds the raw texts of all people.
func (c *checker) decode() error {
	n := len(c.t.Features)
	c.raws, c.codes, c.counts = make([][]string, n), make([][]int32, n), make([][]int, n)
	for i := range c.t.Features {
		f := &c.t.Features[i]
		seen := map[string]int32{}
		byInput := map[float32]int32{}
		c.codes[i] = make([]int32, c.p.N)
		for row := range c.p.N {
			x := c.p.X[row*c.p.Dim+f.Offset : row*c.p.Dim+f.Offset+f.Width]
			code, ok := int32(0), false
			if f.Width == 1 {
				code, ok = byInput[x[0]]
			}
			if !ok {
				raw, err := f.Decode(x)
				if err != nil {
					return fmt.Errorf("line %d: %w", c.p.Lines[row], err)
				}
				if code, ok = seen[raw]; !ok {
					code = int32(len(c.raws[i]))
					seen[raw] = code
					c.raws[i], c.counts[i] = append(c.raws[i], raw), append(c.counts[i], 0)
				}
				if f.Width == 1 {
					byInput[x[0]] = code
				}
			}
			c.codes[i][row] = code
			c.counts[i][code]++
		}
	}
	return nil
}

// value returns the raw values of a person.
func (c *checker) value(row int) func(string) string {
	return func(name string) string {
		for i := range c.t.Features {
			if c.t.Features[i].Name == name {
				return reached(&c.t.Features[i], c.raws[i][c.codes[i][row]])
			}
		}
		return ""
	}
}

// reached is the number that a thermometer of thresholds stands for, as constraints have it. Other raw values are as
// they are.
func reached(f *task.Feature, raw string) string {
	if f.Kind != task.Thermometer || len(f.Thresholds) == 0 || !strings.HasPrefix(raw, "<") {
		return raw
	}
	return task.Decimal(f.Floor())
}

// share of the people that were read.
func (c *checker) share(rows int) float64 { return float64(rows) / float64(max(c.p.N, 1)) }

// Shares of rows above which a finding is worth a warning, or is taken for a mistake of the task.
const (
	few  = 0.05
	most = 0.5
)

// rows reports what could not be read.
func (c *checker) rows() {
	if c.p.Failed > 0 {
		level := Warning
		if float64(c.p.Failed) > most*float64(c.r.Rows) {
			level = Problem
		}
		byColumn := map[string][]task.Problem{}
		var order []string
		for _, p := range c.p.Problems {
			if byColumn[p.Column] == nil {
				order = append(order, p.Column)
			}
			byColumn[p.Column] = append(byColumn[p.Column], p)
		}
		for _, name := range order {
			all, about := byColumn[name], "column "+message.Legible(name)
			if name == "" {
				about = "data"
			}
			at := "at"
			if c.p.Failed > len(c.p.Problems) {
				at = "of the first unreadable ones, at"
			}
			c.find(level, about, len(all), "%s cannot be read, %s line %d: %s",
				message.Count(len(all), "row"), at, all[0].Line, all[0].Reason)
		}
	}
	for _, w := range c.p.Warnings {
		c.find(Warning, "data", 0, "%s", w)
	}
	if c.t.Data.Label != "" && !slices.ContainsFunc(c.p.Labels, func(l int8) bool { return l == 1 }) &&
		slices.ContainsFunc(c.p.Labels, func(l int8) bool { return l == 0 }) {
		c.find(Warning, "data.favourable", 0, "no row has the favourable outcome %s", message.Quote(c.t.Data.Favourable))
	}
}

// numbers returns the distinct raw numbers of a feature and how many rows have each.
func (c *checker) numbers(i int) *profile {
	p := &profile{}
	byValue := map[float64]float64{}
	for j, s := range c.raws[i] {
		if v, ok := task.Number(s); ok {
			byValue[v] += float64(c.counts[i][j])
		}
	}
	p.tally(byValue)
	return p
}

// finitePointer is nil for what JSON cannot say.
func finitePointer(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// feature holds one feature against the data.
func (c *checker) feature(i int) {
	f := &c.t.Features[i]
	col := Column{Name: f.Name, Kind: f.Kind}
	switch {
	case f.Kind.IsNumber():
		c.number(i, f, &col)
	case len(f.Values) > 0 || f.Kind == task.Binary:
		c.category(i, f, &col)
	}
	c.moves(f)
	if f.Kind == task.OneHot {
		for j, raw := range c.raws[i] {
			if raw == "" {
				col.Missing = c.counts[i][j]
			}
		}
	}
	c.r.Features = append(c.r.Features, col)
}

func (c *checker) number(i int, f *task.Feature, col *Column) {
	p := c.numbers(i)
	if len(p.points) == 0 {
		return
	}
	mean, std := p.moments()
	col.Mean, col.Std = finitePointer(short(mean)), finitePointer(short(std))
	c.bounds(f, p, col)
	c.steps(f, p, col)
	c.domain(f, p)
	c.scale(f, mean, std)
}

// bounds reports people outside of the bounds. The 1st to 99th percentile leaves out one person in fifty.
func (c *checker) bounds(f *task.Feature, p *profile, col *Column) {
	for j, v := range p.points {
		switch {
		case v < f.Bounds[0]:
			col.Below += int(p.weights[j])
		case v > f.Bounds[1]:
			col.Above += int(p.weights[j])
		}
	}
	out := col.Below + col.Above
	switch span := "[" + task.Decimal(f.Bounds[0]) + ", " + task.Decimal(f.Bounds[1]) + "]"; {
	case out == 0:
	case out == c.p.N:
		c.find(Problem, f.Name, out, "no row lies within the bounds %s; the data run from %s to %s. Are the units the same?",
			span, task.Decimal(p.points[0]), task.Decimal(p.points[len(p.points)-1]))
	case c.share(out) > few && f.Actionable:
		c.find(Warning, f.Name, out, "%s of the rows lie outside of the bounds %s: %d below, %d above",
			message.Percent(c.share(out), 1), span, col.Below, col.Above)
	}
}

// steps reports values that are not a whole number of steps apart.
func (c *checker) steps(f *task.Feature, p *profile, col *Column) {
	if f.Step <= 0 {
		return
	}
	// The rows on one grid are those with the same remainder; the largest such set is the grid of the data.
	byRest := map[int64]float64{}
	top := 0.0
	for j, v := range p.points {
		rest := v/f.Step - math.Floor(v/f.Step)
		key := int64(math.Round(rest*1e6)) % 1e6
		byRest[key] += p.weights[j]
		top = max(top, byRest[key])
	}
	col.Off = int(p.rows - top)
	if c.share(col.Off) > most && f.Actionable {
		c.find(
			Warning,
			f.Name,
			col.Off,
			"at most %s of the rows lie on one grid of step %s: changes are whole steps from a person's own value, so "+
				"most results are values that the data do not have",
			message.Percent(1-c.share(col.Off), 1),
			task.Decimal(f.Step),
		)
	}
}

// domain reports numbers of an ordinal feature that no row has.
func (c *checker) domain(f *task.Feature, p *profile) {
	lo := f.Bounds[0]
	onGrid := func(v float64) bool { k := (v - lo) / f.Step; return math.Abs(k-math.Round(k)) < 1e-6 }
	switch {
	case f.Kind != task.Ordinal:
	case f.Levels == nil && f.Step > 0 && !math.IsInf(lo, 0) && !slices.ContainsFunc(p.points, onGrid):
		c.find(Problem, f.Name, c.p.N, "no row has one of the grades: %s and whole steps of %s from it",
			task.Decimal(lo), task.Decimal(f.Step))
	case f.Actionable:
		unseen := slices.DeleteFunc(slices.Clone(f.Levels), func(v float64) bool { return slices.Contains(p.points, v) })
		if len(unseen) > 0 {
			c.find(Warning, f.Name, 0, "no row has the value %s, which an action may set", message.List(decimals(unseen), 10))
		}
	}
}

// scale compares mean and std with those of the data.
func (c *checker) scale(f *task.Feature, mean, std float64) {
	raw := f.Mean == 0 && f.Std == 1
	switch {
	case std == 0:
		if f.Actionable {
			c.find(Warning, f.Name, 0, "all rows have the value %s: what a change of it does, and costs, no data say",
				task.Decimal(short(mean)))
		}
	case raw && f.Actionable && f.Weight == 1 && std > 10 && (c.t.Cost.Weights == task.InverseStd ||
		c.t.Cost.Weights == ""):
		c.find(
			Warning,
			f.Name,
			0,
			"without mean and std one raw unit costs as much as one standard deviation of other features; here one "+
				"standard deviation is %s units: set weight",
			task.Decimal(task.Rounded(std, 3)),
		)
	case raw || c.t.Encoded:
	case math.Abs(f.Mean-mean) > 0.5*std:
		c.find(Warning, f.Name, 0, "mean is %s in the task and %s in the data, %s of its standard deviations apart",
			task.Decimal(f.Mean), task.Decimal(task.Rounded(mean, 6)), task.Decimal(task.Rounded(math.Abs(f.Mean-mean)/std, 2)))
	case f.Std > 2*std || f.Std < std/2:
		c.find(Warning, f.Name, 0, "std is %s in the task and %s in the data", task.Decimal(f.Std),
			task.Decimal(task.Rounded(std, 6)))
	}
}

// category holds the values of a category, or of a binary feature, against the data.
func (c *checker) category(i int, f *task.Feature, col *Column) {
	values := f.Values
	if f.Kind == task.Binary {
		values = []string{f.One}
	}
	var unseen []string
	for j, v := range values {
		n := 0
		for k, raw := range c.raws[i] {
			if raw == v || sameNumber(raw, v) {
				n += c.counts[i][k]
			}
		}
		share := c.share(n)
		col.Shares = append(col.Shares, task.Rounded(share, 6))
		if n == 0 {
			unseen = append(unseen, v)
		}
		if j < len(f.Shares) && f.Kind != task.Thermometer {
			c.shares(f, v, f.Shares[j], share)
		}
	}
	switch {
	case len(unseen) == 0:
	case f.Kind == task.Binary:
		c.find(Warning, f.Name, 0, "no row has the value %s, which is the 1", message.Quote(f.One))
	case len(unseen) == len(values):
		c.find(Problem, f.Name, 0, "no row has any of the values")
	case f.Actionable && f.Transitions == nil:
		c.find(Warning, f.Name, 0, "no row has the value %s, which an action may choose", message.List(unseen, 10))
	}
	if f.Kind != task.Binary {
		c.transitions(i, f)
	}
}

// shares compares a share of the task with that of the data.
func (c *checker) shares(f *task.Feature, value string, have, data float64) {
	switch {
	case f.Actionable && (have == 0 || have == 1) && c.t.Cost.Weights == task.InverseStd && f.SwitchCost == 0:
		c.find(
			Warning,
			f.Name,
			0,
			"the share of %s is %s, so that its weight is 1/eps: a change of it costs as much as a hundred others",
			message.Quote(value),
			task.Decimal(have),
		)
	case math.Abs(have-data) > 0.1:
		c.find(Warning, f.Name, 0, "the share of %s is %s in the task and %s in the data", message.Quote(value),
			task.Decimal(have), task.Decimal(task.Rounded(data, 3)))
	}
}

// transitions reports tables that no row of the data can use.
func (c *checker) transitions(i int, f *task.Feature) {
	if f.Transitions == nil || !f.Actionable {
		return
	}
	movable := 0
	for j, raw := range c.raws[i] {
		to := f.Transitions[raw]
		if slices.ContainsFunc(to, func(v string) bool { return v != raw }) {
			movable += c.counts[i][j]
		}
	}
	if movable == 0 {
		c.find(Problem, f.Name, c.p.N, "transitions let no row of the data change")
	}
}

// smallest returns the smallest change of a feature that is any, in the units of its largest changes, and its name.
func smallest(f *task.Feature) (size float64, name string) {
	switch {
	case f.Kind.IsNumber() && len(f.Levels) > 0:
		size = math.Inf(1)
		for i := 1; i < len(f.Levels); i++ {
			size = min(size, f.Levels[i]-f.Levels[i-1])
		}
		return size, "the distance of any two of its values"
	case f.Kind.IsNumber() && f.Step > 0:
		return f.Step, "the step " + task.Decimal(f.Step)
	case f.Kind == task.Thermometer || f.Ordered:
		return 1, "one place"
	}
	return 0, "any change"
}

// blocked says which directions a feature's largest changes leave no change in.
func blocked(f *task.Feature) (up, down bool) {
	size, _ := smallest(f)
	up = f.Direction == task.Decrease || below(min(f.MaxIncrease, f.MaxChange), size)
	down = f.Direction == task.Increase || below(min(f.MaxDecrease, f.MaxChange), size)
	return up, down
}

// below says whether a largest change is too small for the smallest one, up to rounding.
func below(most, size float64) bool { return most == 0 || most < size*(1-1e-6) }

// moves reports largest changes below the smallest change that there is. That an increase or a decrease is 0 may be
// meant so.
func (c *checker) moves(f *task.Feature) {
	up, down := blocked(f)
	_, name := smallest(f)
	switch {
	case !f.Actionable:
	case up && down:
		c.find(Problem, f.Name, 0, "it is actionable, but no action can change it: its largest changes are less than %s",
			name)
	case up && f.Direction != task.Decrease && f.MaxIncrease > 0:
		c.find(Warning, f.Name, 0, "no action can increase it: max_increase %s is less than %s", task.Decimal(f.MaxIncrease),
			name)
	case down && f.Direction != task.Increase && f.MaxDecrease > 0:
		c.find(Warning, f.Name, 0, "no action can decrease it: max_decrease %s is less than %s", task.Decimal(f.MaxDecrease),
			name)
	}
}

// changes says whether any action can change a feature, by itself or through links.
func (c *checker) changes(name string) bool {
	i := c.index(name)
	if i < 0 {
		return false
	}
	f := &c.t.Features[i]
	if !f.Actionable {
		return slices.ContainsFunc(c.t.Links, func(l task.Link) bool { return l.To == name && c.changes(l.From) })
	}
	up, down := blocked(f)
	return !up || !down
}

// dead reports a link whose source stays as it is.
func (c *checker) dead(l *task.Link) {
	if !c.changes(l.From) {
		c.find(Warning, fmt.Sprintf("link %s -> %s", l.From, l.To), 0,
			"no action changes %s, neither by itself nor through another link: this one moves nothing", message.Legible(l.From))
	}
}

// rules counts for how many rows each constraint holds.
func (c *checker) rules() {
	for i := range c.t.Rules {
		r := &c.t.Rules[i]
		n := RuleCount{Text: r.Text}
		if len(r.Of) > 0 {
			c.subset(r, &n)
			c.r.Rules = append(c.r.Rules, n)
			continue
		}
		for row := range c.p.N {
			value := c.value(row)
			if !allHold(r.If, value) {
				continue
			}
			n.Applies++
			if !allHold(r.Then, value) {
				n.Broken++
			}
		}
		about := "constraint " + strconv.Quote(n.Text)
		switch {
		case n.Applies == 0 && len(r.If) > 0:
			c.find(Warning, about, 0, "its condition holds for no row")
		case n.Applies == n.Broken:
			c.find(Problem, about, n.Broken, "no row fulfils it as it is; are its units those of the file?")
		case float64(n.Broken) > few*float64(n.Applies):
			c.find(Warning, about, n.Broken, "%s of the rows that it is about break it as they are",
				message.Percent(float64(n.Broken)/float64(n.Applies), 1))
		}
		c.r.Rules = append(c.r.Rules, n)
	}
}

// subset looks at a limit on how many of some features change: people as they are change none.
func (c *checker) subset(r *task.Rule, n *RuleCount) {
	n.Applies = c.p.N
	movable := 0
	for i := range c.t.Features {
		if f := &c.t.Features[i]; slices.Contains(r.Of, f.Name) && f.Actionable {
			movable++
		}
	}
	if movable <= r.AtMost {
		c.find(Warning, "constraint "+strconv.Quote(n.Text), 0, "it limits nothing: %s of them can change at all",
			message.Count(movable, "feature"))
	}
}

// links reports links that the data contradict.
func (c *checker) links() {
	for i := range c.t.Links {
		l := &c.t.Links[i]
		from, to := c.index(l.From), c.index(l.To)
		if from < 0 || to < 0 {
			continue
		}
		c.dead(l)
		about := fmt.Sprintf("link %s -> %s", l.From, l.To)
		if len(l.Map) > 0 {
			c.linkMap(l, from, to, about)
			continue
		}
		if r := c.correlation(from, to); r*l.Scale < 0 && (r > 0.3 || r < -0.3) {
			c.find(Warning, about, 0, "an increase moves it the other way than in the data, where their correlation is %s",
				task.Decimal(task.Rounded(r, 2)))
		}
	}
}

// linkMap counts the people whose value is another than the map gives.
func (c *checker) linkMap(l *task.Link, from, to int, about string) {
	covered, broken := 0, 0
	ordered := c.t.Features[from].Kind.IsNumber()
	for row := range c.p.N {
		a, b := c.raws[from][c.codes[from][row]], c.raws[to][c.codes[to][row]]
		want, ok := mapped(l.Map, a, ordered)
		if !ok {
			continue
		}
		covered++
		if b != want && !sameNumber(b, want) {
			broken++
		}
	}
	switch {
	case covered == 0:
		c.find(Problem, about, 0, "no row has a value of %s that the link speaks of", l.From)
	case broken == covered:
		c.find(Problem, about, broken, "no row has the value of %s that the link gives for its %s", l.To, l.From)
	case float64(broken) > few*float64(covered):
		c.find(Warning, about, broken, "%s of the rows have another %s than the link gives for their %s",
			message.Percent(float64(broken)/float64(covered), 1), l.To, l.From)
	}
}

// mapped returns the entry of a map for a value: of a category its own, of a number the last one at or below it.
func mapped(m []task.Pair, value string, ordered bool) (to string, ok bool) {
	v, isNumber := task.Number(value)
	best := 0.0
	for _, p := range m {
		x, numeric := task.Number(p.From)
		switch {
		case p.From == value || (isNumber && numeric && x == v):
			return p.To, true
		case ordered && isNumber && numeric && x <= v && (!ok || x > best):
			to, best, ok = p.To, x, true
		}
	}
	return to, ok
}

func (c *checker) index(name string) int {
	return slices.IndexFunc(c.t.Features, func(f task.Feature) bool { return f.Name == name })
}

// whole looks at the task as a whole.
func (c *checker) whole() {
	free := 0
	for i := range c.t.Features {
		f := &c.t.Features[i]
		if f.Actionable {
			free++
		} else if f.Mutable && !c.t.Moves(f.Name) {
			c.find(Warning, f.Name, 0, "it may change as a side effect, but no link moves it")
		}
	}
	if free == 0 {
		c.find(Problem, "features", 0, "no feature is actionable: there is no recourse")
	}
	if k := c.t.Sparsity.MaxFeatures; k > free && free > 0 {
		c.find(Warning, "sparsity", 0, "max_features is %d, and %s can change: it limits nothing", k,
			message.Count(free, "feature"))
	}
}

// model checks that the model and the task belong together: as many inputs, a class of that index, and better decisions
// than the more frequent outcome alone.
func (c *checker) model(ctx context.Context, m Model) error {
	if m.Dim() != c.t.Dim() {
		c.find(Problem, "model", 0, "the model has %d inputs, but the task's features make %d: "+
			"each feature is one input, each value of a one-hot feature another", m.Dim(), c.t.Dim())
		return nil
	}
	logits, classes, err := m.Logits(ctx, c.p.X)
	if err != nil {
		return fmt.Errorf("running the model: %w", err)
	}
	index := c.t.Target.Index
	if index >= max(classes, 2) {
		c.find(Problem, "target.index", 0, "the model has no class %d; it has 0 to %d", index, max(classes, 2)-1)
		return nil
	}
	c.r.Encoding = "unverified"
	s := judge(logits, classes, c.p.Labels, index)
	if s.Rows == 0 {
		c.find(Warning, "model", 0, "it cannot be judged: no row has a known outcome")
		return nil
	}
	c.r.Score = &s
	if s.Accuracy < s.Majority {
		c.find(Problem, "model", 0,
			"it decides %s of %s as labelled, and always naming the more frequent outcome would decide %s: "+
				"the encoding (order of features and values, mean, std), target.index or data.favourable is probably wrong",
			message.Percent(s.Accuracy, 1), message.Count(s.Rows, "row"), message.Percent(s.Majority, 1))
	}
	return nil
}

// Model is what Check asks of a classifier.
type Model interface {
	// Dim returns the number of inputs of a row.
	Dim() int
	// Logits returns rows x classes values for rows x Dim inputs; a single value z of a row stands for the classes' [0,
	// z].
	Logits(ctx context.Context, x []float32) (logits []float32, classes int, err error)
}

// Score says how well a model decides rows whose outcome is known.
type Score struct {
	Rows     int     `json:"rows"`
	Index    int     `json:"index"`    // class index that stands for the favourable outcome
	Classes  int     `json:"classes"`  // of the model
	Accuracy float64 `json:"accuracy"` // share of rows that are decided as labelled
	Majority float64 `json:"majority"` // accuracy of always naming the more frequent outcome
}

// judge scores the class index against labels (1 favourable, 0 not, -1 not known).
func judge(logits []float32, classes int, labels []int8, index int) Score {
	s := Score{Index: index, Classes: max(classes, 2)}
	right, favourable := 0, 0
	for i, label := range labels {
		if label < 0 {
			continue
		}
		if (margin(logits[i*classes:(i+1)*classes], index) > 0) == (label == 1) {
			right++
		}
		favourable += int(label)
		s.Rows++
	}
	if s.Rows > 0 {
		// Counts, so that a model exactly at the base rate is not below it by a rounding.
		n := float64(s.Rows)
		s.Accuracy, s.Majority = float64(right)/n, float64(max(favourable, s.Rows-favourable))/n
	}
	return s
}

// margin is the logit of a class less the largest other one.
func margin(z []float32, index int) float64 {
	if len(z) == 1 {
		if index == 0 {
			return -float64(z[0])
		}
		return float64(z[0])
	}
	other := math.Inf(-1)
	for j, v := range z {
		if j != index {
			other = max(other, float64(v))
		}
	}
	return float64(z[index]) - other
}

// correlation returns that of two features on a scale; 0 when one has no numbers or does not vary.
func (c *checker) correlation(a, b int) float64 {
	var x, y []float64
	for row := range c.p.N {
		u, okU := task.Number(c.raws[a][c.codes[a][row]])
		v, okV := task.Number(c.raws[b][c.codes[b][row]])
		if okU && okV {
			x, y = append(x, u), append(y, v)
		}
	}
	if len(x) < 3 {
		return 0
	}
	if r := stat.Correlation(x, y, nil); r == r { // no NaN
		return r
	}
	return 0
}

// interval is what bounds and constraints leave of a sum of numbers. The names are those of the constraints that say
// so, "" for the bounds.
type interval struct {
	lo, hi         float64
	loOpen, hiOpen bool
	loBy, hiBy     string
	levels         []float64 // the only values that there are; nil = any
}

// empty says whether nothing is left.
func (s *interval) empty() bool {
	slack := 1e-9 * math.Max(1, math.Min(math.Abs(s.lo), math.Abs(s.hi)))
	if s.lo > s.hi+slack || (s.loOpen || s.hiOpen) && s.lo > s.hi-slack {
		return true
	}
	return s.levels != nil && !slices.ContainsFunc(s.levels, func(v float64) bool {
		return (v > s.lo+slack || !s.loOpen && v >= s.lo-slack) && (v < s.hi-slack || !s.hiOpen && v <= s.hi+slack)
	})
}

// choice is what constraints leave of a category: values, and the constraint that last took some away.
type choice struct {
	values []string
	by     string
}

// space is what bounds and constraints leave of the values of all features; what it does not hold, the one behind it
// does.
type space struct {
	c         *checker
	behind    *space
	intervals map[string]interval
	choices   map[string]choice
}

func (c *checker) space(behind *space) *space {
	return &space{c, behind, map[string]interval{}, map[string]choice{}}
}

// conflicts reports constraints that no values within the bounds fulfil together, where looking at one sum of features
// at a time shows it.
func (c *checker) conflicts() {
	all := c.space(nil)
	for _, single := range []bool{true, false} { // what is known of single features counts for sums of them
		for i := range c.t.Rules {
			r := &c.t.Rules[i]
			if len(r.If) > 0 || len(r.Of) > 0 {
				continue
			}
			text := r.Text
			if why := all.add(r.Then, text, single); why != "" {
				c.find(Problem, "constraint "+strconv.Quote(text), 0, "%s", why)
			}
		}
	}
	for i := range c.t.Rules {
		r := &c.t.Rules[i]
		if len(r.If) == 0 {
			continue
		}
		text, own := r.Text, c.space(all)
		why := own.add(r.Then, text, true)
		if why == "" {
			why = own.add(r.Then, text, false)
		}
		if why != "" {
			c.find(Warning, "constraint "+strconv.Quote(text), 0,
				"what follows its condition is impossible, so no action may bring the condition about: %s", why)
		}
	}
}

// add takes the inequalities over single features, or the others, into account, and says why they cannot hold, "" if
// they can. What cannot hold is left out.
func (s *space) add(all []task.Inequality, by string, single bool) (why string) {
	for i := range all {
		q := &all[i]
		one := !slices.ContainsFunc(q.Terms, func(t task.Term) bool { return t.Feature != q.Terms[0].Feature })
		if one != single {
			continue
		}
		now := ""
		switch category := func(t task.Term) bool { return t.Value != "" }; {
		case !slices.ContainsFunc(q.Terms, category):
			now = s.number(q, by)
		case one:
			now = s.category(q, by)
		}
		if why == "" {
			why = now
		}
	}
	return why
}

// number narrows the interval of the inequality's sum, turned and scaled so that its first coefficient is 1.
func (s *space) number(q *task.Inequality, by string) (why string) {
	first := q.Terms[0].Coef
	terms := slices.Clone(q.Terms)
	key, names := "", []string{}
	for i := range terms {
		terms[i].Coef /= first
		key += fmt.Sprintf("%q %.9g ", terms[i].Feature, terms[i].Coef)
		names = append(names, message.Legible(terms[i].Feature))
	}
	sp, bound := s.interval(key, terms), q.Bound/first
	other := sp.loBy
	if first > 0 {
		if bound > sp.hi || bound == sp.hi && !q.Strict {
			return ""
		}
		sp.hi, sp.hiOpen, sp.hiBy = bound, q.Strict, by
	} else {
		if other = sp.hiBy; bound < sp.lo || bound == sp.lo && !q.Strict {
			return ""
		}
		sp.lo, sp.loOpen, sp.loBy = bound, q.Strict, by
	}
	if !sp.empty() {
		s.intervals[key] = sp
		return ""
	}
	what := "no value of " + names[0] + " within its bounds fulfils it"
	if len(names) > 1 {
		what = "no values of " + strings.Join(names,
			", ") + " within what bounds and other constraints leave of each fulfil it"
	}
	return what + together(by, other)
}

// together names the other constraint, if there is one.
func together(by, other string) string {
	if other == "" || other == by {
		return ""
	}
	return fmt.Sprintf(" together with %q", other)
}

// interval returns what is known of a sum: of a single feature its bounds or values, of several what their own
// intervals make.
func (s *space) interval(key string, terms []task.Term) interval {
	for at := s; at != nil; at = at.behind {
		if sp, ok := at.intervals[key]; ok {
			return sp
		}
	}
	if len(terms) == 1 {
		return s.c.reach(terms[0].Feature)
	}
	sum := interval{}
	for _, t := range terms {
		one := s.interval(fmt.Sprintf("%q %.9g ", t.Feature, 1.0), []task.Term{{Feature: t.Feature, Coef: 1}})
		lo, hi := t.Coef*one.lo, t.Coef*one.hi
		if t.Coef < 0 {
			lo, hi, one.loOpen, one.hiOpen = hi, lo, one.hiOpen, one.loOpen
		}
		sum.lo, sum.hi = sum.lo+lo, sum.hi+hi
		sum.loOpen, sum.hiOpen = sum.loOpen || one.loOpen, sum.hiOpen || one.hiOpen
	}
	return sum
}

// reach returns the values of a number: those within its bounds, which say nothing about one that never changes.
func (c *checker) reach(name string) interval {
	s := interval{lo: math.Inf(-1), hi: math.Inf(1)}
	i := c.index(name)
	if i < 0 {
		return s
	}
	f := &c.t.Features[i]
	switch {
	case f.Kind == task.Ordinal && len(f.Levels) > 0:
		s.levels = f.Levels
	case f.Kind == task.Thermometer && len(f.Thresholds) > 0:
		below, _ := task.Number(reached(f, "<"))
		s.levels = append([]float64{below}, f.Thresholds...)
	}
	if s.levels != nil {
		s.lo, s.hi = s.levels[0], s.levels[len(s.levels)-1]
	}
	if f.Kind.IsNumber() && f.Mutable {
		s.lo, s.hi = math.Max(s.lo, f.Bounds[0]), math.Min(s.hi, f.Bounds[1])
	}
	return s
}

// category takes values away that break the inequality.
func (s *space) category(q *task.Inequality, by string) (why string) {
	name := q.Terms[0].Feature
	left, known := choice{}, false
	for at := s; at != nil && !known; at = at.behind {
		left, known = at.choices[name]
	}
	if !known {
		i := s.c.index(name)
		if i < 0 {
			return ""
		}
		f := &s.c.t.Features[i]
		if left.values = f.Values; f.Kind == task.Binary {
			left.values = []string{f.Zero, f.One} // without a name the zero is none of the values that constraints speak of
		}
	}
	values := slices.DeleteFunc(slices.Clone(left.values), func(v string) bool {
		return !holds(q, func(string) string { return v })
	})
	switch {
	case len(values) == 0:
		return "no value of " + message.Legible(name) + " fulfils it" + together(by, left.by)
	case len(values) < len(left.values):
		s.choices[name] = choice{values, by}
	}
	return ""
}

// room returns how far the raw values of a person are from breaking an inequality: its bound less the sum of its terms,
// in the units of the inequality; below 0 it is broken. value returns the raw value of a feature as text, "" when it is
// missing. The result is NaN when a term needs a number that there is not.
func room(q *task.Inequality, value func(feature string) string) float64 {
	sum := 0.0
	for _, t := range q.Terms {
		v := value(t.Feature)
		switch {
		case t.Value == "":
			x, ok := task.Number(v)
			if !ok {
				return math.NaN()
			}
			sum += t.Coef * x
		case v == t.Value || sameNumber(v, t.Value):
			sum += t.Coef
		}
	}
	return q.Bound - sum
}

// holds says whether an inequality holds for a person, up to the rounding of the sum. What cannot be told does not
// hold.
func holds(q *task.Inequality, value func(feature string) string) bool {
	slack := room(q, value)
	tolerance := 1e-9 * math.Max(1, math.Abs(q.Bound))
	if q.Strict {
		return slack > tolerance
	}
	return slack >= -tolerance
}

// allHold says whether all of the inequalities hold.
func allHold(all []task.Inequality, value func(feature string) string) bool {
	for i := range all {
		if !holds(&all[i], value) {
			return false
		}
	}
	return true
}
