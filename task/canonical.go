package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
)

// The structs below give the canonical form its keys and their order. A nil pointer is a key that is left out.
type (
	jsonTask struct {
		Version  int           `json:"version"`
		Encoded  bool          `json:"encoded"`
		Data     jsonData      `json:"data"`
		Target   Target        `json:"target"`
		Features []jsonFeature `json:"features"`
		Links    []jsonLink    `json:"links,omitempty"`
		Rules    []any         `json:"constraints,omitempty"`
		Cost     jsonCost      `json:"cost"`
		Sparsity Sparsity      `json:"sparsity"`
	}
	jsonData struct {
		Label       string          `json:"label,omitempty"`
		LabelSuffix string          `json:"label_suffix,omitempty"`
		Favourable  *string         `json:"favourable,omitempty"`
		Missing     []string        `json:"missing,omitempty"`
		Delimiter   string          `json:"delimiter"`
		Trim        bool            `json:"trim"`
		Comment     string          `json:"comment,omitempty"`
		Skip        int             `json:"skip"`
		Columns     []string        `json:"columns,omitempty"`
		Drop        []string        `json:"drop,omitempty"`
		Subgroups   []string        `json:"subgroups,omitempty"`
		Filter      []jsonCondition `json:"filter,omitempty"`
	}
	jsonCondition struct {
		Column string   `json:"column"`
		Min    *float64 `json:"min,omitempty"`
		Max    *float64 `json:"max,omitempty"`
		Not    []string `json:"not,omitempty"`
	}
	jsonFeature struct {
		Name        string              `json:"name"`
		Column      string              `json:"column"`
		Kind        Kind                `json:"kind"`
		Mean        *float64            `json:"mean,omitempty"`
		Std         *float64            `json:"std,omitempty"`
		One         *string             `json:"one,omitempty"`
		Zero        string              `json:"zero,omitempty"`
		Values      []string            `json:"values,omitempty"`
		Thresholds  []float64           `json:"thresholds,omitempty"`
		Ordered     bool                `json:"ordered,omitempty"`
		Shares      []float64           `json:"shares,omitempty"`
		MAD         *float64            `json:"mad,omitempty"`
		Quantiles   []float64           `json:"quantiles,omitempty"`
		Actionable  bool                `json:"actionable"`
		Mutable     *bool               `json:"mutable,omitempty"`
		Direction   Direction           `json:"direction,omitempty"`
		Bounds      []*float64          `json:"bounds,omitempty"`
		Step        float64             `json:"step,omitempty"`
		MaxIncrease *float64            `json:"max_increase,omitempty"`
		MaxDecrease *float64            `json:"max_decrease,omitempty"`
		MaxChange   *float64            `json:"max_change,omitempty"`
		Weight      float64             `json:"weight"`
		SwitchCost  float64             `json:"switch_cost,omitempty"`
		Transitions map[string][]string `json:"transitions,omitzero"`
		Subgroup    bool                `json:"subgroup,omitempty"`
	}
	jsonLink struct {
		From  string            `json:"from"`
		To    string            `json:"to"`
		Scale float64           `json:"scale,omitempty"`
		Map   map[string]string `json:"map,omitempty"`
	}
	jsonImplies struct {
		If   []string `json:"if"`
		Then []string `json:"then"`
	}
	jsonSubset struct {
		AtMost int      `json:"at_most"`
		Of     []string `json:"of"`
	}
	jsonCost struct {
		Norm     Norm     `json:"norm"`
		L1Ratio  *float64 `json:"l1_ratio,omitempty"`
		Weights  Weights  `json:"weights"`
		Eps      float64  `json:"eps"`
		Switches Switches `json:"switches,omitempty"`
	}
)

// JSON returns the canonical form: the task file in JSON with defaults written out, except of keys that were added to
// the format since: a task that does not use them has the form, and so the hash, that it always had. Parse reads it
// back to an equal Task.
func (t *Task) JSON() []byte {
	d := t.Data
	j := jsonTask{
		Version: t.Version, Encoded: t.Encoded,
		Data: jsonData{
			Label: d.Label, LabelSuffix: d.LabelSuffix, Missing: d.Missing, Delimiter: string(d.Delimiter), Trim: d.Trim,
			Skip: d.Skip, Columns: d.Columns, Drop: d.Drop, Subgroups: d.Subgroups,
		},
		Target: t.Target, Cost: t.Cost.json(), Sparsity: t.Sparsity,
	}
	if d.Label != "" {
		j.Data.Favourable = &d.Favourable
	}
	if d.Comment != 0 {
		j.Data.Comment = string(d.Comment)
	}
	for _, c := range d.Filter {
		j.Data.Filter = append(j.Data.Filter, jsonCondition{
			Column: c.Column, Min: finite(c.Min), Max: finite(c.Max),
			Not: c.Not,
		})
	}
	for i := range t.Features {
		j.Features = append(j.Features, t.json(&t.Features[i]))
	}
	for _, l := range t.Links {
		j.Links = append(j.Links, l.json())
	}
	for i := range t.Rules {
		j.Rules = append(j.Rules, t.Rules[i].json())
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(j); err != nil {
		panic(err) // all numbers are finite and all texts are text: Parse saw to it
	}
	return b.Bytes()
}

// Hash returns the SHA-256 of the canonical form in hexadecimal: comments, key order and the writing of defaults do not
// change it.
func (t *Task) Hash() string {
	sum := sha256.Sum256(t.JSON())
	return hex.EncodeToString(sum[:])
}

func (c *Cost) json() jsonCost {
	j := jsonCost{Norm: c.Norm, Weights: c.Weights, Eps: c.Eps}
	if c.Norm == Mixed {
		j.L1Ratio = &c.L1Ratio
	}
	if c.Switches != Once {
		j.Switches = c.Switches
	}
	return j
}

func (t *Task) json(f *Feature) jsonFeature {
	j := jsonFeature{
		Name: f.Name, Column: f.Column, Kind: f.Kind, Actionable: f.Actionable, Weight: f.Weight, Subgroup: f.Subgroup,
		Values: f.Values, Thresholds: f.Thresholds, Ordered: f.Ordered, Shares: f.Shares, Quantiles: f.Quantiles,
		SwitchCost: f.SwitchCost, Transitions: f.Transitions, Zero: f.Zero,
	}
	if f.Mutable != (f.Actionable || t.Moves(f.Name)) {
		j.Mutable = &f.Mutable
	}
	if f.Kind != OneHot || f.Ordered {
		j.Direction = f.Direction
	}
	if f.Kind == Binary {
		j.One = &f.One
	}
	if f.Kind.IsNumber() {
		j.Mean, j.Std, j.Step = &f.Mean, &f.Std, f.Step
		j.Bounds = []*float64{finite(f.Bounds[0]), finite(f.Bounds[1])}
	}
	if f.Kind.IsNumber() && (f.MAD > 0 || t.Cost.Weights == InverseMAD) {
		j.MAD = &f.MAD // which may be 0
	}
	j.MaxIncrease, j.MaxDecrease, j.MaxChange = finite(f.MaxIncrease), finite(f.MaxDecrease), finite(f.MaxChange)
	return j
}

func (l *Link) json() jsonLink {
	j := jsonLink{From: l.From, To: l.To, Scale: l.Scale}
	for _, p := range l.Map {
		if j.Map == nil {
			j.Map = map[string]string{}
		}
		j.Map[p.From] = p.To
	}
	return j
}

// json returns the rule as a text or a mapping, as it was written.
func (r *Rule) json() any {
	switch {
	case r.Of != nil:
		return jsonSubset{r.AtMost, r.Of}
	case r.If != nil:
		return jsonImplies{texts(r.If), texts(r.Then)}
	}
	return r.Text
}

// texts returns the conditions that inequalities came from.
func texts(list []Inequality) []string {
	var all []string
	for _, q := range list {
		all = append(all, q.Text)
	}
	return slices.Compact(all) // an equation is two inequalities of one text
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) {
		return nil
	}
	return &v
}
