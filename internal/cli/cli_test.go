package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestSuggest(t *testing.T) {
	flags := []string{"method", "margins", "budget", "rows", "seed"}
	for word, want := range map[string]string{
		"metod": "method", "margin": "margins", "buget": "budget", "row": "rows",
		"sede": "seed", "zzzzzz": "", "x": "", "Method": "method",
	} {
		if got := Suggest(word, flags); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestCodeAndHint(t *testing.T) {
	plain := errors.New("boom")
	hinted := Wrap(plain, Unusable, "do this")
	cases := []struct {
		err  error
		code int
		hint string
	}{
		{nil, Passed, ""},
		{plain, RunFailed, ""},
		{hinted, Unusable, "do this"},
		{fmt.Errorf("outer: %w", hinted), Unusable, "do this"},
		{Wrap(hinted, RunFailed, ""), RunFailed, "do this"},
		{Wrap(hinted, RunFailed, "do that"), RunFailed, "do that"},
		{fmt.Errorf("run: %w", context.Canceled), Interrupted, ""},
		{Wrap(fmt.Errorf("run: %w", context.Canceled), RunFailed, ""), Interrupted, ""},
	}
	for _, c := range cases {
		if Code(c.err) != c.code || HintOf(c.err) != c.hint {
			t.Errorf("%v: code %d, hint %q; want %d, %q", c.err, Code(c.err), HintOf(c.err), c.code, c.hint)
		}
	}
}

func TestPrinter(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{Out: &b}
	p.Error(Wrap(errors.Join(errors.New("one"), errors.New("two")), Unusable, "try three"))
	p.Warn("%d rows", 4)
	p.Note("working")
	p.Progress("label")(1, 2) // not a terminal: draws nothing
	p.Quiet = true
	p.Note("working quietly")
	want := "cfq: error: one\ncfq: error: two\ncfq: hint: try three\ncfq: warning: 4 rows\ncfq: working\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func newFlags() (*pflag.FlagSet, *int) {
	fs := pflag.NewFlagSet("eval", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.String("method", "ptq", "")
	fs.String("output", "", "")
	return fs, fs.Int("sample-size", 7, "")
}

func none(string) (string, bool) { return "", false }

func TestParse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--metod x", "unknown flag --metod; did you mean --method?"},
		{"--qqqqqqqq", "unknown flag --qqqqqqqq"},
		{"-z", "unknown flag -z"},
		{"--sample-size many", "invalid argument"},
		{"--method", "needs an argument"},
	} {
		fs, _ := newFlags()
		err := Parse(fs, strings.Fields(c.args), none)
		if err == nil || !strings.Contains(err.Error(), c.want) || Code(err) != Unusable {
			t.Errorf("%s: %v (code %d), want %q", c.args, err, Code(err), c.want)
		}
	}
	fs, _ := newFlags()
	if err := Parse(fs, []string{"--help"}, none); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"CFQ_SAMPLE_SIZE": "9", "CFQ_OUTPUT": "file"}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	fs, n := newFlags()
	if err := Parse(fs, nil, lookup); err != nil || *n != 9 {
		t.Errorf("from the environment: %d, %v", *n, err)
	}
	if out, _ := fs.GetString("output"); out != "" {
		t.Errorf("an output file came from the environment: %q", out)
	}
	fs, n = newFlags()
	if err := Parse(fs, []string{"--sample-size=3"}, lookup); err != nil || *n != 3 {
		t.Errorf("the flag must win: %d, %v", *n, err)
	}
	env["CFQ_SAMPLE_SIZE"] = "some"
	fs, _ = newFlags()
	if err := Parse(fs, nil, lookup); err == nil || !strings.Contains(err.Error(), "CFQ_SAMPLE_SIZE") || Code(err) != Unusable {
		t.Errorf("a bad variable: %v", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	fails := func(err error, part, hint string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), part) || !strings.Contains(HintOf(err), hint) || Code(err) != Unusable {
			t.Errorf("error %v, hint %q; want %q, %q", err, HintOf(err), part, hint)
		}
	}
	if err := Write(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
		t.Fatal(err)
	}
	failing := func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return errors.New("stopped") }
	if err := Write(path, failing); err == nil {
		t.Error("a failing write must fail")
	}
	if have, _ := os.ReadFile(path); string(have) != "new" {
		t.Errorf("a failing write left %q", have)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("a failing write left files: %v", entries)
	}
	fails(Input("model", filepath.Join(dir, "modle.onnx")), "does not exist", "model.onnx")
	fails(Input("model", dir), "is a directory", "file")
	if err := os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(Input("model", filepath.Join(dir, "empty")), "is empty", "")
	fails(Output(path, false), "exists", "--overwrite")
	fails(Output(dir, true), "is a directory", "")
	fails(Output(filepath.Join(dir, "no", "model.onnx"), false), "no directory", "")
	for _, p := range []string{path, filepath.Join(dir, "fresh")} {
		if err := Output(p, p == path); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}
