package draft

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func open(t testing.TB, text string, names ...string) *table {
	t.Helper()
	return must.Get(readTable(context.Background(), Source{write(t, "data.csv", text), names, task.ReadOptions{}}))(t)
}

func draft(t testing.TB, table *table, o Options) *Draft {
	t.Helper()
	o.File = "data.csv"
	return must.Get(fromTable(table, o))(t)
}

func parse(t testing.TB, text string) *task.Task {
	t.Helper()
	return must.Get(task.Parse("task.yaml", []byte(text)))(t)
}
