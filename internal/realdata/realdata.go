// Package realdata finds the optional real data sets and exported models that some
// tests measure. They are no part of the repository.
//
// In: a path below their folder. Out: the path on this machine. The invariant: a test whose data are not there is
// skipped and says so, never failed. The folder is the one that CFQ_SHARED names, or shared/ next to the repository; it
// holds data/ and models/.
package realdata

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Env names the environment variable for the folder.
const Env = "CFQ_SHARED"

// Dir returns the folder of the real data, or what is at the path below in it, and
// skips the test when that is not there.
func Dir(t testing.TB, below ...string) string {
	t.Helper()
	path, err := Find(below...)
	if err != nil {
		t.Skip(err)
	}
	return path
}

// Find is Dir for tests that can do without the data.
func Find(below ...string) (string, error) {
	dir := os.Getenv(Env)
	if dir == "" {
		_, file, _, _ := runtime.Caller(0) // in internal/realdata of the repository
		dir = filepath.Join(filepath.Dir(file), "..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{dir}, below...)...)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the optional real data are missing (set %s to the folder with data/ and models/): %w", Env,
			err)
	}
	return path, nil
}
