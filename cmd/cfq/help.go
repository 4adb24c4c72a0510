package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
)

// helpWidth is where lines of help are wrapped.
const helpWidth = 100

const exitCodes = `Exit codes:
  0    done
  1    a gate failed, or a target was not reached
  2    the usage, the task file, the data or the model is wrong
  3    something failed while running
  5    inconclusive: too few people to say
  130  interrupted`

// help serves "cfq help", "cfq help NAME" and "cfq help --markdown", which
// writes the help of everything as one page.
func help(w io.Writer, args []string) error {
	switch {
	case len(args) == 0:
		writeOverview(w)
		return nil
	case len(args) > 1:
		return cli.Usagef("one subcommand at a time", "cfq help takes one argument")
	case args[0] == "--markdown":
		writeMarkdown(w)
		return nil
	}
	c := find(args[0])
	if c == nil {
		return unknown(args[0])
	}
	c.writeHelp(w)
	return nil
}

func writeOverview(w io.Writer) {
	fmt.Fprint(w, `cfq quantizes ONNX classifiers so that the recourse they promise still holds,
and measures how much of it does.

Usage: cfq SUBCOMMAND ...

Subcommands:
`)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(w, "  %-11s %s\n\n", "help", "print this text, or the help of a subcommand: cfq help eval")
	fmt.Fprintln(w, exitCodes)
}

// writeHelp writes what "cfq help NAME" and "cfq NAME --help" show.
func (c *command) writeHelp(w io.Writer) {
	usage := "cfq " + c.name
	if c.args != "" {
		usage += " " + c.args
	}
	own := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	c.setup(own)
	e := &env{msg: &cli.Printer{}}
	fmt.Fprintf(w, "%s.\n\nUsage: %s [flags]\n\n%s\n", upper(c.summary), usage, strings.Trim(c.about, "\n"))
	writeFlags(w, own)
	if c.notes != "" {
		fmt.Fprintf(w, "\n%s\n", strings.Trim(c.notes, "\n"))
	}
	fmt.Fprintf(w, "\nCommon flags:\n%s", e.common().FlagUsagesWrapped(helpWidth))
	fmt.Fprintf(w, "\nA flag --some-flag that is not given takes its value from the environment variable\nCFQ_SOME_FLAG, except --output and --overwrite.\n")
	if len(c.examples) > 0 {
		fmt.Fprintf(w, "\nExamples:\n")
		for _, x := range c.examples {
			fmt.Fprintf(w, "  %s\n", x)
		}
	}
}

// groupKey is the annotation of a flag that says under which heading it stands in the help.
const groupKey = "group"

// group puts the flags that add adds under a heading of their own.
func group(fs *pflag.FlagSet, heading string, add func(fs *pflag.FlagSet)) {
	part := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	part.SortFlags = false
	add(part)
	part.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{groupKey: {heading}} })
	fs.AddFlagSet(part)
}

// writeFlags writes the flags under their headings, in the order in which they were added.
func writeFlags(w io.Writer, own *pflag.FlagSet) {
	var headings []string
	groups := map[string]*pflag.FlagSet{}
	own.VisitAll(func(f *pflag.Flag) {
		heading := "Flags"
		if g := f.Annotations[groupKey]; len(g) > 0 {
			heading = g[0]
		}
		if groups[heading] == nil {
			headings = append(headings, heading)
			groups[heading] = pflag.NewFlagSet(heading, pflag.ContinueOnError)
			groups[heading].SortFlags = false
		}
		groups[heading].AddFlag(f)
	})
	for _, h := range headings {
		fmt.Fprintf(w, "\n%s:\n%s", h, groups[h].FlagUsagesWrapped(helpWidth))
	}
}

// item writes an entry of a list in a help text: a name, and what it is in lines of helpWidth.
func item(w io.Writer, name, what string) {
	const indent = 16
	line := fmt.Sprintf("  %-*s", indent-3, name)
	for _, word := range strings.Fields(what) {
		if len(line)+1+len(word) > helpWidth && strings.TrimSpace(line) != "" {
			fmt.Fprintln(w, line)
			line = strings.Repeat(" ", indent-1)
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}

func writeMarkdown(w io.Writer) {
	block := func(title string, write func(io.Writer)) {
		fmt.Fprintf(w, "## %s\n\n```\n", title)
		write(w)
		fmt.Fprint(w, "```\n\n")
	}
	block("cfq", writeOverview)
	for _, c := range commands() {
		block("cfq "+c.name, c.writeHelp)
	}
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
