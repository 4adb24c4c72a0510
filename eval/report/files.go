package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"cfq/eval"
	"cfq/internal/chart"
)

func models(d *Document) block {
	b := block{title: "Files", table: fileTable(), fold: true}
	b.table.model("original", d.Full)
	b.table.model("quantized", d.Quantized)
	b.table.files(d.Data, d.Task, d.Promises, d.Overrides)
	if d.Tool != "" {
		b.after = []string{"Made by " + d.Tool + "."}
	}
	return b
}

func fileTable() table {
	return table{head: []string{"", "file", "size", "bits/weight", "sha256"}, left: 2}
}

func (t *table) model(role string, m Model) {
	bits := missing
	if m.WeightBits > 0 {
		bits = strconv.FormatFloat(m.WeightBits, 'f', 2, 64)
	}
	t.row(role, m.Name, byteCount(m.Bytes), bits, short(m.SHA256))
}

func (t *table) files(data, task, promises, overrides File) {
	for _, o := range []struct {
		name string
		file File
	}{{"people", data}, {"task", task}, {"promises", promises}, {"overrides", overrides}} {
		if o.file.Name != "" {
			t.row(o.name, o.file.Name, byteCount(o.file.Bytes), missing, short(o.file.SHA256))
		}
	}
}

func people(r *eval.Result) block {
	p := r.Population
	b := block{title: "Who was evaluated", table: table{left: 1}, fold: true}
	row := func(label string, n int) { b.table.row(label, strconv.Itoa(n)) }
	row("rows in the data", p.Rows)
	if p.LeftOut > 0 {
		row("left out by the task or the choice of rows", p.LeftOut)
	}
	if p.Unreadable > 0 {
		row("could not be read", p.Unreadable)
	}
	row("people read", p.Read)
	row("approved by the original, need no recourse", p.Favoured)
	row("refused by the original", p.Refused)
	if p.Evaluated < p.Refused {
		row(fmt.Sprintf("evaluated: a random sample of them (seed %d)", r.Settings.Seed), p.Evaluated)
	} else {
		row("evaluated: all of them", p.Evaluated)
	}
	row("of them refused by the quantized model too", p.BothRefuse)
	if g := r.Issued; g != nil {
		row("promises given to people who are evaluated", g.Promises)
		row("of them not kept by the original itself", g.Invalid)
		row("of them not allowed by the task", g.Infeasible)
		row("promises given to others", g.Others)
	}
	return b
}

// settings lists what the numbers depend on besides the files.
func settings(r *eval.Result, how detail) block {
	if how == brief {
		return block{}
	}
	s := r.Settings
	b := block{title: "Settings", table: table{left: 1}, fold: true}
	number := func(label string, x float64) { b.table.row(label, strconv.FormatFloat(x, 'g', -1, 64)) }
	count := func(label string, n int) {
		if n > 0 {
			b.table.row(label, strconv.Itoa(n))
		}
	}
	count("people in the sample", s.Sample)
	b.table.row("seed", strconv.FormatUint(s.Seed, 10))
	number("confidence of the intervals", s.Confidence)
	number("epsilon of CRG, DirSim and ActOverlap", s.Epsilon)
	number("smallest change that ActOverlap counts", s.SupportTau)
	if s.Radius > 0 {
		number("radius of neighbourhoods, in model inputs", s.Radius)
	}
	count("steps of the solver", s.Solver.Steps)
	count("restarts of the solver", s.Solver.Restarts)
	count("rounds of the solver", s.Solver.Rounds)
	count("beam of the solver", s.Solver.Beam)
	b.table.row("seed of the solver", strconv.FormatUint(s.Solver.Seed, 10))
	return b
}

func footprint(r *eval.Result) block {
	f := r.Footprint
	if f == nil {
		return block{}
	}
	b := block{title: "Size and work", table: table{head: []string{"", "original", "quantized", "ratio"}, left: 1}}
	row := func(label string, a, q float64, show func(float64) string) {
		ratio := missing
		if a > 0 && q > 0 {
			ratio = strconv.FormatFloat(q/a, 'f', 3, 64)
		}
		b.table.row(label, show(a), show(q), ratio)
	}
	row("size of the file", float64(f.Full.Bytes), float64(f.Quant.Bytes), func(x float64) string { return byteCount(int64(x)) })
	row("stored bits per weight", f.Full.WeightBits, f.Quant.WeightBits, func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) })
	row("bit operations of one decision", f.Full.BOPs, f.Quant.BOPs, func(x float64) string { return thousands(int64(x)) })
	return b
}

func timing(r *eval.Result) block {
	t := r.Timing
	if t == nil {
		return block{}
	}
	b := block{title: fmt.Sprintf("Speed in ONNX Runtime, %d %s", t.Threads, plural(t.Threads, "thread", "threads"))}
	b.table = table{head: []string{"", "original", "interval", "quantized", "interval", "runs", "speed-up"}, left: 1}
	row := func(label string, p eval.Pace) {
		times := missing
		if p.Full.Value.Defined() && p.Quant.Value > 0 {
			times = strconv.FormatFloat(float64(p.Full.Value/p.Quant.Value), 'f', 2, 64) + "x"
		}
		b.table.row(label, seconds(p.Full.Value), between(p.Full, seconds), seconds(p.Quant.Value), between(p.Quant, seconds), strconv.Itoa(p.Quant.N), times)
	}
	row("1 row", t.One)
	row("256 rows", t.Many)
	b.after = []string{"Medians of runs of the two models in turn, on this machine: the only numbers that differ from one evaluation to the next."}
	return b
}

// fewLayers is how many layers a brief view shows.
const fewLayers = 10

func layers(d *Document, how detail) block {
	if len(d.Layers) == 0 {
		return block{}
	}
	b := block{title: "Layers of the quantized model", fold: true}
	b.table = table{head: []string{"layer", "weights", "bits", "bytes", "sensitivity", "kernel"}, left: 1}
	list := d.Layers
	if n := how.many(len(list), fewLayers); n < len(list) {
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b Layer) int { return cmp.Compare(b.Sensitivity, a.Sensitivity) })
		list = list[:n]
		b.after = append(b.after, fmt.Sprintf("The %d of %d layers with the largest sensitivity.", n, len(d.Layers)))
	}
	bits, score := chart.Series{Name: ""}, chart.Series{Name: ""}
	var names []string
	for _, l := range list {
		b.table.row(l.Node, thousands(int64(l.Weights)), strconv.FormatFloat(l.Bits, 'f', 2, 64), thousands(int64(l.Bytes)), fixed(l.Sensitivity, 4), cmp.Or(l.Kernel, missing))
		names = append(names, l.Node)
		bits.Y, score.Y = append(bits.Y, l.Bits), append(score.Y, float64(l.Sensitivity))
	}
	if len(names) > mostBars {
		names, bits.Y, score.Y = names[:mostBars], bits.Y[:mostBars], score.Y[:mostBars]
	}
	draw := func(caption, x string, s chart.Series) {
		if anyDefined(s.Y) {
			b.figures = append(b.figures, figure{caption, chart.Chart{X: x, Categories: names, Horizontal: true, Series: []chart.Series{s}}})
		}
	}
	draw("Bits of each layer's weights.", "bits per weight", bits)
	draw("Counterfactual sensitivity of each layer.", "mean l1 norm of the gradient", score)
	if anyDefined(score.Y) {
		b.after = append(b.after, "sensitivity: mean l1 norm of the gradient of the loss by the layer's weights, at the original's recourse points")
	}
	return b
}
