package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
)

// The structs below give the canonical form its keys and their order. A nil pointer is a key that is left out.
type (
	jsonTask struct {
		Version  int           `json:"version"`
		Encoded  bool          `json:"encoded"`
		Data     jsonData      `json:"data"`
		Target   jsonTarget    `json:"target"`
		Features []jsonFeature `json:"features"`
		Cost     jsonCost      `json:"cost"`
		Sparsity jsonSparsity  `json:"sparsity"`
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
	jsonTarget struct {
		Class  string  `json:"class"`
		Index  int     `json:"index"`
		Margin float64 `json:"margin"`
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
		Shares      []float64           `json:"shares,omitempty"`
		Actionable  bool                `json:"actionable"`
		Direction   Direction           `json:"direction,omitempty"`
		Bounds      []*float64          `json:"bounds,omitempty"`
		Step        float64             `json:"step,omitempty"`
		MaxIncrease *float64            `json:"max_increase,omitempty"`
		MaxDecrease *float64            `json:"max_decrease,omitempty"`
		MaxChange   *float64            `json:"max_change,omitempty"`
		Weight      float64             `json:"weight"`
		Transitions map[string][]string `json:"transitions,omitzero"`
		Subgroup    bool                `json:"subgroup,omitempty"`
	}
	jsonCost struct {
		Norm    string  `json:"norm"`
		Weights string  `json:"weights"`
		Eps     float64 `json:"eps"`
	}
	jsonSparsity struct {
		MaxFeatures int `json:"max_features"`
	}
)

// JSON returns the canonical form: the task file in JSON with every default written out. Parse reads it back to an equal Task.
func (t *Task) JSON() []byte {
	d := t.Data
	j := jsonTask{
		Version: t.Version, Encoded: t.Encoded,
		Data: jsonData{
			Label: d.Label, LabelSuffix: d.LabelSuffix, Missing: d.Missing, Delimiter: string(d.Delimiter), Trim: d.Trim,
			Skip: d.Skip, Columns: d.Columns, Drop: d.Drop, Subgroups: d.Subgroups,
		},
		Target: jsonTarget(t.Target), Cost: jsonCost{Norm: string(t.Cost.Norm), Weights: t.Cost.Weights, Eps: t.Cost.Eps}, Sparsity: jsonSparsity(t.Sparsity),
	}
	if d.Label != "" {
		j.Data.Favourable = &d.Favourable
	}
	if d.Comment != 0 {
		j.Data.Comment = string(d.Comment)
	}
	for _, c := range d.Filter {
		j.Data.Filter = append(j.Data.Filter, jsonCondition{Column: c.Column, Min: finite(c.Min), Max: finite(c.Max), Not: c.Not})
	}
	for i := range t.Features {
		j.Features = append(j.Features, t.Features[i].json())
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

// Hash returns the SHA-256 of the canonical form in hexadecimal: comments, key order and the writing of defaults do not change it.
func (t *Task) Hash() string {
	sum := sha256.Sum256(t.JSON())
	return hex.EncodeToString(sum[:])
}

func (f *Feature) json() jsonFeature {
	j := jsonFeature{
		Name: f.Name, Column: f.Column, Kind: f.Kind, Actionable: f.Actionable, Weight: f.Weight, Subgroup: f.Subgroup,
		Values: f.Values, Shares: f.Shares, Transitions: f.Transitions, Zero: f.Zero,
	}
	if f.Kind != OneHot {
		j.Direction = f.Direction
	}
	if f.Kind == Binary {
		j.One = &f.One
	}
	if f.Kind == Numeric || f.Kind == Ordinal {
		j.Mean, j.Std, j.Step = &f.Mean, &f.Std, f.Step
		j.Bounds = []*float64{finite(f.Bounds[0]), finite(f.Bounds[1])}
		j.MaxIncrease, j.MaxDecrease, j.MaxChange = finite(f.MaxIncrease), finite(f.MaxDecrease), finite(f.MaxChange)
	}
	return j
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) {
		return nil
	}
	return &v
}
