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

	"cfq/internal/lists"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/pass"
)

// Meaning says what the numbers of an output are.
type Meaning string

// The meanings of an output. Those of a head that neither its operators nor its numbers identify are unknown.
const (
	Logits        Meaning = "logits"
	Probabilities Meaning = "probabilities"
	Unknown       Meaning = "unknown"
)

// Decision is how a model's output is read.
type Decision struct {
	Output  string  `json:"output"`  // the value that decides
	Meaning Meaning `json:"meaning"` // of Output
	Reason  string  `json:"reason"`
	// Margins names the value that margins are computed from: logits, or log-odds.
	Margins string `json:"margins_from"`
}

// Declared is what a task says of the output that decides; the zero value leaves it to the model.
type Declared struct {
	Output Meaning // "" is what the model shows
	// Threshold is what the favourable class, Target, must exceed: its probability, or its logit less the other's.
	// 0 is 0.5 of a probability.
	Threshold float64
	Target    int
}

type readout struct {
	value  string
	size   int         // columns
	matrix [][]float64 // the logits are the columns times this; nil leaves them
	odds   bool        // the columns are probabilities, whose logarithms are taken
}

type modelHead struct {
	decision Decision

	certain  bool          // by its operators, or by rows that sum to 1
	at       readout       // what margins are computed from
	raw      readout       // the output as it is
	prob     readout       // the output as probabilities
	unit     bool          // every number of the output that was seen lies in [0,1]
	steps    bool          // it is 0, 1 or -1 by a node that decides
	logits   string        // the value that holds them
	perRow   int           // number of logits per row, 1 for a single one
	declared bool          // by Declare
	cut      float64       // the least difference of two logits that Declare takes for the second class
	nodes    []*graph.Node // what Declare appended, with its constants
	consts   []*graph.Tensor
}

// Decision returns how the model's output is read.
func (m *Model) Decision() Decision {
	d := m.decision
	if d.Margins = m.logits; m.nodes == nil && (m.at.odds || m.at.matrix != nil) {
		d.Margins = m.at.value
	}
	return d
}

type logitPath struct {
	output string      // decides
	logits string      // in front of squash; output when there is none
	squash string      // Softmax, LogSoftmax or Sigmoid
	dense  bool        // logits are what a dense layer gives, or an affine function of it
	best   *graph.Node // ArgMax, if output is what it compares
}

// findLogits walks back from the outputs of g to the logits. Of several outputs those that are labels (no floats)
// are left aside where another is there, as are those that another is computed from, and the rest must lead to the same
// logits.
func findLogits(g *graph.Graph) (logitPath, error) {
	producers := g.Producers()
	labels := func(v graph.Value) bool { return v.DType != graph.Undefined && !v.DType.IsFloat() }
	outputs := slices.DeleteFunc(slices.Clone(g.Outputs), labels)
	if len(outputs) == 0 {
		outputs = g.Outputs
	}
	var found logitPath
	for _, out := range outputs {
		e, err := behind(producers, out.Name)
		switch {
		case err != nil:
			return logitPath{}, err
		case found.logits == "":
			found = e
		case e.logits != found.logits && computes(g, found.output, e.output):
			found = e
		case e.logits != found.logits && computes(g, e.output, found.output):
		case e.logits != found.logits:
			return logitPath{}, fmt.Errorf("the outputs %q and %q come from different values (%q, %q): keep the output that "+
				"decides and remove the others (of scikit-learn: export with zipmap=False, not 'columns')", found.output,
				e.output, found.logits, e.logits)
		case found.squash == "":
			found = e // of logits and their probabilities, the latter say more
		}
	}
	if found.logits == "" {
		return logitPath{}, errors.New("the model has no outputs")
	}
	found.dense = dense(g, found.logits)
	return found, nil
}

func computes(g *graph.Graph, value, other string) bool {
	for n := range g.Needed(other) {
		if slices.Contains(n.Inputs, value) {
			return true
		}
	}
	return false
}

func behind(producers map[string]*graph.Node, output string) (logitPath, error) {
	e := logitPath{output: output}
	for n := producers[output]; n != nil && len(n.Inputs) > 0; n = producers[n.Inputs[0]] {
		switch {
		case n.Op == "ZipMap":
			return e, fmt.Errorf("output %q is a ZipMap, a list of dictionaries; export the model with its probabilities as "+
				"a tensor (zipmap=False)", output)
		case n.Is("Softmax") || n.Is("LogSoftmax") || n.Is("Sigmoid"):
			e.logits, e.squash = n.Inputs[0], n.Op
			return e, nil
		case n.Is("ArgMax"):
			e.output, e.best = n.Inputs[0], n
		case !n.Standard() || !slices.Contains([]string{
			"Identity", "Cast", "Dropout", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Clip",
		}, n.Op):
			e.logits = e.output
			return e, nil
		}
	}
	e.logits = e.output
	return e, nil
}

func dense(g *graph.Graph, value string) bool {
	n := source(g, value, "Identity", "Cast", "Dropout", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "QuantizeLinear",
		"DequantizeLinear", "GlobalAveragePool", "AveragePool", "ReduceMean", "BatchNormalization", "Neg", "Add", "Sub",
		"Mul", "Div")
	return n != nil && slices.Contains([]string{
		"Gemm", "MatMul", "Conv", "ConvTranspose", "MatMulNBits", "MatMulInteger", "QLinearMatMul", "QGemm",
	}, n.Op)
}

// source returns the node that a value comes from through those of some operators: from the last of joined values, as
// of no and yes, and from what is added to a constant or multiplied with it.
func source(g *graph.Graph, value string, through ...string) *graph.Node {
	producers, constants := g.Producers(), g.Constants()
	n := producers[value]
	for n != nil && slices.Contains(through, n.Op) {
		i := 0
		if n.Op == "Concat" || constants[n.Input(0)] != nil {
			i = len(n.Inputs) - 1
		}
		n = producers[n.Input(i)]
	}
	return n
}

func (m *Model) columns(value string) (int, error) {
	t, ok := m.types[value]
	if ok && !t.DType.IsFloat() && m.graph.Graph.IsOutput(value) {
		return 0, fmt.Errorf("output %q holds %s, decisions without their margin: export the model with the scores that it "+
			"decides by as an output, the input of %s", value, t.DType, decidedBy(m.graph.Graph, value))
	}
	if !ok || !t.DType.IsFloat() {
		return 0, fmt.Errorf("the logits %q hold %s; a float tensor is needed", value, t.DType)
	}
	n := 1
	for _, d := range t.Shape[min(1, len(t.Shape)):] {
		if d.Size < 1 {
			return 0, fmt.Errorf("the logits %q have no fixed number of classes", value)
		}
		n *= int(d.Size)
	}
	flat := len(t.Shape) > 0 && !slices.ContainsFunc(t.Shape[min(2, len(t.Shape)):],
		func(d graph.Dim) bool { return d.Size != 1 })
	if !flat || (m.fixed == 0 && t.Shape[0].Size >= 0) {
		return 0, fmt.Errorf("the logits %q do not have the form rows x classes", value)
	}
	return n, nil
}

func (m *Model) readHead(ctx context.Context, s *ort.Session, e logitPath) error {
	n, err := m.columns(e.logits)
	if err != nil {
		return err
	}
	producers := m.graph.Graph.Producers()
	for _, v := range m.graph.Graph.Outputs {
		if label, err := behind(producers, v.Name); err == nil && label.best != nil {
			if err := m.comparesClasses(label.best); err != nil {
				return err
			}
		}
	}
	h := &m.modelHead
	h.decision.Output, h.decision.Meaning = e.output, Unknown
	h.raw = readout{value: e.output, size: n}
	h.at = readout{value: e.logits, size: n}
	m.logits, m.perRow = e.logits, n
	if e.logits != e.output {
		if h.raw.size, err = m.columns(e.output); err != nil {
			return err
		}
	}
	h.prob = h.raw
	h.prob.odds = true
	seen, err := m.sample(ctx, s, e.output, append([]string{e.output, e.logits}, m.candidates(e.output)...))
	if err != nil {
		return err
	}
	p := seen[e.output]
	if e.squash != "" && agrees(e.squash, seen[e.logits], p) {
		h.decision.Meaning, h.certain, h.prob = Probabilities, true, h.at
		h.decision.Reason = fmt.Sprintf("%s of %q", e.squash, e.logits)
		if e.squash == "LogSoftmax" {
			h.decision.Meaning = Logits
		}
		return nil
	}
	h.at = h.raw
	h.decision.Meaning, h.certain, h.decision.Reason = judge(p, e)
	last := decider(m.graph.Graph, e.output) // tells a decision from what is saturated on all rows that were tried
	h.unit, h.steps = within(p, 0, 1), h.decision.Meaning == Unknown && hard(p) && last != nil && slices.Contains([]string{
		"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Not", "And", "Or", "Where", "Sign", "Round", "Floor",
		"Ceil", "ArgMax", "Hardmax", "OneHot",
	}, last.Op)
	if found, ok := m.inGraph(seen, p); ok && h.unit {
		h.prob = found
	}
	if h.decision.Meaning == Probabilities {
		h.at = h.prob
		if h.prob.odds {
			h.decision.Reason += "; log-odds are computed from them"
		} else {
			h.decision.Reason += fmt.Sprintf("; their log-odds are %q", h.prob.value)
		}
	}
	m.logits, m.perRow = h.at.value, h.at.size
	return nil
}

func (m *Model) candidates(output string) []string {
	k, err := m.columns(output)
	if err != nil {
		return nil
	}
	var out []string
	needed := m.graph.Graph.Needed(output)
	for _, n := range m.graph.Graph.Nodes {
		for _, v := range n.Outputs {
			c, err := m.columns(v)
			if needed[n] && v != "" && v != output && err == nil && (c == k || c <= 2 && k <= 2) {
				out = append(out, v)
			}
		}
	}
	return out
}

// maxSampled bounds the numbers of all values of the rows that sample runs at once.
const maxSampled = 1 << 23

func (m *Model) sample(ctx context.Context, s *ort.Session, output string, values []string) (
	map[string][][]float64, error,
) {
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	_, all := m.RowSizes()
	rows := cmp.Or(m.fixed, min(max(maxSampled/all, 1), 16))
	seen := map[string][][]float64{}
	r := rand.New(rand.NewPCG(14, 1))
	kinds := []func() float32{
		func() float32 { return float32(r.NormFloat64()) },
		func() float32 { return float32(r.NormFloat64() * math.Exp(7*r.NormFloat64()-3)) },
		r.Float32,
		func() float32 { return float32(r.IntN(2)) },
		func() float32 { return float32(r.NormFloat64() / 100) },
	}
	// run returns the rows' outputs, nil where one has none.
	run := func(x []float32) ([][]float64, error) {
		before := len(seen[output])
		out, err := s.Run(ctx, []*graph.Tensor{m.Feed(x)}, values...)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			collect(seen, values, out, rows)
		}
		if p := seen[output][before:]; len(p) == rows {
			return p, nil
		}
		return nil, nil
	}
	var sides [2][][]float32 // rows that are decided otherwise
	known := 0               // of them
	for _, kind := range kinds {
		for range max(1, 16/rows) {
			x := lists.Make(rows*m.dim, func(int) float32 { return kind() })
			out, err := run(x)
			if err != nil {
				return nil, err
			}
			for i, p := range out {
				known++
				if side := decided(p); side < len(sides) {
					sides[side] = append(sides[side], x[i*m.dim:(i+1)*m.dim])
				}
			}
		}
	}
	if known == len(seen[output]) && hard(seen[output]) {
		return seen, m.between(sides, rows, run)
	}
	return seen, nil
}

func decided(p []float64) int {
	if len(p) == 1 {
		p = []float64{0.5, p[0]}
	}
	return argmax(p)
}

// between halves the way between rows of two decisions until rows are found on which the output is neither 0 nor 1, and
// has run those.
func (m *Model) between(sides [2][][]float32, rows int, run func(x []float32) ([][]float64, error)) error {
	const halvings = 40
	if len(sides[0]) == 0 || len(sides[1]) == 0 {
		return nil
	}
	low, high := make([]float32, 0, rows*m.dim), make([]float32, 0, rows*m.dim)
	for i := range rows {
		low, high = append(low, sides[0][i%len(sides[0])]...), append(high, sides[1][i/len(sides[0])%len(sides[1])]...)
	}
	for range halvings {
		x := lists.Make(len(low), func(i int) float32 { return low[i] + (high[i]-low[i])/2 })
		out, err := run(x)
		if out == nil || err != nil {
			return err
		}
		for i, p := range out {
			to := low
			if decided(p) == 1 {
				to = high
			}
			copy(to[i*m.dim:(i+1)*m.dim], x[i*m.dim:])
		}
	}
	return nil
}

func collect(seen map[string][][]float64, values []string, out []*graph.Tensor, rows int) {
	all := make([][]float64, len(out))
	for k, t := range out {
		v, err := t.Doubles()
		if err != nil || len(v)%rows != 0 {
			return
		}
		all[k] = v
	}
	for i := range rows {
		row := lists.Map(all, func(v []float64) []float64 { return v[i*len(v)/rows : (i+1)*len(v)/rows] })
		if slices.ContainsFunc(slices.Concat(row...), func(v float64) bool { return v-v != 0 }) {
			continue
		}
		for k, name := range values {
			seen[name] = append(seen[name], row[k])
		}
	}
}

func agrees(squash string, z, p [][]float64) bool {
	for i := range p {
		if len(z[i]) != len(p[i]) {
			return false
		}
		if len(z[i]) == 1 {
			if squash != "Sigmoid" || math.Abs(z[i][0]) > 1e-3 && (z[i][0] > 0) != (p[i][0] > 0.5) {
				return false
			}
			continue
		}
		// Where the output is flat, as far from 0, it does not decide.
		k := argmax(z[i])
		if most := p[i][argmax(p[i])]; p[i][k] < most-1e-4*math.Abs(most) {
			return false
		}
	}
	return true
}

func argmax(v []float64) int { return slices.Index(v, slices.Max(v)) }

func within(rows [][]float64, lo, hi float64) bool {
	const slack = 1e-6
	return !slices.ContainsFunc(rows, func(row []float64) bool {
		return slices.Min(row) < lo-slack || slices.Max(row) > hi+slack
	})
}

const (
	sameForAll = "it is the same for all rows that were tried"
	logarithms = "logarithms of probabilities"
)

func judge(rows [][]float64, e logitPath) (_ Meaning, certain bool, reason string) {
	if len(rows) < 4 {
		if e.dense {
			return Logits, false, "a dense layer gives it; it gives no numbers on rows that were tried"
		}
		return Unknown, false, "it gives no numbers on rows that were tried"
	}
	same, sum, exps := true, 0.0, 0.0 // the largest distances of a row's sums from 1
	for _, row := range rows {
		total, e := 0.0, 0.0
		for _, v := range row {
			total += v
			e += math.Exp(v)
		}
		sum, exps = max(sum, math.Abs(total-1)), max(exps, math.Abs(e-1))
		same = same && slices.Equal(row, rows[0])
	}
	infinite := math.Inf(1)
	switch single, unit := len(rows[0]) == 1, within(rows, 0, 1); {
	case same && e.dense:
		return Logits, false, "a dense layer gives it; it is the same for all rows that were tried"
	case same:
		return Unknown, false, sameForAll
	case hard(rows):
		return Unknown, false, "it is 0, 1 or -1, a decision without its margin"
	case unit && !single && sum < 2e-3:
		return Probabilities, true, "rows in [0,1] that sum to 1"
	case unit && single && !e.dense:
		return Probabilities, false, "one column in [0,1]"
	case unit && single:
		return Unknown, false, "a dense layer gives it, but it stays in [0,1]"
	case !single && exps < 2e-3:
		return Logits, true, logarithms
	case e.dense:
		return Logits, false, "a dense layer gives it, and it leaves [0,1]"
	case unit:
		return Unknown, false, "rows in [0,1] that do not sum to 1"
	case within(rows, -1, 1):
		return Unknown, false, "it stays in [-1,1], but no dense layer gives it"
	case within(rows, 0, infinite), within(rows, -infinite, 0):
		return Unknown, false, "it has one sign, but no dense layer gives it"
	}
	return Logits, false, "it has both signs and leaves [-1,1]"
}

func hard(rows [][]float64) bool {
	return !slices.ContainsFunc(slices.Concat(rows...), func(v float64) bool { return v != 0 && math.Abs(v) != 1 })
}

func decidedBy(g *graph.Graph, output string) string {
	if n := decider(g, output); n != nil {
		return n.Label()
	}
	return "the last node"
}

func decider(g *graph.Graph, output string) *graph.Node {
	return source(g, output, "Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Concat")
}

// inGraph looks for a value of the graph that holds the log-odds of the probabilities p.
func (m *Model) inGraph(seen map[string][][]float64, p [][]float64) (readout, bool) {
	const small = 1e-3 // farther out float32 leaves no digits
	var at []int
	lo, hi := math.Inf(1), math.Inf(-1)
	for i, row := range p {
		if slices.Min(row) > small && slices.Max(row) < 1-small {
			at = append(at, i)
			lo, hi = min(lo, row[0]), max(hi, row[0])
		}
	}
	if len(at) < 6 || hi-lo < small {
		return readout{}, false
	}
	single := len(p[0]) == 1
	best, least := readout{}, 1e-4
	for _, n := range m.graph.Graph.Nodes {
		for _, name := range n.Outputs {
			z := seen[name]
			if z == nil || name == m.decision.Output {
				continue
			}
			for _, s := range readings(name, len(z[0]), single) {
				worst := 0.0
				for _, i := range at {
					worst = max(worst, distance(s.apply(z[i]), p[i]))
				}
				if worst < least/2 || best.value == "" && worst < least {
					best, least = s, worst
				}
			}
		}
	}
	return best, best.value != ""
}

func readings(value string, columns int, single bool) []readout {
	list := []readout{{value: value, size: columns}}
	turned := list[0]
	switch {
	case columns == 1:
		turned.matrix = [][]float64{{-1}}
	case columns == 2 && single:
		turned.matrix = [][]float64{{0, 1}, {1, 0}}
	default:
		return list
	}
	return append(list, turned)
}

func (s *readout) apply(z []float64) []float64 {
	if s.matrix == nil {
		return z
	}
	out := make([]float64, len(s.matrix[0]))
	for i, row := range s.matrix {
		for j, v := range row {
			out[j] += z[i] * v
		}
	}
	return out
}

func distance(z, p []float64) float64 {
	if len(z) == 1 {
		z = []float64{0, z[0]}
	}
	if len(p) == 1 {
		p = []float64{1 - p[0], p[0]}
	}
	worst := 0.0
	for k := range p {
		odds := math.Log(p[k]) - math.Log(p[0])
		worst = max(worst, math.Abs(z[k]-z[0]-odds)/(1+math.Abs(odds)))
	}
	return worst
}

// Declare returns the model whose logits are those that decide for d.Target: what the task declares of the output holds
// where the model does not show the contrary, log-odds are appended where the graph holds none, and a threshold is
// taken off. The file's own outputs stay as they are. The error of a head that is not known says what to declare.
func (m *Model) Declare(d Declared) (*Model, error) {
	if m.declared && d.Output == "" && d.Threshold == 0 {
		return m, nil
	}
	h := m.modelHead
	name := fmt.Sprintf("output %q", h.decision.Output)
	switch {
	case h.steps:
		return nil, fmt.Errorf("%s is a decision without its margin, which no declaration gives back: export the model "+
			"with the score that it decides by as the output, the input of %s", name,
			decidedBy(m.graph.Graph, h.decision.Output))
	case d.Output == "" && h.decision.Reason == sameForAll:
		return nil, fmt.Errorf("%s does not tell rows apart: %s, as in a file that quantizing has collapsed", name,
			sameForAll)
	case d.Output == "" && h.decision.Meaning == Unknown:
		return nil, fmt.Errorf("%s is neither known as logits nor as probabilities: %s; declare it in the task file, "+
			"as in `target: {output: probabilities, threshold: 0.5}` or `target: {output: logits, threshold: 0}`",
			name, h.decision.Reason)
	case d.Output == Logits && h.decision.Meaning == Probabilities && h.certain:
		return nil, fmt.Errorf("the task declares `output: logits`, but %s holds probabilities: %s", name, h.decision.Reason)
	case d.Output == Probabilities && h.decision.Meaning != Probabilities && !h.unit:
		return nil, fmt.Errorf("the task declares `output: probabilities`, but %s leaves [0,1]: %s", name, h.decision.Reason)
	case d.Output == Probabilities:
		h.at = h.prob
	case d.Output == Logits:
		h.at = h.raw
	}
	if d.Output != "" && d.Output != h.decision.Meaning {
		h.decision.Meaning, h.decision.Reason = d.Output, "the task declares it"
	}
	c := *m
	h.declared = true
	c.modelHead = h
	c.logits, c.perRow = h.at.value, h.at.size
	var shift float64
	if d.Threshold != 0 {
		shift = d.Threshold
		if h.decision.Meaning == Probabilities {
			if shift <= 0 || shift >= 1 {
				return nil, fmt.Errorf("the threshold %v of the task is no probability between 0 and 1", shift)
			}
			shift = math.Log(shift / (1 - shift))
		}
		if c.Classes() != 2 && shift != 0 {
			return nil, fmt.Errorf("the task has a threshold, but the model has %d classes: want two", c.Classes())
		}
	}
	if c.cut = shift; d.Target == 0 {
		c.cut = -shift
	}
	if h.at.odds || h.at.matrix != nil || shift != 0 {
		if err := c.extend(shift, d.Target); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

// extend makes the nodes behind the graph that compute the logits: log-odds, signs and the threshold.
//
// A probability that float32 rounds to 0 or 1 counts as 2^-24 or 1-2^-24, the nearest that it tells from them: log-odds
// beyond 16.6 are 16.6, with gradient 0.
func (m *Model) extend(shift float64, target int) error {
	t := m.types[m.logits]
	b := graph.NewBuilder(m.base.Graph.Clone(), "cfq.head.")
	first, known := len(b.G.Nodes), len(b.G.Inits)
	z := m.logits
	if len(t.Shape) != 2 {
		z = reshaped(b, z, int64(m.perRow))
	}
	if t.DType != graph.Double && t.DType != graph.Float {
		z, t.DType = b.Op("Cast", []string{z}, graph.IntAttr("to", int64(graph.Float))), graph.Float
	}
	constant := func(v []float64, dims ...int64) string { return b.Const(graph.FromNumbers("c", t.DType, v, dims...)) }
	if m.at.odds {
		eps := math.Exp2(-24)
		if t.DType == graph.Double {
			eps = math.Exp2(-53)
		}
		p := b.Op("Clip", []string{z, constant([]float64{eps}), constant([]float64{1 - eps})})
		z = b.Op("Log", []string{p})
		if m.perRow == 1 {
			z = b.Op("Sub", []string{z, b.Op("Log", []string{b.Op("Sub", []string{constant([]float64{1}), p})})})
		}
	}
	if a := m.at.matrix; a != nil {
		m.perRow = len(a[0])
		z = b.Op("MatMul", []string{z, constant(slices.Concat(a...), int64(len(a)), int64(m.perRow))})
	}
	if shift != 0 {
		row := make([]float64, m.perRow)
		if m.perRow == 1 && target == 0 {
			shift = -shift // a single logit is that of class 1
		}
		row[min(target, m.perRow-1)] = shift
		z = b.Op("Sub", []string{z, constant(row, 1, int64(m.perRow))})
	}
	m.logits, m.nodes, m.consts = z, b.G.Nodes[first:], b.G.Inits[known:]
	m.graph = m.extended(m.base)
	m.types = maps.Clone(m.types)
	if err := autodiff.Infer(&graph.Graph{Inits: m.consts, Nodes: m.nodes}, m.types); err != nil {
		return fmt.Errorf("log-odds of output %q: %w", m.decision.Output, err)
	}
	return nil
}

func (m *Model) extended(g *graph.Model) *graph.Model {
	c := g.Clone()
	if c.Opset("") < 18 {
		if err := pass.Upgrade(c, m.types); err != nil {
			c = g.Clone() // a node that cannot be upgraded is reported where gradients need it
		}
	}
	if m.transform != nil {
		m.transform.before(c.Graph)
	}
	c.Graph.Nodes = append(c.Graph.Nodes, m.nodes...)
	c.Graph.Inits = append(c.Graph.Inits, m.consts...)
	return c
}
