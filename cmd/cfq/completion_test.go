package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// Every subcommand and flag is in the script of every shell, and flags with a list of values complete to them.
func TestCompletionIsComplete(t *testing.T) {
	t.Parallel()
	for shell, c := range map[string]struct {
		write func(io.Writer) error
		flag  func(command, flag string) string // that stands on a line with the command
		value string
	}{
		"bash": {
			completeBash, func(_, flag string) string { return "--" + flag },
			"'gate --on-inconclusive') words='report fail pass'",
		},
		"zsh": {completeZsh, func(_, flag string) string { return "--" + flag + "[" }, ":(report fail pass)'"},
		"fish": {completeFish, func(command, flag string) string {
			return "__fish_seen_subcommand_from " + command + "' -l " + flag + " "
		}, "-x -a 'report fail pass'"},
	} {
		var b bytes.Buffer
		if err := c.write(&b); err != nil {
			t.Fatal(err)
		}
		script := b.String()
		for _, sub := range commands() {
			if !strings.Contains(script, sub.name) {
				t.Errorf("%s: no subcommand %s", shell, sub.name)
			}
			for _, f := range sub.completed() {
				if !strings.Contains(script, c.flag(sub.name, f.name)) {
					t.Errorf("%s: no flag --%s of %s", shell, f.name, sub.name)
				}
			}
		}
		if !strings.Contains(script, c.value) {
			t.Errorf("%s: no values of --on-inconclusive", shell)
		}
	}
}
