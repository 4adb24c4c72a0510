package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// trouble is an error as `cfq explain errors --json` has it.
type trouble struct {
	ID       string   `json:"id"`
	Messages []string `json:"messages"`
	Hint     string   `json:"hint"`
	Code     int      `json:"exit_code"`
}

// troubles holds what the scripts print against the table of errors.
type troubles struct {
	table map[string]trouble

	mu  sync.Mutex
	met map[string]bool
	ran int // scripts
}

// provoked are the errors that no script can provoke, with the test that does.
func provoked() map[string]string {
	return map[string]string{
		"disk-full":    "cmd/cfq/main_test.go", // a full disk
		"fault":        "cmd/cfq/main_test.go", // a panic
		"not-verified": "cmd/cfq/main_test.go", // a runtime that computes otherwise
		// Models that no script can write.
		"not-quantizable": "internal/tools/command/refused_test.go",
		"nothing-to-save": "internal/tools/command/refused_test.go",
	}
}

// readTroubles asks the command for its table.
func readTroubles(t *testing.T) *troubles {
	t.Helper()
	out, err := exec.Command(filepath.Join(program, "cfq"), "explain", "errors", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []trouble
	if err := json.Unmarshal(out, &list); err != nil || len(list) == 0 {
		t.Fatalf("no table of errors: %v", err)
	}
	x := &troubles{table: map[string]trouble{}, met: map[string]bool{}}
	for _, e := range list {
		x.table[e.ID] = e
	}
	return x
}

// like says whether a text begins as a row of the table has it, in which words in capitals stand for anything.
func like(row, text string) bool {
	pattern := regexp.MustCompile(`\b[A-Z]+\b`).ReplaceAllString(regexp.QuoteMeta(row), ".+")
	return regexp.MustCompile("^" + pattern).MatchString(text)
}

// check looks for hints among the lines that a command has written to stderr: each is that of an error of the table,
// and the error reads as the table says.
func (x *troubles) check(ts *testscript.TestScript) {
	var errs []string
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "cfq: error: "); ok {
			errs = append(errs, text)
		}
		text, ok := strings.CutPrefix(line, "cfq: hint: ")
		if !ok {
			continue
		}
		text, id, _ := strings.Cut(text, " (cfq explain ")
		row, known := x.table[strings.TrimSuffix(id, ")")]
		if !known || !like(row.Hint, text) {
			ts.Fatalf("the table of errors has no hint %q", line)
		}
		if !readsAs(row.Messages, errs) {
			ts.Fatalf("the table has %q for %s, and it reads %q", row.Messages, row.ID, errs)
		}
		x.mu.Lock()
		x.met[row.ID] = true
		x.mu.Unlock()
	}
}

// readsAs says whether one of the messages is like one of the rows.
func readsAs(rows, messages []string) bool {
	for _, row := range rows {
		for _, m := range messages {
			if like(row, m) {
				return true
			}
		}
	}
	return false
}

// complete checks that every error of the table was met, if all scripts ran.
func (x *troubles) complete(t *testing.T, dir string) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || x.ran < len(scripts) {
		t.Logf("%d of %d scripts ran: whether they meet every error of the table is not checked", x.ran, len(scripts))
		return
	}
	elsewhere := provoked()
	for id := range x.table {
		test, ok := elsewhere[id]
		switch {
		case x.met[id] && ok:
			t.Errorf("%s is met by a script, and provoked names it", id)
		case x.met[id]:
		case !ok:
			t.Errorf("no script meets the error %s", id)
		default:
			text, err := os.ReadFile(filepath.Join(root, test))
			if err != nil || !strings.Contains(string(text), id) {
				t.Errorf("%s does not provoke %s: %v", test, id, err)
			}
		}
	}
}
