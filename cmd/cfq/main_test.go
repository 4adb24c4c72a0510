package main

import (
	"bytes"
	"context"
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
	"cfq/onnxio/ort/orttest"
	"cfq/ptq"
	"cfq/quant/verify"
)

func TestHelp(t *testing.T) {
	for _, c := range commands() {
		var b bytes.Buffer
		c.writeHelpAll(&b)
		fs, _ := c.flags(&env{msg: &cli.Printer{}})
		fs.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(b.String(), "--"+f.Name) {
				t.Errorf("cfq %s --help-all lacks --%s", c.name, f.Name)
			}
		})
		if !strings.Contains(b.String(), "Usage: cfq "+c.name) {
			t.Errorf("%s: the help lacks its usage:\n%s", c.name, b.String())
		}
		if len(c.examples) == 0 || c.summary == "" || strings.HasSuffix(c.summary, ".") {
			t.Errorf("%s: no examples, or a bad summary %q", c.name, c.summary)
		}
		for _, x := range c.examples {
			words := strings.Fields(strings.ReplaceAll(x, "'", ""))
			if i := slices.Index(words, ">"); i >= 0 {
				words = words[:i]
			}
			if len(words) < 2 || words[0] != "cfq" || words[1] != c.name {
				t.Errorf("%s: the example %q is of something else", c.name, x)
				continue
			}
			fs, _ = c.flags(&env{msg: &cli.Printer{}})
			if err := cli.Parse(fs, words[2:], func(string) (string, bool) { return "", false }); err != nil {
				t.Errorf("%s: example %q: %v", c.name, x, err)
			}
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

func TestInterrupted(t *testing.T) {
	orttest.Need(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	loans := filepath.Join("..", "..", "testdata", "loans")
	out := filepath.Join(t.TempDir(), "report.json")
	model := filepath.Join(loans, "model.onnx")
	var stdout, stderr bytes.Buffer
	err := dispatch(ctx, []string{
		"eval", model, model, "-d", filepath.Join(loans, "test.csv"), "-t", filepath.Join(loans, "task.yaml"), "--report",
		"json:" + out,
	}, &stdout, &cli.Printer{Out: &stderr})
	if cli.Code(err) != cli.Interrupted || stdout.Len() > 0 {
		t.Errorf("code %d (%v), stdout %q", cli.Code(err), err, stdout.String())
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a report was written")
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
		got, err := readRows(path)
		if (want == nil) != (err != nil) || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
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
		Bytes: 1, FloatBytes: 2, Verified: &verify.Report{Problems: []string{"a layer runs as planned by nobody"}},
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
