package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"cfq/internal/cli"

	"cfq/internal/must"
)

func found(t *testing.T, words ...string) (all []string) {
	t.Helper()
	var b strings.Builder
	must.Do(t, writeWords(&b, words))
	for line := range strings.Lines(b.String()) {
		word, what, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if what == "" {
			t.Errorf("%q: %s has no description", words, word)
		}
		all = append(all, word)
	}
	return all
}

func TestCompletionIsComplete(t *testing.T) {
	t.Parallel()
	for _, sub := range commands() {
		if !slices.Contains(found(t, ""), sub.name) {
			t.Errorf("no subcommand %s", sub.name)
		}
		flags := found(t, sub.name, "file", "-")
		fs, _ := sub.flags(&env{msg: &cli.Printer{}})
		fs.VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(flags, "--"+f.Name) {
				t.Errorf("no flag --%s of %s", f.Name, sub.name)
			}
		})
	}
	for _, c := range []struct{ words, want string }{
		{"gate --on-inconclusive p", "report fail pass"},
		{"task ch", "init check show"},
		{"completion ", "bash zsh fish"},
		{"task check ch", ""},
		{"inspect mo", ""},
		{"eval --data tr", ""},
		{"unknown x", ""},
	} {
		if got := strings.Join(found(t, strings.Split(c.words, " ")...), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
}
