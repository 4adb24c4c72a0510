package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"cfq/internal/must"
	"cfq/onnxio/ort"
)

const (
	root   = "../../.."
	topPad = "MALLOC_TOP_PAD_"
)

var program string //nolint:gochecknoglobals // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := filepath.Abs(filepath.Join(root, "build", "tests")) // it stays, and is linked anew only where it changed
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Built as the tests of the packages are, so that the packages need not be compiled once more.
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir+string(filepath.Separator), "./cmd/cfq")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
		return 1
	}
	program = dir
	// glibc would ask the system for memory 4 kB at a time, a tenth of the time that loading ONNX Runtime takes.
	if err := os.Setenv(topPad, "16777216"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestScripts runs cmd/cfq/testdata/script. Scripts find the synthetic example in $LOANS, the first 300 and 60 of its
// training rows in $FEW and $FEWER and the library, which needs no home directory, in $CFQ_ORT_LIB. Nothing is refined
// unless the script takes CFQ_SET back: that is half of the time that quantize takes.
// "exits N command..." runs a command that must end with the exit code N. Every hint is one of the table of errors.
func TestScripts(t *testing.T) {
	people := t.TempDir()
	few, fewer := filepath.Join(people, "few.csv"), filepath.Join(people, "fewer.csv")
	must.Do(t, os.WriteFile(few, firstLoans(t, "train.csv", 300), 0o600))
	must.Do(t, os.WriteFile(fewer, firstLoans(t, "train.csv", 60), 0o600))
	info, missing := ort.Find("")
	if missing != nil && os.Getenv("CFQ_REQUIRE_ORT") == "1" {
		t.Fatal(missing)
	}
	dir := filepath.Join(root, "cmd", "cfq", "testdata", "script")
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("LOANS", loans(""))
			e.Setenv("FEW", few)
			e.Setenv("FEWER", fewer)
			e.Setenv("CFQ_ORT_LIB", info.Path)
			e.Setenv("CFQ_SET", "refine.rounds=0")
			e.Setenv("CFQ_LOOKS_FILE", "none") // scripts judge one model many times
			e.Setenv(topPad, os.Getenv(topPad))
			e.Setenv("GOGC", "400") // as the tests themselves
			e.Setenv("PATH", program+string(filepath.ListSeparator)+e.Getenv("PATH"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "ort" {
				return missing == nil, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "cfq": runCfq, "sameresult": sameResult, "deal": deal,
		},
	})
}

// long reports whether tests may take minutes.
func long() bool { return os.Getenv("CFQ_LONG") == "1" }

func runCfq(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Exec("cfq", args...); (err != nil) != neg {
		ts.Fatalf("cfq: %v", err)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}
