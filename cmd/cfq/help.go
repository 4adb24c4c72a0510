package main

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/internal/message"
)

const helpWidth = 100

//go:embed help
var helpTexts embed.FS

func helpText(name string) string {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// text is the help of the subcommand without its flags: what stands before them, and the examples after them.
func (c *command) text() (usage, examples string) {
	usage, examples, _ = strings.Cut(helpText(c.name), "\nExamples:\n")
	return usage, examples
}

func (c *command) summary() string {
	line, _, _ := strings.Cut(helpText(c.name), ".\n")
	return strings.ToLower(line[:1]) + line[1:]
}

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
	var list strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&list, "  %-11s %s\n", c.name, c.summary())
	}
	fmt.Fprintf(w, helpText("cfq"), list.String())
}

func (c *command) writeHelp(w io.Writer) {
	all, everyday := 0, newFlagSet(c.name)
	fs, _ := c.flags(&env{msg: &cli.Printer{}})
	fs.VisitAll(func(f *pflag.Flag) {
		if all++; headingOf(f) == everydayFlags {
			everyday.AddFlag(f)
		}
	})
	usage, examples := c.text()
	fmt.Fprint(w, usage)
	writeFlags(w, everyday)
	fmt.Fprintf(w, "\nExamples:\n%s\n`cfq %s --help-all` explains all %d flags.\n", examples, c.name, all)
}

// writeHelpAll explains all flags; common writes about those that every subcommand has.
func (c *command) writeHelpAll(w io.Writer, common func(io.Writer)) {
	usage, examples := c.text()
	own := newFlagSet(c.name)
	addFlags(own, c.name, c.variables())
	fmt.Fprint(w, usage)
	writeFlags(w, own)
	if c.notes != nil {
		fmt.Fprintf(w, "\n%s\n", strings.Trim(c.notes(), "\n"))
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

func item(w io.Writer, name, what string) {
	message.Paragraph(w, fmt.Sprintf("  %-13s ", name), strings.Repeat(" ", 16), what)
}

// writeMarkdown writes the help of everything as one page, with the common flags once.
func writeMarkdown(w io.Writer) {
	block := func(title string, write func(io.Writer)) {
		fmt.Fprintf(w, "## %s\n\n```\n", title)
		write(w)
		fmt.Fprint(w, "```\n\n")
	}
	block("cfq", func(w io.Writer) {
		writeOverview(w)
		writeCommon(w)
	})
	for _, c := range commands() {
		block("cfq "+c.name, func(w io.Writer) { c.writeHelpAll(w, func(io.Writer) {}) })
	}
}
