// Command testlog makes skipped tests visible.
//
// In: the output of `go test -json`. Out: what `go test` prints, and at the end how many tests were
// skipped, by reason. The invariant: it fails when a test fails, when a package does not compile, and
// when nothing was tested.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is one line of `go test -json`, see `go doc test2json` and `go help buildjson`.
type event struct{ Action, Package, Test, Output string }

func main() {
	if !show(os.Stdin, os.Stdout) {
		os.Exit(1)
	}
}

// show reports whether all tests passed or were skipped.
func show(in io.Reader, out io.Writer) bool {
	passed, failed := false, false
	outputs := map[[2]string]string{} // of tests that are running
	skipped := map[string][]string{}  // tests, by reason
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			e = event{Action: "build-output", Output: lines.Text() + "\n"} // not of a test
		}
		test := [2]string{e.Package, e.Test}
		switch {
		case e.Action == "output" && e.Test != "":
			outputs[test] += e.Output
			continue
		case e.Action == "output" && e.Output != "PASS\n", e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "fail", e.Action == "build-fail":
			fmt.Fprint(out, outputs[test])
			failed = true
		case e.Action == "pass":
			passed = true
		case e.Action == "skip" && e.Test != "":
			why := reason(outputs[test])
			skipped[why] = append(skipped[why], strings.TrimPrefix(e.Package, "cfq/")+"."+e.Test)
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(outputs, test)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(out, "%d skipped, %s: %s\n", len(skipped[why]), why, strings.Join(skipped[why], " "))
	}
	return passed && !failed && lines.Err() == nil
}

// reason is what a skipped test said, without the place and the path at fault.
func reason(output string) string {
	for line := range strings.Lines(output) {
		if _, text, ok := strings.Cut(strings.TrimSpace(line), ".go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			text, _, _ = strings.Cut(text, ": ")
			return text
		}
	}
	return "without a reason"
}
