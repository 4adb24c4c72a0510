package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/internal/message"
)

func shells() []string { return []string{"bash", "zsh", "fish"} }

// completion prints a script for a shell. The scripts ask `cfq completion words`, and complete files where it finds
// nothing.
func completion(_ context.Context, e *env, args []string) error {
	if len(args) > 0 && args[0] == "words" {
		return writeWords(e.stdout, args[1:])
	}
	if err := arguments("completion", args, "SHELL"); err != nil {
		return err
	}
	script, err := helpTexts.ReadFile("help/complete." + args[0])
	if err != nil {
		return cli.Usagef(cli.HintArguments, "invalid shell %q: want %s", args[0], message.Or(shells()))
	}
	_, err = e.stdout.Write(script)
	return err
}

func writeWords(w io.Writer, words []string) error {
	var out strings.Builder
	add := func(word, what string) { fmt.Fprintf(&out, "%s\t%s\n", word, what) }
	last := len(words) - 1
	if last < 1 {
		for _, c := range commands() {
			add(c.name, c.summary())
		}
		add("help", "print help")
	} else if c := find(words[0]); c != nil {
		fs, _ := c.flags(&env{msg: &cli.Printer{}})
		before := fs.Lookup(strings.TrimPrefix(words[last-1], "--"))
		switch {
		case before != nil && words[last-1] == "--"+before.Name:
			for _, choice := range cli.Choices(before) {
				add(choice, before.Name)
			}
		case strings.HasPrefix(words[last], "-"):
			fs.VisitAll(func(f *pflag.Flag) {
				_, what := pflag.UnquoteUsage(f)
				add("--"+f.Name, what)
			})
		case last == 1 && c.actions != nil:
			for _, action := range c.actions() {
				add(action, c.name)
			}
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
