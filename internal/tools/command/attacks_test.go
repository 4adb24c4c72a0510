package command

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

// attack is a way to let a model pass that should not, or whose limit is the true value: of these a share may.
type attack struct {
	name  string
	level float64
	calls []call                              // of the command: none may exit with 0
	draws func(rng *rand.Rand) []*eval.Result // looks at one model; it passes when one of them does
	gate  gate.Gate
}

type call struct {
	quantized, data string
	env, args       []string
}

const (
	atLimitRuns = 4000
	trueVD      = 0.02 // just above the limit
)

func people(rng *rand.Rand, n int) *eval.Result {
	k := int(distuv.Binomial{N: float64(n), P: trueVD, Src: rng}.Rand())
	r := &eval.Result{
		Settings: eval.Settings{Margins: []float64{0.1}, Confidence: 0.9},
		Margins:  []eval.AtMargin{{Margin: 0.1, Values: eval.Values{"vd": eval.NewRate(k, n, 0.9).AsValue()}}},
	}
	return r
}

// attacks is the table: what a gate must not be taken in by, and how often it may be.
func attacks() []attack {
	vd := []string{"--max-vd", "0.02"}
	plain := func(quantized string, args ...string) call {
		return call{quantized: quantized, args: append(args, vd...)}
	}
	limit := trueVD * (1 - 1e-9)
	at := gate.Gate{Checks: []gate.Check{{Metric: "vd", Max: &limit}}, OneSided: true}
	three := at
	three.Looks = 3
	return []attack{
		{name: "the environment overrides the gate file", calls: []call{{
			quantized: "bad.onnx", env: []string{"CFQ_MARGIN=0.6", "CFQ_CONFIDENCE=0.5"}, args: []string{"--gate", "gate.yaml"},
		}}},
		{name: "promises below the default margin", calls: []call{plain("good.onnx", "--promises", "bare.csv")}},
		{name: "promises of another model", calls: []call{plain("good.onnx", "--promises", "foreign.csv")}},
		{name: "an earlier report on another model", calls: []call{{
			quantized: "good.onnx", args: []string{"--previous", "other.json", "--check", "increase(vd)<=0.01"},
		}}},
		{name: "copies as people", calls: []call{{quantized: "good.onnx", data: "copies.csv", args: vd}}},
		{name: "copies with row numbers", calls: []call{{quantized: "good.onnx", data: "numbered.csv", args: vd}}},
		{name: "copies that a column counts", calls: []call{{quantized: "good.onnx", data: "counted.csv", args: vd}}},
		{name: "copies in other formats", calls: []call{{quantized: "good.onnx", data: "formats.csv", args: vd}}},
		{name: "outputs that depend on the batch", calls: []call{
			plain("alone.onnx"), plain("alone.onnx", "--sample", "200"),
		}},
		{name: "approving everybody", calls: []call{
			plain("everybody.onnx"), plain("everybody.onnx", "--check", "vd[sex]<=0.05"),
			plain("everybody.onnx", "--promises", "held.csv"),
			{quantized: "everybody.onnx", args: []string{"--check", "tau01<=0.5"}},
		}},
		{name: "approving everybody of a group", calls: []call{
			plain("group.onnx"), plain("group.onnx", "--promises", "held.csv"),
			{quantized: "group.onnx", args: []string{"--previous", "good.json", "--check", "increase(vd)<=0.01"}},
			{quantized: "group.onnx", args: []string{"--check", "lost<=0.02"}},
		}},
		{name: "calibration rows as people", calls: []call{
			{quantized: "good.onnx", data: "train.csv", args: vd},
			{quantized: "good.onnx", data: "rewritten.csv", args: vd},
			{quantized: "moved/good.onnx", data: "train.csv", args: append([]string{"--calibration-record", "required"}, vd...)},
		}},
		{name: "a model without numbers", calls: []call{
			plain("nan.onnx"), {quantized: "nan.onnx", args: []string{"--check", "bytes<=1e9"}},
		}},
		{name: "limits that cannot fail", calls: []call{
			{quantized: "bad.onnx", args: []string{"--check", "vd<=1"}},
			{quantized: "bad.onnx", args: []string{"--check", "frr>=0"}},
		}},
		{name: "damaged data", calls: []call{
			{quantized: "good.onnx", data: "damaged.csv", args: vd},
			{quantized: "good.onnx", data: "misspelt.csv", args: []string{"--check", "accuracy_drop<=0.01"}},
		}},
		{name: "the same people again", calls: []call{
			{quantized: "good.onnx", args: []string{"--max-vd", "0.001", "--looks-file", "l.looks"}},
			{quantized: "good.onnx", args: []string{"--max-vd", "0.02", "--looks-file", "l.looks"}},
		}},
		{name: "a true value at the limit", level: 0.05, gate: at, draws: func(rng *rand.Rand) []*eval.Result {
			return []*eval.Result{people(rng, 30+rng.IntN(2000))}
		}},
		{name: "three planned looks at new people", level: 0.05, gate: three, draws: func(rng *rand.Rand) []*eval.Result {
			return []*eval.Result{people(rng, 400), people(rng, 800), people(rng, 1600)}
		}},
	}
}

func TestAttacksLong(t *testing.T) {
	if !long() {
		t.Skip("make long runs the attacks: they take minutes")
	}
	w := attackFiles(t)
	table := fmt.Sprintf("%-42s %9s %6s %6s\n", "attack", "decisions", "passed", "level")
	for _, a := range attacks() {
		decisions, passed := len(a.calls), 0
		for _, c := range a.calls {
			if code, out := c.run(w); code == 0 {
				passed++
				t.Errorf("%s: %v passes\n%s", a.name, c, out)
			}
		}
		if a.draws != nil {
			rng := rand.New(rand.NewPCG(1, uint64(len(a.name))))
			decisions = atLimitRuns
			for range atLimitRuns {
				for _, r := range a.draws(rng) {
					if gate.Judge(&a.gate, r, nil).Verdict == gate.Pass {
						passed++
						break
					}
				}
			}
		}
		slack := 3 * math.Sqrt(a.level*(1-a.level)/float64(decisions))
		if float64(passed) > (a.level+slack)*float64(decisions) {
			t.Errorf("%s: %d of %d pass, more than %g", a.name, passed, decisions, a.level)
		}
		table += fmt.Sprintf("%-42s %9d %6d %6g\n", a.name, decisions, passed, a.level)
	}
	t.Logf("wrong passes\n%s", table)
}

func (c *call) run(w *workdir) (int, string) {
	w.Helper()
	args := append([]string{
		"gate", "model.onnx", c.quantized, "-d", cmp.Or(c.data, "test.csv"), "-t", "task.yaml", "-q",
	}, c.args...)
	if !slices.Contains(args, "--looks-file") {
		args = append(args, "--looks-file", "none")
	}
	w.env = c.env
	code, out := w.run(args...)
	if code != 0 && code != 1 && code != 2 && code != 5 {
		w.Errorf("%v: exit code %d\n%s", args, code, out)
	}
	return code, out
}

func attackFiles(t *testing.T) *workdir {
	t.Helper()
	w := reports(t)
	put := func(name, text string) { w.put(name, []byte(text)) }
	cfq := func(args ...string) { w.call(0, args...) }
	get := w.read
	put("gate.yaml", "version: 1\nconfidence: 0.95\nmargin: 0.1\nchecks:\n  - {metric: vd, max: 0.02}\n")
	people := []string{"-d", "test.csv", "-t", "task.yaml", "-q"}
	cfq(append([]string{"recourse", "model.onnx", "--margin", "0", "-o", "bare.csv"}, people...)...)
	cfq(append([]string{"recourse", "model.onnx", "--margin", "0.5", "-o", "held.csv"}, people...)...)
	cfq(append([]string{"recourse", "bad.onnx", "--margin", "0.1", "-o", "foreign.csv"}, people...)...)
	cfq(append([]string{
		"eval", "good.onnx", "bad.onnx", "--report", "json:other.json", "--other-original",
	}, people...)...)
	cfq(append([]string{"eval", "model.onnx", "good.onnx", "--report", "json:good.json"}, people...)...)

	head, rows, _ := strings.Cut(get("test.csv"), "\n")
	lines := strings.SplitAfter(strings.TrimSuffix(rows, "\n"), "\n")
	put("copies.csv", head+"\n"+strings.Repeat(strings.TrimSuffix(strings.Join(lines[:100], ""), "\n")+"\n", 20))
	numbered, counted, formats := "nr,"+head+"\n", "copy,"+head+"\n", head+"\n"
	for k := range 20 {
		for i, l := range lines[:100] {
			age, rest, _ := strings.Cut(l, ",")
			numbered += fmt.Sprintf("%d,%s", 100*k+i, l)
			counted += fmt.Sprintf("%d,%s", k+1, l)
			formats += age + "." + strings.Repeat("0", k) + "," + rest
		}
	}
	put("numbered.csv", numbered)
	put("counted.csv", counted)
	put("formats.csv", formats)
	var damaged, rewritten strings.Builder
	for i, l := range lines {
		if i%3 > 0 {
			l = "much" + l
		}
		damaged.WriteString(strings.TrimSuffix(l, "\n") + "\n")
	}
	put("damaged.csv", head+"\n"+damaged.String())
	put("misspelt.csv", strings.ReplaceAll(get("test.csv"), "approved", "aproved"))
	head, rows, _ = strings.Cut(get("train.csv"), "\n")
	for l := range strings.Lines(rows) {
		age, rest, _ := strings.Cut(l, ",")
		rewritten.WriteString(age + ".0," + rest)
	}
	put("rewritten.csv", head+"\n"+rewritten.String())
	put("moved/good.onnx", get("good.onnx"))
	for name, edit := range edits() {
		m := must.Get(codec.ReadFile(w.path("model.onnx")))(t)
		last := m.Graph.Nodes[len(m.Graph.Nodes)-1]
		last.Outputs[0] = "own"
		edit(m.Graph)
		w.model(name, m)
	}
	return w
}

func edits() map[string]func(g *graph.Graph) {
	node := func(g *graph.Graph, op, out string, in ...string) {
		g.Nodes = append(g.Nodes, &graph.Node{Name: out, Op: op, Inputs: in, Outputs: []string{out}})
	}
	more := func(g *graph.Graph, by float32) {
		g.Inits = append(g.Inits, graph.FromFloats("more", []float32{-by, by}, 1, 2))
	}
	return map[string]func(g *graph.Graph){
		"everybody.onnx": func(g *graph.Graph) {
			more(g, 1000)
			node(g, "Add", "logits", "own", "more")
		},
		"group.onnx": func(g *graph.Graph) { // the second input is 1 for women
			more(g, 1000)
			pick := make([]float32, 20)
			pick[1] = 1
			g.Inits = append(g.Inits, graph.FromFloats("pick", pick, 20, 1))
			node(g, "MatMul", "female", "x", "pick")
			node(g, "Mul", "gift", "female", "more")
			node(g, "Add", "logits", "own", "gift")
		},
		"alone.onnx": func(g *graph.Graph) {
			more(g, -9)
			g.Inits = append(g.Inits, graph.FromInts("0", []int64{0}), graph.FromInts("1", []int64{1}))
			node(g, "Shape", "shape", "x")
			node(g, "Gather", "rows", "shape", "0")
			node(g, "Equal", "alone", "rows", "1")
			node(g, "Where", "logits", "alone", "more", "own")
		},
		"nan.onnx": func(g *graph.Graph) {
			more(g, float32(math.NaN()))
			node(g, "Add", "logits", "own", "more")
		},
	}
}
