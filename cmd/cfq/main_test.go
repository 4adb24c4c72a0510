package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/internal/extsort"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq"
	"cfq/quant/verify"
	"cfq/recourse/promise"
)

func TestHelp(t *testing.T) {
	for _, c := range commands() {
		var b bytes.Buffer
		c.writeHelpAll(&b, writeCommon)
		fs, _ := c.flags(&env{msg: &cli.Printer{}})
		fs.VisitAll(func(f *pflag.Flag) {
			must.Has(must.In(t, c.name), b.String(), "--"+f.Name)
		})
		must.Has(t, b.String(), "Usage: cfq "+c.name)
		_, _, examples := c.text()
		if !strings.HasPrefix(examples, "  cfq ") {
			t.Errorf("%s: no examples: %q", c.name, examples)
		}
		for x := range strings.Lines(examples) {
			words := strings.Fields(strings.ReplaceAll(x, "'", ""))
			if i := slices.Index(words, ">"); i >= 0 {
				words = words[:i]
			}
			if len(words) < 2 || words[0] != "cfq" || words[1] != c.name {
				t.Errorf("%s: the example %q is of something else", c.name, x)
				continue
			}
			fs, _ = c.flags(&env{msg: &cli.Printer{}})
			must.Do(must.In(t, c.name, x), cli.Parse(fs, words[2:], func(string) (string, bool) { return "", false }))
		}
	}
}

func TestHelpIsShort(t *testing.T) {
	for _, c := range commands() {
		var b bytes.Buffer
		c.writeHelp(&b)
		flags := regexp.MustCompile(`(?m)^ {2,6}(-., )?--`).FindAllString(b.String(), -1)
		if lines := strings.Count(b.String(), "\n"); lines > 60 || len(flags) > 20 {
			t.Errorf("cfq %s --help has %d lines and %d flags", c.name, lines, len(flags))
		}
		if !strings.HasSuffix(b.String(), " flags.\n") || !strings.Contains(b.String(), "cfq "+c.name+" --help-all") {
			t.Errorf("cfq %s --help does not end with --help-all", c.name)
		}
	}
}

func TestReadRows(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string][]int{
		`[3, 1]`: {3, 1}, `{"test_rows": [0, 7]}`: {0, 7}, `[]`: {},
		`{"a": [1], "b": [2]}`: nil, `[-1]`: nil, `[1.5]`: nil, `rows`: nil, `{}`: nil,
	} {
		path := filepath.Join(dir, "rows.json")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := readSelection(path)
		if (want == nil) != (err != nil) || !slices.Equal(got.Only, want) {
			t.Errorf("%s: %v, %v; want %v", text, got.Only, err, want)
		}
		if err != nil && cli.Code(err) != cli.Unusable {
			t.Errorf("%s: code %d", text, cli.Code(err))
		}
	}
}

func TestFault(t *testing.T) {
	err := guarded(func() error { panic("index out of range") })
	if cli.Code(err) != cli.Fault || !strings.Contains(err.Error(), "index out of range") || cli.HintOf(err) == "" {
		t.Error(cli.Code(err), err)
	}
}

func TestErrorsOfTheMachine(t *testing.T) {
	full := dataError(fmt.Errorf("%w: no space left on device", extsort.ErrFile))
	wrong := (&quantizeFlags{out: "q.onnx"}).usable(&env{}, &ptq.Result{
		FileSize: ptq.FileSize{Bytes: 1, FloatBytes: 2},
		Verified: &verify.Report{Problems: []string{"a layer runs as planned by nobody"}},
	})
	for hint, err := range map[string]error{"TMPDIR": full, "write.compute=float": wrong} {
		if !strings.Contains(cli.HintOf(err), hint) || cli.Code(err) != cli.RunFailed {
			t.Errorf("%v has hint %q and code %d, want %q", err, cli.HintOf(err), cli.Code(err), hint)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestNoRoom(t *testing.T) {
	t.Parallel()
	for _, c := range commands() {
		var said strings.Builder
		if code := start([]string{"help", c.name}, fullDisk{}, &said); code != cli.RunFailed ||
			!strings.Contains(said.String(), "no space left") {
			t.Errorf("help %s: exit code %d, %q", c.name, code, said.String())
		}
	}
}

func found(t *testing.T, words ...string) (all []string) {
	t.Helper()
	var b strings.Builder
	must.Do(t, writeWords(&b, words))
	for line := range strings.Lines(b.String()) {
		word, what, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if what == "" {
			t.Errorf("%q: %s has no description", words, word)
		}
		all = append(all, word)
	}
	return all
}

func TestCompletionIsComplete(t *testing.T) {
	t.Parallel()
	for _, sub := range commands() {
		if !slices.Contains(found(t, ""), sub.name) {
			t.Errorf("no subcommand %s", sub.name)
		}
		flags := found(t, sub.name, "file", "-")
		fs, _ := sub.flags(&env{msg: &cli.Printer{}})
		fs.VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(flags, "--"+f.Name) {
				t.Errorf("no flag --%s of %s", f.Name, sub.name)
			}
		})
	}
	for _, c := range []struct{ words, want string }{
		{"gate --on-inconclusive p", "report fail pass"},
		{"task ch", "init check show"},
		{"completion ", "bash zsh fish"},
		{"task check ch", ""},
		{"inspect mo", ""},
		{"eval --data tr", ""},
		{"unknown x", ""},
	} {
		must.Same(t, c.want, strings.Join(found(t, strings.Split(c.words, " ")...), " "))
	}
}

func TestExplainable(t *testing.T) {
	kindOf := map[string]string{}
	claim := func(name, kind string) {
		key := strings.ToLower(name)
		if other, taken := kindOf[key]; taken {
			t.Errorf("%s of %s is a name of %s, too", name, kind, other)
		}
		kindOf[key] = kind
	}
	var b bytes.Buffer
	view := newTextView(&b)
	for _, k := range topicKinds() {
		claim(k.Name, "kinds")
		for _, x := range k.topics {
			claim(x.name, k.Name)
			for _, alias := range x.alias {
				if kindOf[strings.ToLower(alias)] != k.Name { // metrics share the name of their family
					claim(alias, k.Name)
				}
			}
			b.Reset()
			view.page(x.text, x.doc)
			if !strings.HasPrefix(b.String(), x.name) || strings.Count(b.String(), "\n") < 4 {
				t.Errorf("%s of %s: text\n%s", x.name, k.Name, b.String())
			}
		}
	}
}

// What a file of images is known by covers its labels, which stand in a file of their own.
func TestFileHashOfLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	images := write("train-images-idx3-ubyte", "\x00\x00\x08\x03\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x07")
	sums := map[string]bool{}
	for _, label := range []string{"", "\x01", "\x02"} {
		if label != "" {
			write("train-labels-idx1-ubyte", "\x00\x00\x08\x01\x00\x00\x00\x01"+label)
		}
		_, sum, err := fileHash(images)
		must.Do(t, err)
		sums[sum] = true
	}
	must.Same(t, 3, len(sums))
}

func TestErrorLines(t *testing.T) {
	for stderr, want := range map[string]string{
		"cfq: warning: w\ncfq: error: a:\ncfq: error:   b\ncfq: hint: h\n": "a:\n  b",
		"cfq: warning: w\nkilled\n":                                        "cfq: warning: w\nkilled",
		"":                                                                 "",
	} {
		if got := errorLines(stderr); got != want {
			t.Errorf("%q of %q, want %q", got, stderr, want)
		}
	}
}

// TestUnusableModels: commands say with their code that a model cannot be used, and what is wrong with it.
func TestUnusableModels(t *testing.T) {
	orttest.Need(t)
	dir := t.TempDir()
	write := func(name string, change func(g *graph.Graph)) string {
		m := must.Get(codec.ReadFile(loans("model.onnx")))(t)
		change(m.Graph)
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, must.Get(codec.Marshal(m))(t), 0o600))
		return path
	}
	nan := write("nan.onnx", func(g *graph.Graph) {
		w := g.Inits[1]
		w.Raw = slices.Repeat([]byte{0, 0, 0xc0, 0x7f}, w.Len())
	})
	some := write("some.onnx", func(g *graph.Graph) { // no number for who has the least savings
		b, row := graph.NewBuilder(g, "n."), make([]float32, 20)
		row[4] = 1
		root := b.Op("Sqrt", []string{b.Op("Gemm", []string{
			"x", b.Const(graph.FromFloats("w", row, 20, 1)), b.Const(graph.FromFloats("c", []float32{.98}, 1)),
		})})
		last := g.Nodes[4]
		last.Outputs[0] = "z"
		nothing := b.Op("Mul", []string{root, b.Const(graph.FromFloats("k", []float32{0}, 1))})
		g.Nodes = append(g.Nodes, &graph.Node{Op: "Add", Inputs: []string{"z", nothing}, Outputs: []string{"logits"}})
	})
	rows := filepath.Join(dir, "rows.json")
	must.Do(t, os.WriteFile(rows, []byte("[171, 173, 174, 175, 176, 177, 178, 179]"), 0o600))
	for _, args := range [][]string{{"recourse", some}, {"eval", some, loans("model.onnx")}} {
		_, says, err := call(t.Context(), append(args, "-d", loans("test.csv"), "-t", loans("task.yaml"), "--rows", rows)...)
		must.Do(t, err)
		must.Has(t, says, "1 of 1000 rows could not be read and are left out")
		must.Has(t, says, "line 178: the model gives no number (NaN)")
	}
	must.Do(t, os.WriteFile(rows, []byte("[176]"), 0o600)) // nobody of a batch has a number
	for _, args := range [][]string{{"recourse", some}, {"eval", some, loans("model.onnx")}} {
		_, _, err := call(t.Context(), append(args, "-d", loans("test.csv"), "-t", loans("task.yaml"), "--rows", rows)...)
		if no := (*promise.NoNumber)(nil); !errors.As(err, &no) || no.Line != 178 {
			t.Errorf("%s: %v", args[0], err)
		}
	}
	steps := write("steps.onnx", func(g *graph.Graph) { g.Nodes[1].Op = "Round" })
	elsewhere := write("elsewhere.onnx", func(g *graph.Graph) {
		t := g.Inits[0]                                               // TensorProto.external_data and data_location
		t.Extra = []byte("\x6a\x0d\x0a\x08location\x12\x01w\x70\x01") // that codec does not write itself
		t.Raw = nil
	})
	for model, want := range map[string]string{
		nan: "no number (NaN)", steps: "move in steps", elsewhere: "does not exist",
	} {
		_, _, err := call(t.Context(), "recourse", model, "-d", loans("test.csv"), "-t", loans("task.yaml"),
			"-o", filepath.Join(dir, "promises.csv"))
		must.Fail(t, err, want)
		if cli.Code(err) != cli.Unusable || strings.Contains(cli.HintOf(err), "exported ONNX model is needed") {
			t.Errorf("%v: code %d, hint %q", err, cli.Code(err), cli.HintOf(err))
		}
	}
}
