package command

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/task"
)

func madeUpAdults(t *testing.T, dir string) {
	t.Helper()
	of := must.Get(task.Load(filepath.Join(root, "reproduce", "testdata", "tasks", "adult.yaml")))(t)
	for i, name := range []string{"adult.data", "adult.test"} {
		rng := rand.New(rand.NewPCG(3, uint64(i)))
		var b strings.Builder
		for range 200 {
			income := "<=50K"
			school, hours := 1+rng.IntN(16), 1+rng.IntN(99)
			if 6*school+hours > 110 {
				income = ">50K"
			}
			var cells []string
			for _, column := range of.Data.Columns {
				cell := fmt.Sprint(rng.IntN(100))
				switch column {
				case of.Data.Label:
					cell = income
				case "education-num":
					cell = fmt.Sprint(school)
				case "hours-per-week":
					cell = fmt.Sprint(hours)
				}
				for _, f := range of.Features {
					if f.Name == column && len(f.Values()) > 0 {
						cell = f.Values()[rng.IntN(len(f.Values()))]
					}
				}
				cells = append(cells, cell)
			}
			b.WriteString(strings.Join(cells, ", ") + "\n")
		}
		put(t, filepath.Join(dir, "adult", name), []byte(b.String()))
	}
}

func TestReproduce(t *testing.T) {
	w := newWorkdir(t)
	dir := w.dir
	madeUpAdults(t, filepath.Join(dir, "data"))
	command := func() (*exec.Cmd, *strings.Builder) {
		c := w.command("reproduce", "components", "-d", "data", "-o", "out", "--seeds", "1", "--sample", "10", "--json")
		var out strings.Builder
		c.Stdout, c.Stderr = &out, &out
		return c, &out
	}
	made := func() (files []string) {
		t.Helper()
		err := filepath.WalkDir(filepath.Join(dir, "out"), func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".made.json") {
				files = append(files, path)
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return files
	}
	c, out := command()
	must.Do(t, c.Start())
	for begun := time.Now(); len(made()) < 2 && time.Since(begun) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	must.Do(t, c.Process.Signal(syscall.SIGINT))
	_ = c.Wait() // the exit code is looked at
	if c.ProcessState.ExitCode() != 130 || !strings.Contains(out.String(), "goes on from there") {
		t.Fatalf("interrupted: %v\n%s", c.ProcessState, out)
	}
	before := made()
	if len(before) < 2 || len(before) == 1+4+4 {
		t.Fatalf("%d files were made before the interruption", len(before))
	}
	times := map[string]time.Time{}
	note := func(files []string) {
		for _, f := range files {
			info := must.Get(os.Stat(f))(t)
			if was, ok := times[f]; ok && !was.Equal(info.ModTime()) {
				t.Errorf("%s was made anew", f)
			}
			times[f] = info.ModTime()
		}
	}
	note(before)
	for range 2 {
		c, out = command()
		stderr := &strings.Builder{}
		c.Stderr = stderr
		if err := c.Run(); err != nil {
			t.Fatalf("%v\n%s%s", err, out, stderr)
		}
		note(made())
	}
	must.Same(t, 1+4+4, len(made()))
	var results []struct {
		Metric, Against string
		Networks        int
		Mean            *float64
	}
	if err := json.Unmarshal([]byte(out.String()), &results); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	accuracies, claims := 0, 0
	for _, r := range results {
		if r.Metric == "accuracy_quant" && r.Networks == 1 && r.Mean != nil {
			accuracies++
		}
		if r.Against != "" {
			claims++
		}
	}
	if accuracies != 4 || claims != 4 {
		t.Errorf("%d accuracies and %d claims, want 4 and 4: %+v", accuracies, claims, results)
	}
	must.Same(t, len(results), strings.Count(w.read("out/results.csv"), "\ncomponents,adult,"))
	must.Same(t, 4, strings.Count(w.read("out/report.html"), "\n<tr><td>Adult</td>"))
}
