package draft

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

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
	Findings []Finding   `json:"findings"`        // problems first
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

// Check holds a task against the people of a data file, as task.Read returns them, and against a model (nil: none). The error is one of the model.
func Check(ctx context.Context, t *task.Task, p *task.People, m Model) (*Report, error) {
	c := &checker{t: t, p: p, r: &Report{Rows: p.Total - p.Filtered - p.Excluded, Read: p.N, Filtered: p.Filtered, Features: []Column{}, Rules: []RuleCount{}, Findings: []Finding{}}}
	if err := c.decode(); err != nil {
		return nil, err
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
		rank := func(f Finding) int {
			if f.Level == Problem {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
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

// reached is the number that a thermometer of thresholds stands for, as constraints have it. Other raw values are as they are.
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
		byColumn := map[string]int{}
		var order []string
		for i := range c.p.Problems {
			name := c.p.Problems[i].Column
			if byColumn[name]++; byColumn[name] == 1 {
				order = append(order, name)
			}
		}
		for _, name := range order {
			i := slices.IndexFunc(c.p.Problems, func(b task.Problem) bool { return b.Column == name })
			about := "column " + legible(name)
			if name == "" {
				about = "data"
			}
			n, at := byColumn[name], "at"
			if c.p.Failed > len(c.p.Problems) {
				at = "of the first unreadable ones, at"
			}
			c.find(level, about, n, "%s cannot be read, %s line %d: %s", plural(n, "row"), at, c.p.Problems[i].Line, c.p.Problems[i].Reason)
		}
	}
	for _, w := range c.p.Warnings {
		c.find(Warning, "data", 0, "%s", w)
	}
	if c.t.Data.Label != "" && !slices.ContainsFunc(c.p.Labels, func(l int8) bool { return l == 1 }) && slices.ContainsFunc(c.p.Labels, func(l int8) bool { return l == 0 }) {
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
