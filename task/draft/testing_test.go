package draft

import (
	"context"
	"os"
	"path/filepath"
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
func draft(t testing.TB, table *Table, o Options) *Draft {
	t.Helper()
	o.File = "data.csv"
	d, err := FromData(context.Background(), table, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
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

// parse reads a task file.
func parse(t testing.TB, text string) *task.Task {
	t.Helper()
	tk, err := task.Parse("task.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tk
}
