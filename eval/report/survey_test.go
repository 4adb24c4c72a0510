package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

func TestChanges(t *testing.T) {
	tk, err := task.Parse("task.yaml", []byte(`version: 1
data: {label: y, favourable: "1"}
target: {class: favourable, index: 1, margin: 0}
features:
  - {name: income, kind: numeric, mean: 1000, std: 500, bounds: [0, 9000]}
  - {name: job, kind: onehot, values: [none, some]}
  - {name: age, kind: numeric, mean: 40, std: 10, actionable: false}
cost: {norm: l1, weights: inverse_std, eps: 1.0e-3}
`))
	must.Do(t, err)
	set := must.Get(constraint.Compile(tk))(t)
	records := eval.NewRecords([]float64{0.1}, nil)
	found := func(point ...float32) eval.Promise { return eval.Promise{Status: recourse.Found, Point: point} }
	none := eval.Promise{Status: recourse.NoneFound}
	r := &eval.Result{
		Settings: eval.Settings{Margins: []float64{0.1}}, Margins: []eval.AtMargin{{Margin: 0.1}},
		Records: records,
	}
	for _, x := range []eval.Record{
		{X: []float32{0, 1, 0, 0}, Evaluated: true, Steps: []eval.Step{{Full: found(1, 1, 0, 0), Quant: found(0, 0, 1, 0)}}},
		{X: []float32{2, 1, 0, 1}, Row: 1, Evaluated: true, Steps: []eval.Step{{Full: found(5, 0, 1, 1), Quant: none}}},
	} {
		must.Do(t, records.Add(&x))
	}
	same := cmp.Comparer(func(a, b eval.Float) bool { return a == b || !a.Defined() && !b.Defined() })
	undefined := eval.Float(math.NaN())
	want := []Changed{
		{"income", Moves{2, 1000}, Moves{0, undefined}}, // of 500 and 1500
		{"job", Moves{1, undefined}, Moves{1, undefined}},
	}
	c := NewSurvey(&r.Settings, func(of []*eval.Record) *constraint.Set { return set })
	err = records.Visit(c.Visitor())
	if d := cmp.Diff(want, c.Details(tk.Features).Changes, same); d != "" || err != nil {
		t.Error(d, err)
	}
}
