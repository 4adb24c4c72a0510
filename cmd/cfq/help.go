package main

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/spf13/pflag"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/ptq"
	"cfq/qat/fit"
	"cfq/reproduce"
)

const helpWidth = 100

//go:embed help
var helpTexts embed.FS

func helpText(name string) string {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err)
	}
	return message.NewTemplates(string(text), template.FuncMap{
		"summaries": summaries, "archs": fit.Archs, "objectives": fit.Objectives, "conditions": eval.StressForms,
		"tables": reproduce.Tables, "methods": ptq.Methods, "methodTable": methodTable, "keys": ptq.Keys,
		"paragraph": func(first string, indent int, text ...any) string {
			var b strings.Builder
			message.Paragraph(&b, first, strings.Repeat(" ", indent), fmt.Sprint(text...))
			return b.String()
		},
	}).Text("", nil)
}

// text is the help of the subcommand without its flags: what stands before them, notes after them, and examples.
func (c *command) text() (usage, notes, examples string) {
	usage, examples, _ = strings.Cut(helpText(c.name), "\nExamples:\n")
	usage, notes, _ = strings.Cut(usage, "\nFLAGS\n")
	return usage, notes, examples
}

func (c *command) summary() string {
	line, _, _ := strings.Cut(helpText(c.name), ".\n")
	return strings.ToLower(line[:1]) + line[1:]
}

func summaries() string {
	var list strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&list, "  %-11s %s\n", c.name, c.summary())
	}
	return list.String()
}

// help serves "cfq help", "cfq help NAME" of a subcommand or a topic, and "cfq help --markdown", which writes the help
// of every subcommand as one page.
func help(w io.Writer, args []string) error {
	switch {
	case len(args) == 0:
		fmt.Fprint(w, helpText("cfq"))
	case len(args) > 1:
		return cli.Usagef(cli.HintArguments, "too many arguments; usage: cfq help SUBCOMMAND")
	case args[0] == "--markdown":
		writeMarkdown(w)
	case args[0] == "recipe":
		fmt.Fprint(w, helpText("recipe"))
	default:
		c := find(args[0])
		if c == nil {
			return unknown(args[0])
		}
		c.writeHelp(w)
	}
	return nil
}

func (c *command) writeHelp(w io.Writer) {
	all, everyday := 0, newFlagSet(c.name)
	fs, _ := c.flags(&env{msg: &cli.Printer{}})
	fs.VisitAll(func(f *pflag.Flag) {
		if all++; headingOf(f) == everydayFlags {
			everyday.AddFlag(f)
		}
	})
	usage, _, examples := c.text()
	fmt.Fprint(w, usage)
	writeFlags(w, everyday)
	fmt.Fprintf(w, "\nExamples:\n%s\n`cfq %s --help-all` explains all %d flags.\n", examples, c.name, all)
}

// writeHelpAll explains all flags; common writes about those that every subcommand has.
func (c *command) writeHelpAll(w io.Writer, common func(io.Writer)) {
	usage, notes, examples := c.text()
	own := newFlagSet(c.name)
	addFlags(own, c.name, c.variables())
	fmt.Fprint(w, usage)
	writeFlags(w, own)
	if notes != "" {
		fmt.Fprint(w, "\n", notes)
	}
	common(w)
	fmt.Fprintf(w, "\nExamples:\n%s", examples)
}

func writeCommon(w io.Writer) {
	flags := (&env{msg: &cli.Printer{}}).common().FlagUsagesWrapped(helpWidth)
	fmt.Fprintf(w, "\nCommon flags:\n%s\n%s", flags, helpText("common"))
}

// Headings of flags in the help. --help shows those under everydayFlags, --help-all and the page of commands show all.
const (
	headingKey    = "heading" // the annotation
	everydayFlags = "Flags"
)

func headingOf(f *pflag.Flag) string {
	return cmp.Or(strings.Join(f.Annotations[headingKey], ""), everydayFlags)
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

// writeMarkdown writes the help of everything as one page, with the common flags once.
func writeMarkdown(w io.Writer) {
	block := func(title string, write func(io.Writer)) {
		fmt.Fprintf(w, "## %s\n\n```\n", title)
		write(w)
		fmt.Fprint(w, "```\n\n")
	}
	block("cfq", func(w io.Writer) {
		fmt.Fprint(w, helpText("cfq"))
		writeCommon(w)
	})
	for _, c := range commands() {
		block("cfq "+c.name, func(w io.Writer) { c.writeHelpAll(w, func(io.Writer) {}) })
	}
}
