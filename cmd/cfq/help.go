package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/internal/message"
)

const helpWidth = 100

// help serves "cfq help", "cfq help NAME" of a subcommand or a topic, and "cfq help --markdown", which writes the help
// of every subcommand as one page.
func help(w io.Writer, args []string) error {
	switch {
	case len(args) == 0:
		writeOverview(w)
	case len(args) > 1:
		return cli.Usagef(cli.HintArguments, "too many arguments; usage: cfq help SUBCOMMAND")
	case args[0] == "--markdown":
		writeMarkdown(w)
	case args[0] == "recipe":
		writeRecipeHelp(w)
	default:
		c := find(args[0])
		if c == nil {
			return unknown(args[0])
		}
		c.writeHelp(w)
	}
	return nil
}

func writeOverview(w io.Writer) {
	fmt.Fprint(w, `cfq quantizes ONNX classifiers so that algorithmic recourse survives,
and measures how much of it does.

Usage: cfq SUBCOMMAND ...

Subcommands:
`)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, `  help        print this text, or the help of a subcommand or topic: cfq help eval

Topics (cfq help TOPIC):
  recipe      methods of quantization, and what the values of their flags mean

Exit codes:
  0    done
  1    a gate failed, or a target was not reached
  2    the usage, the task file, the data or the model is wrong
  3    something failed while running
  4    cfq itself failed: report it
  5    inconclusive: too few people to say
  130  interrupted
  141  the reader of --stream ended first
`)
}

func (c *command) writeHelp(w io.Writer) {
	all, everyday := 0, newFlagSet(c.name)
	for _, fs := range []*pflag.FlagSet{c.ownFlags(), (&env{msg: &cli.Printer{}}).common()} {
		fs.VisitAll(func(f *pflag.Flag) {
			if all++; headingOf(f) == everydayFlags {
				everyday.AddFlag(f)
			}
		})
	}
	c.writeUsage(w)
	writeFlags(w, everyday)
	c.writeExamples(w)
	fmt.Fprintf(w, "\n`cfq %s --help-all` explains all %d flags.\n", c.name, all)
}

func (c *command) writeHelpAll(w io.Writer) {
	c.writeUsage(w)
	writeFlags(w, c.ownFlags())
	c.writeNotes(w)
	fmt.Fprint(w, "\nCommon flags:\n")
	writeCommon(w)
	c.writeExamples(w)
}

func (c *command) writeUsage(w io.Writer) {
	usage := strings.TrimSpace("cfq " + c.name + " " + c.args)
	fmt.Fprintf(w, "%s%s.\n\nUsage: %s [flags]\n\n%s\n", strings.ToUpper(c.summary[:1]), c.summary[1:], usage,
		strings.Trim(c.about, "\n"))
}

func (c *command) writeNotes(w io.Writer) {
	if c.notes != nil {
		fmt.Fprintf(w, "\n%s\n", strings.Trim(c.notes(), "\n"))
	}
}

func (c *command) writeExamples(w io.Writer) {
	fmt.Fprintf(w, "\nExamples:\n  %s\n", strings.Join(c.examples, "\n  "))
}

func writeCommon(w io.Writer) {
	e := &env{msg: &cli.Printer{}}
	fmt.Fprintf(w, "%s\n%s\n", e.common().FlagUsagesWrapped(helpWidth), environment)
}

const environment = `The environment variable CFQ_SOME_FLAG sets --some-flag where neither the command line nor
a gate file does, except --output, --overwrite, --one-sided and --again. Reports list these.`

func (c *command) ownFlags() *pflag.FlagSet {
	own := newFlagSet(c.name)
	c.setup(own)
	return own
}

// Headings of flags in the help. --help shows those under everydayFlags, --help-all and the page of commands show all.
const (
	headingKey    = "heading" // the annotation
	everydayFlags = "Flags"
	moreFlags     = "More flags"
)

func headingOf(f *pflag.Flag) string {
	return cmp.Or(strings.Join(f.Annotations[headingKey], ""), everydayFlags)
}

func more(fs *pflag.FlagSet, names ...string) {
	for _, name := range names {
		fs.Lookup(name).Annotations = map[string][]string{headingKey: {moreFlags}}
	}
}

func group(fs *pflag.FlagSet, heading string, add func(fs *pflag.FlagSet)) {
	part := newFlagSet(heading)
	add(part)
	part.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{headingKey: {heading}} })
	fs.AddFlagSet(part)
}

func writeFlags(w io.Writer, own *pflag.FlagSet) {
	var headings []string
	groups := map[string]*pflag.FlagSet{}
	own.VisitAll(func(f *pflag.Flag) {
		heading := headingOf(f)
		if groups[heading] == nil {
			headings = append(headings, heading)
			groups[heading] = newFlagSet(heading)
		}
		groups[heading].AddFlag(f)
	})
	for _, h := range headings {
		fmt.Fprintf(w, "\n%s:\n%s", h, groups[h].FlagUsagesWrapped(helpWidth))
	}
}

func item(w io.Writer, name, what string) {
	message.Paragraph(w, fmt.Sprintf("  %-13s ", name), strings.Repeat(" ", 16), what)
}

// writeMarkdown writes the help of everything as one page. The common flags, and flags that several subcommands have
// with the same meaning, are described once.
func writeMarkdown(w io.Writer) {
	block := func(title string, write func(io.Writer)) {
		fmt.Fprintf(w, "## %s\n\n```\n", title)
		write(w)
		fmt.Fprint(w, "```\n\n")
	}
	shared := sharedFlags()
	block("cfq", writeOverview)
	block("Common flags", writeCommon)
	block("Shared flags", func(w io.Writer) { fmt.Fprint(w, shared.FlagUsagesWrapped(helpWidth)) })
	for _, c := range commands() {
		block("cfq "+c.name, func(w io.Writer) {
			c.writeUsage(w)
			own := newFlagSet(c.name)
			var names []string
			c.ownFlags().VisitAll(func(f *pflag.Flag) {
				if x := shared.Lookup(f.Name); x != nil && x.Usage == f.Usage {
					names = append(names, "--"+f.Name)
				} else {
					own.AddFlag(f)
				}
			})
			writeFlags(w, own)
			if len(names) > 0 {
				fmt.Fprintln(w)
				item(w, "Shared flags:", strings.Join(names, " "))
			}
			if c.page == "" {
				c.writeNotes(w)
			} else {
				fmt.Fprintf(w, "\nThe values of flags are described in docs/%s and by cfq %s --help-all.\n", c.page, c.name)
			}
			c.writeExamples(w)
		})
	}
}

func sharedFlags() *pflag.FlagSet {
	times := map[string]int{}
	shared := newFlagSet("shared")
	for _, c := range commands() {
		c.ownFlags().VisitAll(func(f *pflag.Flag) { times[f.Name+" "+f.Usage]++ })
	}
	for _, c := range commands() {
		c.ownFlags().VisitAll(func(f *pflag.Flag) {
			if times[f.Name+" "+f.Usage] > 1 && shared.Lookup(f.Name) == nil {
				shared.AddFlag(f)
			}
		})
	}
	return shared
}
