package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"cfq/internal/must"
	"cfq/onnxio/ort/orttest"
)

// sameResult compares two JSON reports but for who made them and the name of the data: "sameresult A B".
func sameResult(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] sameresult A B")
	}
	var docs [2]map[string]any
	for i, name := range args {
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(name)), &docs[i]))
		if docs[i]["data"] == nil || docs[i]["result"] == nil {
			ts.Fatalf("%s is no report", name)
		}
		for _, key := range []string{"command", "environment", "data"} {
			delete(docs[i], key)
		}
	}
	if d := difference("", docs[0], docs[1]); (d != "") != neg {
		ts.Fatalf("%s and %s: %s", args[0], args[1], d)
	}
}

func difference(at string, a, b any) string {
	switch x := a.(type) {
	case map[string]any:
		y, _ := b.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(x)) {
			if d := difference(at+"."+key, x[key], y[key]); d != "" {
				return d
			}
		}
		if len(x) == len(y) {
			return ""
		}
	case []any:
		if y, _ := b.([]any); len(x) == len(y) {
			for i := range x {
				if d := difference(fmt.Sprintf("%s[%d]", at, i), x[i], y[i]); d != "" {
					return d
				}
			}
			return ""
		}
	default:
		if a == b {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v and %v", at, a, b)
}

// deal gives the first rows of a CSV file an ID and deals them, shuffled, to files: "deal FILE ROWS OUT...". The first
// of the files has all rows in their order. One that ends in .tsv has tabs and no header.
func deal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: deal FILE ROWS OUT...")
	}
	var n int
	_, err := fmt.Sscan(args[1], &n)
	ts.Check(err)
	lines := strings.Split(ts.ReadFile(args[0]), "\n")
	head, rows := "id,"+lines[0], lines[1:n+1]
	for i := range rows {
		rows[i] = fmt.Sprintf("p%d,%s", i, rows[i])
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(n) //nolint:gosec // a test
	parts := make([][]string, len(args)-2)
	parts[0] = rows
	for k, i := range order {
		to := 1 + min(k%7, len(parts)-2) // of different sizes
		parts[to] = append(parts[to], rows[i])
	}
	for i, name := range args[2:] {
		text := strings.Join(append([]string{head}, parts[i]...), "\n") + "\n"
		if strings.HasSuffix(name, ".tsv") {
			text = strings.ReplaceAll(strings.Join(parts[i], "\n")+"\n", ",", "\t")
		}
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// evaluating is a cheap evaluation of many people of the synthetic example: at one required margin, with one restart.
func evaluating(t *testing.T, quantized, data string, flags ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{
		"eval", loans("model.onnx"), quantized, "-t", loans("task.yaml"), "-d", data,
		"--margins", "0", "--sample", "20", "--noise", "0", "-q",
	}, flags...)
	c := newWorkdir(t).command(args...)
	c.Stderr = os.Stderr
	return c
}

func quantizedLoans(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "q.onnx")
	w := newWorkdir(t)
	w.put("train.csv", firstLoans(t, "train.csv", 60))
	w.call(0, "quantize", loans("model.onnx"), "-d", "train.csv", "-t", loans("task.yaml"), "-o", path, "--set",
		"refine.rounds=0", "-q")
	return path
}

func manyLoans(t testing.TB, path string, n int, seed uint64) {
	t.Helper()
	text := must.Get(os.ReadFile(loans("test.csv")))(t)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	income := slices.Index(strings.Split(lines[0], ","), "income")
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
	var b strings.Builder
	b.WriteString(lines[0] + "\n")
	for i := range n {
		fields := strings.Split(lines[1+i%(len(lines)-1)], ",")
		fields[income] = strconv.Itoa(100 * (80 + rng.IntN(800)))
		b.WriteString(strings.Join(fields, ",") + "\n")
	}
	must.Do(t, os.WriteFile(path, []byte(b.String()), 0o600))
}

// TestResume: runs that are stopped leave whole parts, and the next one goes on from them to the same report, without
// making them again. One that is killed leaves a temporary file until then.
func TestResume(t *testing.T) {
	orttest.Need(t)
	dir := t.TempDir()
	quantized, data := quantizedLoans(t, dir), filepath.Join(dir, "people.csv")
	manyLoans(t, data, 34_000, 1)
	report := func(name string, flags ...string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Get(evaluating(t, quantized, data, append(flags, "--report", "json:"+path)...).Output())(t)
		return path
	}
	want := report("whole.json", "--records", filepath.Join(dir, "whole")+"/")
	folder := filepath.Join(dir, "stopped") + "/"
	flags := []string{"--records", folder}
	before := map[string]os.FileInfo{}
	kept := func() map[string]os.FileInfo {
		now := parts(t, folder)
		for name, info := range before {
			if !os.SameFile(info, now[name]) || !info.ModTime().Equal(now[name].ModTime()) {
				t.Errorf("%s was made again", name)
			}
		}
		return now
	}
	for i, how := range []os.Signal{syscall.SIGINT, syscall.SIGKILL} {
		stop(t, evaluating(t, quantized, data, flags...), filepath.Join(folder, fmt.Sprintf("part-%06d.parquet", i)), how)
		before = kept()
		if n := len(before); n <= i || n > i+2 || before["rows.parquet"] != nil {
			t.Fatalf("%v left %d parts", how, n)
		}
		if left := temporary(t, folder); how == syscall.SIGINT && len(left) > 0 {
			t.Errorf("%v left %v", how, left)
		}
		flags = []string{"--records", folder, "--resume"}
	}
	must.Same(t, "", differ(t, want, report("resumed.json", flags...)))
	if after := kept(); len(after) != 4 || after["rows.parquet"] == nil || len(temporary(t, folder)) > 0 {
		t.Errorf("%v, %v", after, temporary(t, folder))
	}
	// Of other people, the first part is not taken.
	manyLoans(t, data, 20_000, 2)
	c := evaluating(t, quantized, data, "--records", filepath.Join(dir, "whole")+"/", "--resume")
	c.Stderr = nil
	if out, err := c.Output(); c.ProcessState.ExitCode() != 2 {
		t.Errorf("other people: %v, %s", err, out)
	}
}

func stop(t *testing.T, c *exec.Cmd, path string, how os.Signal) {
	t.Helper()
	c.Stderr = nil
	must.Do(t, c.Start())
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	_ = c.Process.Signal(how)
	err := <-done
	if code := c.ProcessState.ExitCode(); how == syscall.SIGINT && code != 130 || err == nil {
		t.Fatalf("the run was not stopped by %v: exit code %d, %v", how, code, err)
	}
}

func parts(t *testing.T, folder string) map[string]os.FileInfo {
	t.Helper()
	all := map[string]os.FileInfo{}
	for _, e := range must.Get(os.ReadDir(folder))(t) {
		if filepath.Ext(e.Name()) == ".parquet" {
			all[e.Name()] = must.Get(e.Info())(t)
		}
	}
	return all
}

func temporary(t *testing.T, folder string) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(folder, ".cfq-*")))(t)
}

func differ(t *testing.T, a, b string) string {
	t.Helper()
	var docs [2]struct {
		Data, Task, Result any
	}
	for i, path := range []string{a, b} {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &docs[i])
		}
		must.Do(t, err)
	}
	return difference("data", docs[0].Data, docs[1].Data) + difference("result", docs[0].Result, docs[1].Result)
}

// BenchmarkMemory shows the largest memory of eval, with records, and gate on many people and on four times as many: it
// stays below 500 MB, and grows by half at most, as not all buffers are full before.
func BenchmarkMemory(b *testing.B) {
	dir := b.TempDir()
	quantized, model, task := quantizedLoans(b, dir), loans("model.onnx"), loans("task.yaml")
	peak := func(name string, args ...string) float64 {
		c := exec.Command(filepath.Join(program, "cfq"), args...)
		out, err := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); code != 0 && code != 1 && code != 5 {
			b.Fatalf("%v: %s", err, out)
		}
		mb := float64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024
		b.Logf("%s: %.0f MB in %v", name, mb, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		return mb
	}
	for b.Loop() {
		var before []float64
		for _, n := range []int{200_000, 800_000} {
			data, promises := filepath.Join(dir, "people.csv"), filepath.Join(dir, "promises.csv")
			manyLoans(b, data, n, 1)
			raises(b, data, promises)
			table := filepath.Join(dir, fmt.Sprint(n, ".parquet"))
			var now []float64
			for _, x := range []struct {
				name string
				args []string
			}{
				{"eval --records", []string{
					"eval", model, quantized, "-d", data, "-t", task, "--promises", promises, "--records", table, "-q",
					"--sample", "2000", "--noise", "0",
				}},
				{"gate", []string{
					"gate", model, quantized, "-d", data, "-t", task, "--promises", promises, "--max-vd", "0.9", "-q",
					"--looks-file", "none", "--one-sided",
				}},
				{"gate --records", []string{
					"gate", model, quantized, "--records", table, "-t", task, "--max-vd", "0.9", "-q", "--looks-file", "none",
					"--one-sided",
				}},
				{"summarize", []string{"summarize", model, quantized, table, "-t", task, "-q"}},
			} {
				mb := peak(fmt.Sprintf("%s, %d people", x.name, n), x.args...)
				if i := len(now); mb > 500 || before != nil && mb > 1.5*before[i] {
					b.Errorf("%s: %.0f MB for %d people, and before %.0f", x.name, mb, n, before)
				}
				now = append(now, mb)
			}
			before = now
		}
		b.ReportMetric(slices.Max(before), "MB-peak")
	}
}

func raises(b *testing.B, data, path string) {
	b.Helper()
	text := must.Get(os.ReadFile(data))(b)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	income := slices.Index(strings.Split(lines[0], ","), "income")
	var out strings.Builder
	out.WriteString("row," + lines[0] + "\n")
	for i, line := range lines[1:] {
		fields := strings.Split(line, ",")
		was := must.Get(strconv.Atoi(fields[income]))(b)
		fields[income] = strconv.Itoa(was + 12_000)
		fmt.Fprintf(&out, "%d,%s\n", i, strings.Join(fields, ","))
	}
	must.Do(b, os.WriteFile(path, []byte(out.String()), 0o600))
}

var written struct { //nolint:gochecknoglobals // the reports take as long as many tests
	sync.Once
	files map[string]string
}

// reports quantizes the loan example well and badly, and has every report written, with all that they can hold. It
// returns a folder with them: eval.json, gate.json, compare.json and the same as .html.
func reports(t *testing.T) *workdir {
	t.Helper()
	w := newWorkdir(t, "CFQ_SET=refine.rounds=0")
	written.Do(func() {
		w.writeReports()
		written.files = map[string]string{}
		for _, f := range must.Get(os.ReadDir(w.dir))(t) {
			written.files[f.Name()] = w.read(f.Name())
		}
	})
	for name, text := range written.files {
		w.put(name, []byte(text))
	}
	return w
}

func (w *workdir) writeReports() {
	for _, f := range []string{"model.onnx", "task.yaml", "task.yaml.verified"} {
		w.put(f, must.Get(os.ReadFile(loans(f)))(w))
	}
	w.put("train.csv", firstLoans(w, "train.csv", 300))
	w.put("test.csv", firstLoans(w, "test.csv", 300))
	w.call(0, "quantize", "model.onnx", "-d", "train.csv", "-t", "task.yaml", "-o", "good.onnx", "-q")
	w.call(0, "quantize", "model.onnx", "-d", "train.csv", "-t", "task.yaml", "-o", "bad.onnx", "-q", "--method", "ptq",
		"--budget", "3", "--force")
	people := []string{"-d", "test.csv", "-t", "task.yaml", "-q", "--margins", "0.1", "--sample", "15"}
	w.call(0, slices.Concat([]string{"eval", "model.onnx", "bad.onnx"}, people, []string{
		"--by", "sex", "--stress", "tightness", "--perturbation", "0.01", "--latency",
		"--records", "eval.parquet", "--report", "json:eval.json", "--report", "html:eval.html",
	})...)
	w.call(0, slices.Concat([]string{"eval", "model.onnx", "bad.onnx"}, people,
		[]string{"--records", "eval.csv", "--noise", "0"})...)
	w.call(1, "gate", "model.onnx", "bad.onnx", "-d", "test.csv", "-t", "task.yaml", "-q", "--max-vd", "0.02",
		"--sample", "25", "--check", "vd[sex]<=0.05", "--report", "json:gate.json", "--report", "html:gate.html")
	w.call(0, slices.Concat([]string{"compare", "model.onnx", "bad=bad.onnx", "good=good.onnx"}, people, []string{
		"--report", "json:compare.json", "--report", "html:compare.html",
	})...)
}
