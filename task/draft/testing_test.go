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
func open(t testing.TB, text string, names ...string) *table {
	t.Helper()
	table, err := readTable(context.Background(), Source{write(t, "data.csv", text), names, task.ReadOptions{}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// draft drafts a task for a table.
func draft(t testing.TB, table *table, o Options) *Draft {
	t.Helper()
	o.File = "data.csv"
	d, err := fromTable(table, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
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
