package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"cfq/internal/must"
)

func TestSuggest(t *testing.T) {
	flags := []string{"method", "margins", "budget", "rows", "seed"}
	for word, want := range map[string]string{
		"metod": "method", "margin": "margins", "buget": "budget", "row": "rows",
		"sede": "seed", "zzzzzz": "", "x": "", "Method": "method",
	} {
		must.Same(t, want, Suggest(word, flags))
	}
}

func TestCodeAndHint(t *testing.T) {
	plain := errors.New("boom")
	known := Wrap(plain, "output-exists")
	cases := []struct {
		err  error
		code int
		id   string
	}{
		{nil, Passed, ""},
		{plain, RunFailed, ""},
		{known, Unusable, "output-exists"},
		{fmt.Errorf("outer: %w", known), Unusable, "output-exists"},
		{WithCode(known, RunFailed), RunFailed, "output-exists"},
		{Wrap(WithCode(known, RunFailed), "disk-full"), Unusable, "disk-full"},
		{Usagef("", "no"), Unusable, ""},
		{fmt.Errorf("run: %w", context.Canceled), Interrupted, ""},
		{WithCode(fmt.Errorf("run: %w", context.Canceled), RunFailed), Interrupted, ""},
	}
	for _, c := range cases {
		if Code(c.err) != c.code || HintOf(c.err) != c.id {
			t.Errorf("%v: code %d, hint %q; want %d, %q", c.err, Code(c.err), HintOf(c.err), c.code, c.id)
		}
	}
	if Wrap(nil, "output-exists") != nil || WithCode(nil, RunFailed) != nil {
		t.Error("no error has become one")
	}
}

func TestPrinter(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{Out: &b, Subcommand: "eval"}
	p.Error(Wrap(errors.Join(errors.New("one"), errors.New("two")), hintFlags))
	p.Warn("%d rows", 4)
	p.Note("working")
	p.Progress()("label", 1, 2) // not a terminal: draws nothing
	p.Quiet = true
	p.Note("working quietly")
	want := "cfq: error: one\ncfq: error: two\ncfq: hint: `cfq eval --help-all` lists the flags\n" +
		"cfq: warning: 4 rows\ncfq: working\n"
	must.Same(t, want, b.String())
}

// A name that is part of a message cannot steer the terminal, break the line or turn the direction of the text.
func TestPrinterEscapes(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{Out: &b}
	p.Error(errors.New("model \x1b]0;owned\x07.onnx\r\u009b2J \u202exnno"))
	p.Warn("%s", "a\ncfq: error: b\u2028c")
	want := "cfq: error: model  ]0;owned .onnx  2J  xnno\ncfq: warning: a cfq: error: b c\n"
	must.Same(t, want, b.String())
}

func newFlags() (*pflag.FlagSet, *int) {
	fs := pflag.NewFlagSet("eval", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.String("method", "ptq", "")
	fs.String("output", "", "")
	fs.Float64("budget", 4, "")
	fs.Float64("share", 0, "")
	fs.Uint64("seed", 1, "")
	fs.Bool("draw", false, "")
	return fs, fs.Int("sample-size", 7, "")
}

func none(string) (string, bool) { return "", false }

func TestParse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--metod x", "unknown flag --metod; did you mean --method?"},
		{"--qqqqqqqq", "unknown flag --qqqqqqqq"},
		{"--wbits 4", "unknown flag --wbits; did you mean --budget?"},
		{"--dataset x", "unknown flag --dataset"}, // which has no flag --data
		{"-z", "unknown flag -z"},
		{"--sample-size many", "invalid value \"many\" for --sample-size: want a whole number"},
		{"--sample-size 99999999999999999999", "invalid value \"99999999999999999999\" for --sample-size: number out of " +
			"range"},
		{"--share 3%", "invalid value \"3%\" for --share: want a number"},
		{"--share -1e999", "invalid value \"-1e999\" for --share: number out of range"},
		{"--seed -1", "invalid value \"-1\" for --seed: want a whole number, 0 or more"},
		{"--draw=perhaps", "invalid value \"perhaps\" for --draw: want true or false"},
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
	if got := Environment(fs); len(got) != 1 || got["CFQ_SAMPLE_SIZE"] != "9" {
		t.Errorf("the environment set %v", got)
	}
	if got := Outranked(fs, "sample-size"); got != "CFQ_SAMPLE_SIZE=9" || len(Environment(fs)) != 0 {
		t.Errorf("outranked: %q, the environment set %v", got, Environment(fs))
	}
	must.Same(t, "", Outranked(fs, "seed"))
	fs, n = newFlags()
	if err := Parse(fs, []string{"--sample-size=3"}, lookup); err != nil || *n != 3 {
		t.Errorf("the flag must win: %d, %v", *n, err)
	}
	env["CFQ_SAMPLE_SIZE"] = "some"
	fs, _ = newFlags()
	if err := Parse(fs, nil, lookup); err == nil ||
		err.Error() != `invalid value "some" of environment variable CFQ_SAMPLE_SIZE: want a whole number` ||
		Code(err) != Unusable {
		t.Errorf("a bad variable: %v", err)
	}
}

func TestBlame(t *testing.T) {
	env := map[string]string{"CFQ_SHARE": "30", "CFQ_METHOD": "ptq", "CFQ_SEED": "7"}
	for _, c := range []struct {
		args, want string
		err        error
	}{
		{"", "--share 30: no (from the environment: CFQ_SHARE=30)", Usagef("", "--share 30: no")},
		{"", "method ptq has no use (from the environment: CFQ_METHOD=ptq)", Usagef("", "method ptq has no use")},
		{"--share 30", "--share 30: no", Usagef("", "--share 30: no")},
		{"", "--shares, mixed-ptq, 7", Usagef("", "--shares, mixed-ptq, 7")},
		{"", "--share: broke", errors.New("--share: broke")},
	} {
		fs, _ := newFlags()
		must.Do(t, Parse(fs, strings.Fields(c.args), func(k string) (string, bool) {
			v, ok := env[k]
			return v, ok
		}))
		if got := Blame(fs, c.err); got.Error() != c.want || Code(got) != Code(c.err) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	fs, _ := newFlags()
	must.Do(t, Blame(fs, nil))
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	fails := func(err error, part, id string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), part) || HintOf(err) != id || Code(err) != Unusable {
			t.Errorf("error %v of %q; want %q of %q", err, HintOf(err), part, id)
		}
	}
	must.Do(t, Write(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }))
	failing := func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return errors.New("stopped") }
	must.Fail(t, Write(path, failing), "")
	if have, _ := os.ReadFile(path); string(have) != "new" {
		t.Errorf("a failing write left %q", have)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("a failing write left files: %v", entries)
	}
	fails(Input("model", filepath.Join(dir, "modle.onnx")), "does not exist; there is a file "+path, hintMissingFile)
	fails(Input("model", dir), "is a directory", HintFolder)
	fails(Input("model", os.DevNull), "is a pipe or a device", hintNotAFile)
	t.Chdir(dir)
	for range 2 { // without and with a file of that name
		fails(Input("model", "-"), "model -: standard input and output are not supported",
			"name a file; ./- is one of that name")
		fails(Output("-", true), "output -: standard input and output are not supported",
			"name a file; ./- is one of that name")
		must.Do(t, os.WriteFile("./-", []byte("x"), 0o600))
	}
	must.Do(t, errors.Join(Input("model", "./-"), Output("./-", true)))
	must.Do(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	fails(Input("model", filepath.Join(dir, "empty")), "is empty", "check that it was written completely")
	fails(Output(path, false), "exists", "--overwrite replaces it")
	fails(Output(dir, true), "is a directory", HintFolder)
	fails(Output(filepath.Join(dir, "no", "model.onnx"), false), "no directory", "create the directory first")
	for _, p := range []string{path, filepath.Join(dir, "fresh")} {
		must.Do(t, Output(p, p == path))
	}
}

func TestFilesOfOtherKinds(t *testing.T) {
	dir := t.TempDir()
	content := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	kind := func(path string) fs.FileMode {
		t.Helper()
		info := must.Get(os.Lstat(path))(t)
		return info.Mode().Type()
	}
	socket := filepath.Join(dir, "socket")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	toSocket, toNothing, toFile := filepath.Join(dir, "to-socket"), filepath.Join(dir, "to-nothing"), filepath.Join(dir,
		"to-file")
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, []byte("old"), 0o600))
	for link, target := range map[string]string{toSocket: "socket", toNothing: "nothing", toFile: "file"} {
		if err := os.Symlink(target, link); err != nil {
			t.Skip(err)
		}
	}
	for _, path := range []string{socket, toSocket, os.DevNull} {
		for _, overwrite := range []bool{false, true} {
			if err := Output(path, overwrite); err == nil || !strings.Contains(err.Error(), "not a regular file") ||
				Code(err) != Unusable {
				t.Errorf("output %s: %v", path, err)
			}
		}
		if path == os.DevNull {
			continue // nothing is written over it, not even by a test that fails
		}
		before := kind(path)
		must.Fail(t, Write(path, content), "not a regular file")
		must.Same(t, before, kind(path))
	}
	must.Fail(t, Output(toNothing, true), "link to a file that does not exist")
	must.Fail(t, Output(toFile, false), "exists")
	must.Do(t, errors.Join(Output(toFile, true), Write(toFile, content)))
	if have, _ := os.ReadFile(file); string(have) != "new" || kind(toFile) != fs.ModeSymlink {
		t.Errorf("behind the link is %q, the link is %v", have, kind(toFile))
	}
}

func TestDistinct(t *testing.T) {
	dir := t.TempDir()
	in, link, out := filepath.Join(dir, "in"), filepath.Join(dir, "link"), filepath.Join(dir, "out")
	must.Do(t, os.WriteFile(in, []byte("x"), 0o600))
	must.Do(t, os.Link(in, link))
	for _, c := range []struct {
		outputs []string
		want    string
	}{
		{[]string{out}, ""},
		{[]string{out, in}, "is one of the inputs"},
		{[]string{link}, "is one of the inputs"},
		{[]string{out, filepath.Join(dir, ".", "out")}, "two outputs"},
	} {
		err := Distinct([]string{in, ""}, c.outputs)
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.outputs, err, c.want)
		}
	}
}

// Files are replaced when all of them are whole, or none is.
func TestAllOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	have := func() (text []string) {
		for _, e := range must.Get(os.ReadDir(dir))(t) {
			text = append(text, e.Name()+" "+string(must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)))
		}
		return text
	}
	must.Do(t, os.WriteFile(a, []byte("old"), 0o600))
	text := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	fails := func(io.Writer) error { return errors.New("no") }
	must.Fail(t, WriteAll(File{a, text}, File{b, fails}), "no")
	must.Same(t, []string{"a old"}, have())
	must.Do(t, WriteAll(File{a, text}, File{b, text}))
	must.Same(t, []string{"a new", "b new"}, have())
}
