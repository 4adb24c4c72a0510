package draft

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

// write puts text into a file of its own.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// open reads a table from text.
func open(t testing.TB, text string, names ...string) *table {
	t.Helper()
	return must.Get(readTable(context.Background(), Source{write(t, "data.csv", text), names, task.ReadOptions{}}))(t)
}

// draft drafts a task for a table.
func draft(t testing.TB, table *table, o Options) *Draft {
	t.Helper()
	o.File = "data.csv"
	return must.Get(fromTable(table, o))(t)
}

// parse reads a task file.
func parse(t testing.TB, text string) *task.Task {
	t.Helper()
	return must.Get(task.Parse("task.yaml", []byte(text)))(t)
}
