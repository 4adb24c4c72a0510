package onnxio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Answers are what a file says of rows.
type Answers struct {
	labels []label
	logits [][]float64 // two or more of each row
}

// label is an output of the file that names classes, as text by row.
type label struct {
	output string
	rows   []string
	other  bool // it names no classes
}

// AnswerError is why what a file answers is not what its margins decide.
type AnswerError struct{ error }

func answerErrorf(format string, args ...any) error { return &AnswerError{fmt.Errorf(format, args...)} }

// answerRows is a prime: an output that is not of rows rarely has a multiple of so many numbers.
const answerRows = 61

// Answers runs rows of inputs, nil for some that are tried, and holds those of LabelOutputs that name classes
// against the logits: an [AnswerError] where they decide otherwise. Of two classes, a label may begin at 0.5 or at the
// threshold that is declared, or anywhere if that is for a task to say. The model has no step in front of it.
func (m *Model) Answers(ctx context.Context, x []float32, anywhere bool) (a Answers, err error) {
	a.labels = lists.Map(m.LabelOutputs(), func(name string) label { return label{output: name} })
	if len(a.labels) == 0 {
		return a, nil
	}
	tried := x == nil
	if tried {
		x = m.SomeRows()
	}
	err = a.run(ctx, m, x)
	if wrong := (*AnswerError)(nil); err != nil && tried && !errors.As(err, &wrong) {
		return Answers{}, ctx.Err() // numbers that the model cannot look up, say, tell nothing
	}
	a.labels = slices.DeleteFunc(a.labels, func(l label) bool { return len(l.rows) != len(a.logits) })
	for i := 0; i < len(a.labels) && err == nil; i++ {
		l := &a.labels[i]
		if l.other = m.classes(l.rows, a.logits) == nil || !m.tells(l, a.logits); !l.other {
			err = m.agrees(*l, a.logits, anywhere)
		}
	}
	return a, err
}

// tells is whether a label says which class leads, whatever it calls the classes, in half of the rows or more that the
// most frequent class alone gets wrong: a flag or a version does not. One that is always the same has collapsed if it
// depends on the decision.
func (m *Model) tells(l *label, logits [][]float64) bool {
	classes, of, right, always := map[int]int{}, map[string]map[int]int{}, 0, 0
	for i, text := range l.rows {
		if of[text] == nil {
			of[text] = map[int]int{}
		}
		k := argmax(logits[i])
		classes[k]++
		of[text][k]++
		always = max(always, classes[k])
	}
	for _, counts := range of {
		right += slices.Max(slices.Collect(maps.Values(counts)))
	}
	if g := m.File().Graph; len(of) == 1 {
		return computes(g, m.decision.Output, l.output) || computes(g, m.logits, l.output)
	}
	if m.Classes() == 2 { // a label with a threshold of its own
		order := lists.Make(len(l.rows), func(i int) int { return i })
		slices.SortFunc(order, func(i, j int) int {
			return cmp.Compare(logits[i][1]-logits[i][0], logits[j][1]-logits[j][0])
		})
		if len(slices.Compact(lists.Map(order, func(i int) string { return l.rows[i] }))) == 2 {
			return true
		}
	}
	return 2*(len(l.rows)-right) <= len(l.rows)-always
}

// SomeRows are inputs for a first look at a model.
func (m *Model) SomeRows() []float32 {
	if m.signature.Columns != nil {
		return m.signature.Rows(answerRows)
	}
	r := rand.New(rand.NewPCG(14, 2))
	return lists.Make(answerRows*m.dim, func(int) float32 { return float32(r.NormFloat64()) })
}

func (a *Answers) run(ctx context.Context, m *Model, x []float32) error {
	file, err := ort.OpenValues(m.File(), m.engine, lists.Map(a.labels, func(l label) string { return l.output })...)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	inner, err := ort.OpenValues(m.graph, m.engine, m.logits)
	if err != nil {
		return err
	}
	defer inner.Close() //nolint:errcheck // nothing was written
	for part := range slices.Chunk(x, cmp.Or(m.fixed, answerRows)*m.dim) {
		own := len(part) / m.dim
		rows := max(own, m.fixed)
		part = append(slices.Clip(part), make([]float32, (rows-own)*m.dim)...)
		in, err := m.FileFeed(part)
		var got, z []*graph.Tensor
		var logits []float64
		if err == nil {
			got, err = file.Run(ctx, in)
		}
		if err == nil {
			z, err = inner.Run(ctx, []*graph.Tensor{m.Feed(part)})
		}
		if err == nil {
			logits, err = z[0].Doubles()
		}
		if err != nil {
			return err
		}
		for i, t := range got {
			v, _ := t.Numbers() // none of texts
			texts := slices.Concat(lists.Map(t.Strings, func(s []byte) string { return string(s) }),
				lists.Map(v, func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }))
			if len(texts)%rows != 0 {
				return answerErrorf("output %q gives %d answers for %d rows, so it does not decide on each row; export "+
					"a decision per row, as of ArgMax with axis=1", a.labels[i].output, len(texts), rows)
			}
			if len(texts) == rows {
				a.labels[i].rows = append(a.labels[i].rows, texts[:own]...)
			}
		}
		for row := range slices.Chunk(logits[:own*m.perRow], m.perRow) {
			a.logits = append(a.logits, append(make([]float64, max(0, 2-m.perRow)), row...)) // a single one is [0, z]
		}
	}
	return nil
}

// LabelOutputs are the outputs of the file that depend on its inputs and are no floats, or the largest one's index.
func (m *Model) LabelOutputs() (names []string) {
	g := m.File().Graph
	producers, ins := g.Producers(), g.DataInputs()
	for _, v := range g.Outputs {
		path, _ := behind(producers, v.Name)
		if path.best != nil || v.DType != graph.Undefined && !v.DType.IsFloat() &&
			slices.ContainsFunc(ins, func(in graph.Value) bool { return computes(g, in.Name, v.Name) }) {
			names = append(names, v.Name)
		}
	}
	return names
}

// comparesClasses fails where an ArgMax, the decision of the file, compares anything else.
func (m *Model) comparesClasses(best *graph.Node) error {
	shape, axis := m.types[best.Input(0)].Shape, int(best.Int("axis", 0))
	if axis < 0 {
		axis += len(shape)
	}
	if axis > 0 && axis < len(shape) && shape[axis].Size != 1 {
		return nil
	}
	return answerErrorf("%s does not compare the classes of a row: what it reads has the shape %v, and axis is %d; "+
		"export ArgMax over the classes, or a single logit or probability itself", best.Label(), shape, axis)
}

// classes gives the texts of a label the positions of their classes, nil where they are more than there are. What the
// file does not say is read off the rows that are decided most clearly, and numbers ascend with their classes.
func (m *Model) classes(rows []string, logits [][]float64) map[string]int {
	at, clearest, number := map[string]int{}, map[string]float64{}, map[string]float64{}
	for i, text := range rows {
		if d := lead(logits[i]); d >= clearest[text] {
			at[text], clearest[text] = argmax(logits[i]), d
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			number[text] = v
		}
	}
	order, places := m.Labels(), slices.Sorted(maps.Values(at))
	switch {
	case len(at) > m.Classes():
		return nil
	case len(order) == m.Classes():
		for k, text := range order {
			at[text] = k
		}
	case len(number) == len(at):
		ascending := func(a, b string) int { return cmp.Compare(number[a], number[b]) }
		for k, text := range slices.SortedFunc(maps.Keys(number), ascending) {
			at[text] = places[k]
		}
	}
	return at
}

// lead is how far the largest of logits is above the next.
func lead(z []float64) float64 {
	z = slices.Sorted(slices.Values(z))
	return z[len(z)-1] - z[len(z)-2]
}

func (m *Model) agrees(l label, logits [][]float64, anywhere bool) error {
	class := m.classes(l.rows, logits)
	slack := 1e-4 * m.Coarse() // how far, relative to 1 and a logit, rounding moves the point where a label changes
	if slices.ContainsFunc(m.base.Graph.Nodes, func(n *graph.Node) bool {
		return strings.Contains(n.Op, "QuantizeLinear") || strings.HasPrefix(n.Op, "QLinear")
	}) {
		slack = 0.1
	}
	low, high := math.Inf(-1), math.Inf(1) // the label changes between these differences of two logits
	worst, at := 0.0, 0
	for i, text := range l.rows {
		z := logits[i]
		most := slices.Max(z)
		// A probability of float32 is flat there: it ties where logits do not.
		flat := m.decision.Meaning == Probabilities && (most-lead(z) > 15 || most < -80)
		if flat || class == nil || most != most {
			continue
		}
		if d := (most - z[class[text]]) / (1 + math.Abs(most)); d > worst {
			worst, at = d, i
		}
		if class[text] == 0 {
			low = max(low, z[1]-z[0])
		} else {
			high = min(high, z[1]-z[0])
		}
	}
	near := func(a, b float64) bool { return a <= b+slack*(1+min(math.Abs(a), math.Abs(b))) }
	within := func(cut float64) bool { return near(low, cut) && near(cut, high) }
	threshold := m.Classes() == 2 && near(low, high)
	if worst <= slack || threshold && (anywhere || within(0) || within(-m.cut)) {
		return nil
	}
	z, advice := logits[at], "export both from the same value"
	if threshold {
		advice = "if the label has a threshold of its own, declare it as target.threshold of the task"
	}
	return answerErrorf("output %q says %q of a row where class %d leads by %.3g logits, so the file does not answer "+
		"what its margins decide; %s", l.output, l.rows[at], argmax(z), slices.Max(z)-z[class[l.rows[at]]], advice)
}

// Same fails where a label of a quantized model is not the original's, of that name, although both models' logits
// clearly decide alike.
func (a *Answers) Same(quantized *Answers) error {
	for _, l := range lists.Filter(a.labels, func(l label) bool { return !l.other }) {
		at := slices.IndexFunc(quantized.labels, func(o label) bool { return o.output == l.output })
		for i, text := range l.rows {
			z, q := a.logits[i], quantized.logits
			if at < 0 || argmax(z) != argmax(q[i]) || min(lead(z), lead(q[i])) <= 0.1 {
				continue
			}
			if other := quantized.labels[at].rows[i]; other != text {
				return answerErrorf("output %q of the quantized model says %q of a row of which the original's says %q, although "+
					"both decide for class %d; give it the original's labels", l.output, other, text, argmax(z))
			}
		}
	}
	return nil
}

// SameKind fails where a quantized model does not answer in the kind of numbers in which m does: production reads both
// alike.
func (m *Model) SameKind(quantized *Model) error {
	a, b := m.kind(), quantized.kind()
	if a == "" || b == "" || a == b {
		return nil
	}
	return answerErrorf("it answers with %s, and the original with %s, so production reads another number; export both "+
		"alike", b, a)
}

// kind is empty where a task has to say it.
func (m *Model) kind() string {
	d := &m.decision
	kind := string(d.Meaning)
	switch {
	case len(m.LabelOutputs()) == len(m.File().Graph.Outputs):
		return "labels"
	case d.Meaning == Unknown:
		return ""
	case d.Reason == logarithms || strings.HasPrefix(d.Reason, "LogSoftmax of"):
		kind = logarithms
	}
	return fmt.Sprintf("%s (columns: %d)", kind, m.raw.size)
}

// Converted reports whether the graph computes in float32 where the file has float16, bfloat16 or double.
func (m *Model) Converted() bool { return m.elements.Converted() }

// FileTypes names the element types of the file that are float32 in the graph.
func (m *Model) FileTypes() []string { return m.elements.Types() }

// Coarse is how many times further than of float32 results of the file may lie from the model's.
func (m *Model) Coarse() float64 { return m.elements.Coarse() }

// FileDecisions runs the file, in a session of File, on rows of its inputs: the output that decides or, where that is
// none, its label; nil where there is none of both. Outputs are read as they are: a Cast behind them would make ONNX
// Runtime leave out their rounding.
func (m *Model) FileDecisions(ctx context.Context, s *ort.Session, x []float32) (p []float64, label bool, err error) {
	outputs, producers := m.File().Graph.Outputs, m.File().Graph.Producers()
	at := slices.Index(graph.Names(outputs), m.decision.Output)
	if label = at < 0; label {
		at = slices.IndexFunc(outputs, func(v graph.Value) bool {
			path, err := behind(producers, v.Name)
			return err == nil && path.best != nil && path.output == m.decision.Output
		})
	}
	in, err := m.FileFeed(x)
	if err != nil || at < 0 {
		return nil, label, err
	}
	out, err := s.RunInto(ctx, in, m.FileRoom(len(x)/m.dim))
	if err == nil {
		p, err = out[at].Numbers()
	}
	return p, label, err
}

// FileRoom returns memory for the outputs of the file of so many rows, where the engine hands them over in given memory
// only: those of 16 bits.
func (m *Model) FileRoom(rows int) []*graph.Tensor {
	return lists.Map(m.File().Graph.Outputs, func(v graph.Value) *graph.Tensor {
		if v.DType != graph.Float16 && v.DType != graph.BFloat16 {
			return nil
		}
		t := &graph.Tensor{Name: v.Name, DType: v.DType}
		for _, d := range m.types[v.Name].Shape {
			size := d.Size
			if size < 0 {
				_, size = d.Multiple()
				size *= int64(rows)
			}
			t.Dims = append(t.Dims, size)
		}
		t.Raw = make([]byte, 2*t.Len())
		return t
	})
}
