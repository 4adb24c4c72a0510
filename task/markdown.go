package task

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown returns the reference page of the task file: an introduction, an example and one table of keys for each mapping, from the lists
// by which the decoder reads.
func Markdown() string {
	var b strings.Builder
	text := func(s string) { b.WriteString(strings.ReplaceAll(s, "~", "`")) } // raw strings cannot hold backquotes
	text(introduction)
	fmt.Fprintf(&b, "\n```yaml\n%s```\n", example)
	text(exampleData)
	for _, s := range sections() {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		if s.kinds {
			text(kindsNote)
		}
		s.table(&b)
		text(s.note)
	}
	text(strings.Replace(overridesNote, "COLUMNS", "~"+strings.Join(overrideColumns(), "~, ~")+"~", 1))
	return b.String()
}

// section is the keys of one mapping.
type section struct {
	title string
	keys  []key
	kinds bool   // keys mean something for some kinds of feature only
	note  string // after the table
}

// sections lists the mappings of a task file. Their keys are never read.
func sections() []section {
	d, t := newDecoder(""), &Task{}
	return []section{
		{title: "The task file", keys: d.taskKeys(t, &parts{})},
		{title: "`data`", keys: d.dataKeys(&t.Data)},
		{title: "A condition of `data.filter`", keys: d.filterKeys(&Condition{})},
		{title: "`target`", keys: d.targetKeys(&t.Target)},
		{title: "A feature of `features`", keys: d.featureKeys(&Feature{}, &percents{}), kinds: true},
		{title: "A link of `links`", keys: d.linkKeys(&Link{}, &pairs{}), note: linksNote},
		{title: "A constraint of `constraints`", keys: d.ruleKeys(&Rule{}, &ruleTexts{}), note: rulesNote},
		{title: "`cost`", keys: d.costKeys(&t.Cost)},
		{title: "`sparsity`", keys: d.sparsityKeys(&t.Sparsity)},
	}
}

func (s section) table(b *strings.Builder) {
	cell := strings.NewReplacer("|", `\|`)
	head, rule := "| key | what | without it |", "|---|---|---|"
	if s.kinds {
		head, rule = head+" kinds |", rule+"---|"
	}
	fmt.Fprintf(b, "%s\n%s\n", head, rule)
	for _, r := range s.keys {
		fallback := r.Fallback
		if fallback == required {
			fallback = "**required**"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |", r.Name, cell.Replace(r.Doc), cell.Replace(fallback))
		if s.kinds {
			fmt.Fprintf(b, " %s |", strings.Join(kindsOf(r.Name), ", "))
		}
		b.WriteString("\n")
	}
}

// kindsOf names the kinds of feature that a key means something for: "all" when applies leaves it to every one.
func kindsOf(key string) []string {
	var names []string
	for _, k := range allKinds() {
		if slices.Contains(applies(k), key) {
			names = append(names, string(k))
		}
	}
	if names == nil {
		return []string{"all"}
	}
	return names
}
