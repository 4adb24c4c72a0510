package report

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/recourse"
)

func made(rng *rand.Rand, t, noise float64) eval.Promise {
	own := t + 1e-4
	if rng.Float64() < 0.2 {
		own += 0.3 * rng.ExpFloat64()
	}
	return eval.Promise{
		Status: recourse.Found, Cost: eval.Float(0.4 + rng.ExpFloat64()), Own: eval.Float(own),
		Other: eval.Float(own + noise*rng.NormFloat64()),
	}
}

var nothing = eval.Promise{Status: recourse.NoneFound, Cost: nan, Own: nan, Other: nan}

// crowd are n people with everything that can be known of them.
func crowd(seed uint64, n int, margins []float64, noise float64) []eval.Record {
	rng := rand.New(rand.NewPCG(seed, 1))
	records := make([]eval.Record, n)
	for i := range records {
		r := &records[i]
		*r = eval.Record{Person: i, Row: i, Line: i + 2, Label: int8(rng.IntN(2)), Full: eval.Float(rng.NormFloat64() - 0.3)}
		r.Quant = r.Full + eval.Float(noise*rng.NormFloat64())
		if r.Full > 0 {
			continue
		}
		r.Evaluated, r.First = true, made(rng, 0.02, noise)
		for _, t := range margins {
			s := eval.Step{Full: made(rng, t, noise), DirSim: nan, Overlap: nan}
			s.Quant = nothing
			if rng.Float64() < 0.97 {
				s.Quant = made(rng, t, noise)
				s.Quant.Cost = s.Full.Cost * eval.Float(1+0.05*rng.NormFloat64())
				s.DirSim, s.Overlap = eval.Float(1-0.1*rng.Float64()), eval.Float(1-0.2*rng.Float64())
			}
			scale := 0.013 * (1 + rng.Float64())
			for k := range eval.Perturbations() {
				s.Perturbed = append(s.Perturbed, eval.Float(float64(k+1)*scale*(1+rng.Float64())))
			}
			r.Steps = append(r.Steps, s)
		}
	}
	return records
}

func complete() *Document {
	settings := eval.Settings{
		Margins: []float64{0, 0.1, 0.25, 0.5}, Seed: 7, Confidence: 0.95, Epsilon: 1e-9, SupportTau: 1e-6, Radius: 0.05,
		Factor: 1.5,
		Solver: eval.Solver{Restarts: 4, Seed: 7},
	}
	records := crowd(3, 1200, settings.Margins, 0.05)
	for i := range records {
		for k := range records[i].Steps {
			x := &eval.Transfer{Upper: eval.Float(i%7) / 50}
			if i%7 == 6 && !x.Proved(settings.Margins[k]) {
				x.Refuted = []float32{1}
			}
			records[i].Steps[k].Transfer = x
		}
	}
	r := summarize(records, settings, eval.DataFile{})
	for i := range r.Margins {
		values := r.Margins[i].Values
		for id, v := range maps.Clone(values) {
			form, both := strings.CutPrefix(id, "crg_both.")
			switch {
			case !both:
				continue
			case form == "n":
				v.N /= 8
			case form == "abs_mean" || form == "abs_median":
				v.Value /= 50
			}
			values["crg_noise."+form] = v
		}
	}
	d := loans()
	d.Result, d.Gate = r, verdicts()
	part := func(keep func(i int) bool) *eval.Result {
		var some []eval.Record
		for i := range records {
			if keep(i) {
				some = append(some, records[i])
			}
		}
		x := summarize(some, settings, eval.DataFile{})
		x.Records = nil
		return x
	}
	r.Groups = []eval.Grouping{
		{
			By: "sex", Groups: []eval.Group{
				{Name: "Female", Result: part(func(i int) bool { return i%3 == 0 })},
				{Name: "Male", Result: part(func(i int) bool { return i%3 > 0 })},
			},
			Gaps: []eval.GroupGap{
				{Metric: "vd", Margin: new(0.1), Worst: "Female", Best: "Male", Difference: 0.0213, P: 0.0431},
			},
		},
		{
			By: "education*native country", Groups: []eval.Group{
				{Name: "doctorate, elsewhere", Small: true, Result: part(func(i int) bool { return i%97 == 0 })},
				{Name: "none", Result: part(func(i int) bool { return i%97 > 0 && i%2 == 0 })},
				{Name: "some & <more>", Result: part(func(i int) bool { return i%97 > 0 && i%2 > 0 })},
			},
			Gaps: []eval.GroupGap{},
		},
	}
	noisy := summarize(crowd(5, 1200, settings.Margins, 0.09), settings, eval.DataFile{})
	noisy.Records = nil
	r.Scenarios = []eval.Scenario{
		{Name: "noise=0.1", Result: noisy}, {Name: "bounds=0.5", Result: part(func(i int) bool { return i%2 == 0 })},
	}
	r.Footprint = &eval.Footprint{
		Full:  eval.Weight{Bytes: 36131, StoredBits: 32, BOPs: 9.1e6},
		Quant: eval.Weight{Bytes: 9214, StoredBits: 4.31, BOPs: 284672},
	}
	pace := func(f, q eval.Float) eval.Pace { return eval.Pace{Full: about(f, 200), Quant: about(q, 200)} }
	r.Timing = &eval.Timing{Threads: 1, One: pace(14.2e-6, 9.9e-6), Many: pace(1.42e-3, 0.61e-3)}
	for i, bits := range []float64{4, 8, 3.97, 32} {
		d.Layers = append(d.Layers, Layer{
			Node: fmt.Sprintf("/classifier/layers.%d/Gemm", i), Weights: 6656 >> i, Bits: bits, Bytes: 3328 >> i,
			Kernel: "QGemm", Sensitivity: eval.Float(0.02 / float64(i+1)),
		})
	}
	d.Layers[3].Sensitivity = nan
	d.Refuted = []Broken{{
		Line: 8, Action: []string{"debt 9000 -> 8200"}, Own: nan, Other: nan, Cost: 0.5, RepairCost: nan,
	}}
	for i := range records {
		if x := &records[i]; x.Evaluated && x.Steps[1].Full.Broken() {
			p := x.Steps[1].Full
			d.Broken = append(d.Broken, Broken{
				Row: x.Row, Line: x.Line, Margin: 0.1, Own: p.Own, Other: p.Other, Cost: p.Cost,
				Action: []string{"income 27000 -> 31500", "debt 9000 -> 8200"},
				Repair: "recourse at margin 0.25", RepairCost: p.Cost * 1.1,
			})
		}
	}
	return d
}

func verdicts() *gate.Report {
	num := func(n int) *int { return &n }
	at := 0.1
	return &gate.Report{
		Verdict: gate.Fail, Confidence: 0.95, Notes: []string{"no check limits <gained> & lost approvals"},
		Findings: []gate.Finding{
			{
				Check: "accuracy", Metric: "accuracy_drop", Severity: gate.Blocks, Verdict: gate.Pass, Limit: "<= 0.01",
				Bounded: gate.Bounded{Value: 0.002, N: 1200, Lower: -0.004, Upper: 0.0081},
				Why:     "loss of accuracy: 0.2 %; at most 0.81 %, within the limit of 1 %",
			},
			{
				Check: "vd", Metric: "vd", Margin: &at, Severity: gate.Blocks, Verdict: gate.Fail, Limit: "<= 0.01",
				Bounded: gate.Bounded{Value: 0.0188, Num: num(12), N: 640, Lower: 0.0109, Upper: 0.0302},
				Why:     "promises that break: 12 of 640 (1.9 %); at least 1.09 % with confidence 95 %, above the limit of 1 %",
			},
			{
				Check: "vd by sex", Metric: "vd", Margin: &at, Group: "Female", Severity: gate.Blocks, Verdict: gate.Inconclusive,
				Limit: "<= 0.03", Need: 310,
				Bounded: gate.Bounded{Value: 0.0125, Num: num(1), N: 80, Lower: 0.0006, Upper: 0.0579},
				Why: "promises that break: 1 of 80 (1.3 %); at most 5.8 % with confidence 95 %, above the limit of 3 %; 310 " +
					"people with this share would show it",
			},
			{
				Check: "vd by sex", Metric: "vd", Margin: &at, Group: "Male <b>", Severity: gate.Warns, Verdict: gate.Fail,
				Limit:   "<= 0.01",
				Bounded: gate.Bounded{Value: 0.0196, Num: num(11), N: 560, Lower: 0.011, Upper: 0.0323},
				Why:     "promises that break: 11 of 560",
			},
			{
				Check: "crg", Metric: "crg.abs_mean", Margin: &at, Severity: gate.Warns, Verdict: gate.Inconclusive,
				Limit: "<= 0.05", Bounded: gate.Bounded{Value: nan, Lower: nan, Upper: nan}, Why: "nothing was measured",
			},
		},
	}
}

func comparison() *Comparison {
	settings := eval.Settings{Margins: []float64{0, 0.1}, Confidence: 0.95}
	c := &eval.Comparison{Names: []string{"cf-ptq", "cfq-qat", "ptq"}, Confidence: 0.95}
	for _, noise := range []float64{0.05, 0.02, 0.09} {
		r := summarize(crowd(9, 900, settings.Margins, noise), settings, eval.DataFile{})
		r.Records = nil
		c.Results = append(c.Results, r)
	}
	type cell struct {
		value, delta, p eval.Float
		call            eval.Call
	}
	row := func(metric string, margin *float64, test string, first eval.Float, others ...cell) {
		r := eval.ComparisonRow{Metric: metric, Margin: margin, Cells: []eval.Cell{
			{Value: about(first, 640), Delta: about(nan, 640), P: nan},
		}}
		for _, x := range others {
			r.Cells = append(r.Cells, eval.Cell{
				Value: about(x.value, 640), Delta: about(x.delta, 640), P: x.p, Test: test, Call: x.call,
			})
		}
		c.Rows = append(c.Rows, r)
	}
	row("vd", new(0.0), "McNemar exact", 0.47, cell{0.46, -0.01, 0.7, eval.Alike}, cell{0.49, 0.02, 0.6, eval.Alike})
	row("vd", new(0.1), "McNemar exact", 0.019, cell{0.002, -0.017, 0.0121, eval.BetterThan},
		cell{0.081, 0.062, 0.0001, eval.WorseThan})
	row("rvd", new(0.1), "paired bootstrap", 0.022, cell{0.02, -0.002, 0.8, eval.Alike},
		cell{0.05, 0.028, 0.004, eval.WorseThan})
	row("tau01", nil, "paired bootstrap", 0.143, cell{0.08, -0.063, nan, eval.BetterThan}, cell{nan, nan, nan, eval.Alike})
	row("rfrr", new(0.1), "paired bootstrap", 0.9, cell{0.91, 0.01, 0.01, eval.Differs}, cell{0.9, 0, 1, eval.Alike})
	row("bytes", nil, "", 9214, cell{8800, -414, nan, eval.BetterThan}, cell{9214, 0, nan, eval.Alike})
	d := loans()
	out := &Comparison{
		Title: "Three ways to make loan.onnx small", Run: Run{Tool: "cfq 0.1"}, Full: d.Full,
		Inputs: Inputs{Data: d.Data, Task: File{Name: "loan.yaml"}}, Comparison: c, Warnings: []string{"few people"},
	}
	for _, name := range c.Names {
		file := File{Name: name + ".onnx", Bytes: 9214, SHA256: strings.Repeat("0c", 32)}
		out.Entries = append(out.Entries, Entry{name, Model{file, 4}, map[string]string{"method": name}})
	}
	return out
}

func summarize(list []eval.Record, s eval.Settings, file eval.DataFile) *eval.Result {
	records := eval.NewRecords(s.Margins, nil)
	for i := range list {
		if err := records.Add(&list[i]); err != nil {
			panic(err)
		}
	}
	r, err := eval.Summarize(records, s, file, nil)
	if err != nil {
		panic(err)
	}
	return r
}
