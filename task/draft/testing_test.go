package draft

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/task"
)

// write puts text into a file of its own.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open reads a table from text.
func open(t testing.TB, text string, names ...string) *Table {
	t.Helper()
	table, err := Open(context.Background(), write(t, "data.csv", text), names, task.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// draft drafts a task for a table.
func draft(t testing.TB, table *Table, o Options) *Proposal {
	t.Helper()
	if o.File == "" {
		o.File = "data.csv"
	}
	p, err := Infer(context.Background(), table, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// linear is a model whose logits are [0, w x + b].
type linear struct {
	w []float64
	b float64
}

func (m *linear) Dim() int { return len(m.w) }

func (m *linear) Logits(_ context.Context, x []float32) ([]float32, int, error) {
	out := make([]float32, 0, 2*len(x)/len(m.w))
	for at := 0; at < len(x); at += len(m.w) {
		z := m.b
		for j, w := range m.w {
			z += w * float64(x[at+j])
		}
		out = append(out, 0, float32(z))
	}
	return out, 2, nil
}

// applicants writes a data file of n people and a decision that follows the task's inputs: w x + b > 0, seldom otherwise.
func applicants(t testing.TB, tk *task.Task, m *linear, n int, seed uint64) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	b.WriteString("age,income,sex,housing,grade,member,decision\n")
	homes := []string{"rent", "own", "family", "?"}
	if slices.ContainsFunc(tk.Features, func(f task.Feature) bool { return f.One == "other" }) {
		homes[3] = "other"
	}
	for range n {
		fields := []string{
			task.Decimal(float64(18 + r.IntN(60))), task.Decimal(float64(100 * (50 + r.IntN(900)))), []string{"female", "male"}[r.IntN(2)],
			homes[r.IntN(4)], task.Decimal(float64(1 + r.IntN(5))), task.Decimal(float64(r.IntN(2))),
		}
		x := make([]float32, tk.Dim())
		for i := range tk.Features {
			f := &tk.Features[i]
			v := fields[columnAt(f.Column)]
			if v == "?" && slices.Contains(tk.Data.Missing, "?") {
				v = ""
			}
			if err := f.Encode(v, x[f.Offset:f.Offset+f.Width]); err != nil {
				t.Fatal(err)
			}
		}
		z, _, _ := m.Logits(context.Background(), x)
		label := "refused"
		if float64(z[1]) > math.Log(1/r.Float64()-1)/3 {
			label = "approved"
		}
		b.WriteString(strings.Join(append(fields, label), ",") + "\n")
	}
	return b.String()
}

func columnAt(name string) int {
	for i, n := range []string{"age", "income", "sex", "housing", "grade", "member"} {
		if n == name {
			return i
		}
	}
	return -1
}

// parse reads a task file.
func parse(t testing.TB, text string) *task.Task {
	t.Helper()
	tk, err := task.Parse("task.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// says fails unless one of the texts holds the part.
func says(t testing.TB, texts []string, part string) {
	t.Helper()
	if !strings.Contains(strings.Join(texts, "\n"), part) {
		t.Errorf("nothing says %q:\n%s", part, strings.Join(texts, "\n"))
	}
}

// withoutScale takes the lines of mean and std out of a canonical task file.
func withoutScale(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if word := strings.TrimSpace(string(line)); !strings.HasPrefix(word, `"mean":`) && !strings.HasPrefix(word, `"std":`) {
			out = append(out, line...)
		}
	}
	return out
}
