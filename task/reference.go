package task

import (
	"fmt"
	"slices"
	"strings"

	"cfq/internal/config"
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

// Schema returns the JSON Schema (draft 2020-12) of the task file, for editors: from the keys that the decoder reads by. A file that it accepts may still
// have mistakes: names that refer to nothing, numbers that contradict each other.
func Schema() []byte {
	d := newDecoder("")
	return config.Object(d.taskKeys(&Task{}, &parts{})).Document("task", "cfq task file")
}

func scalarForm() schema { return schema{"type": []string{"string", "number", "boolean"}} }
func flagForm() schema   { return schema{"type": "boolean"} }
func countForm() schema  { return schema{"type": "integer", "minimum": 0} }
func charForm() schema {
	return schema{"type": []string{"string", "number"}, "minLength": 1, "maxLength": 1}
}

// sideForm is one side of bounds: open, a number, or a percentile.
func sideForm() schema {
	return anyOf(func() schema { return schema{"type": []string{"number", "null"}} }, percentForm)()
}

func percentForm() schema { return schema{"type": "string", "pattern": `^[0-9.]+ ?%$`} }

// pairForm is bounds.
func pairForm() schema {
	s := config.ListOf(sideForm)()
	s["minItems"], s["maxItems"] = 2, 2
	return s
}

func oneOrMore(item func() schema) func() schema { return anyOf(item, config.ListOf(item)) }

// mapOf is a mapping whose keys the file chooses.
func mapOf(item func() schema) func() schema {
	return func() schema { return schema{"type": "object", "additionalProperties": item()} }
}

func anyOf(forms ...func() schema) func() schema {
	return func() schema {
		all := make([]schema, len(forms))
		for i, f := range forms {
			all[i] = f()
		}
		return schema{"anyOf": all}
	}
}

func oneOf(words []string) func() schema { return func() schema { return schema{"enum": words} } }

// In the texts below ~ stands for a backquote.
const introduction = `# The task file

A task file says what a decision is about: how the columns of a data file become the model's inputs, which
outcome people want, what they can change and what a change costs. It is YAML or JSON. A key that is not
known, given twice or makes no sense beside the others is a mistake, and all mistakes are reported at once
with line and column. The tables below are made from the list of keys that the program reads by.

**Raw units.** Every quantity of a feature is in the units of the data file: years, dollars, grades. The
program converts it to the model's inputs and back. Only ~target.margin~ (logits) and ~cost.eps~ (units of the
model's inputs) are not.

**Encoding.** The inputs stand in the order of ~features~.

- ~numeric~: one input, (value - ~mean~) / ~std~. Without both keys the raw value is the input.
- ~ordinal~: the same, but only certain numbers occur: ~values~, or the steps of ~step~ within ~bounds~.
- ~binary~: one input, 1 for the value ~one~ and 0 for ~zero~, or for every other value when ~zero~ is not given.
- ~onehot~: one input for each of ~values~, in that order: 1 for the person's value, 0 for the others.
- ~thermometer~: one input for each of ~values~ but the first, 1 up to the person's value and 0 beyond: with ~[D, C, B]~, D is
  0 0, C is 1 0 and B is 1 1. Or of a number: one input for each of ~thresholds~, 1 for those it reaches. What lies between
  two thresholds is not known to the model, so such a number is printed as the threshold it has reached, and as ~<1000~ below
  the first.

Values are compared as text, and numbers also as numbers: ~1~ and ~1.0~ are the same value. Only the markers of
~data.missing~ are compared as text alone.

**Missing values.** An empty field is missing, and so is one that ~data.missing~ lists. A missing one-hot value is a
group of zeros: a person without that value, not a problem. To give "not known" an input of its own, list its
marker among ~values~ and not in ~data.missing~. A missing number, binary or thermometer value has no encoding, so the row
cannot be read. A missing label is an outcome that is not known.

**Rows that cannot be read** (a wrong number of fields, a number that is none, a missing number or binary value, a
category or grade that ~values~ does not list) are left out, counted and reported with line, column and reason. They
never stop the reading, unless no row at all is left.

**Row numbers.** ~--rows~ takes a JSON list of numbers that start at 0 with the first data row that ~data.filter~
keeps. Header, skipped, comment and blank lines and filtered rows have no number; rows that cannot be read have one. So
the numbers are those of a table loaded with the same filter. A leading ~!~ means all other rows.

**Actions.** An action changes actionable features only, at most ~sparsity.max_features~ of them, each within its
~direction~, ~bounds~, ~max_increase~, ~max_decrease~ and ~max_change~, on its steps. Bounds always contain a
person's own value: where it lies outside, they are widened to it, so that nobody is made to change. What ~links~ drag
along changes with it, and the ~constraints~ hold for the person as they are after the action.

**Orders.** The values of a thermometer stand in an order, and those of a one-hot feature do with ~ordered: true~. Then
~direction~ applies to them, and ~max_increase: 1~ allows one place up.

**Cost.** The cost of an action is the norm, ~cost.norm~, of the changes of the model's inputs times their weights. With
~inverse_std~ the weight of an input is ~weight~ / (sigma + ~eps~), where sigma is its standard deviation over the
training rows:

- numeric and ordinal: 1, because ~mean~ and ~std~ standardise the input; a change of one ~std~ costs about
  ~weight~. It is 1 without them, too, so that every raw unit then costs about ~weight~.
- one-hot, thermometer and binary: sqrt(p (1 - p)) with p from ~shares~; without them p is 1/number of values for one-hot and
  1/2 for the others.

~inverse_mad~ puts the ~mad~ in place of sigma, and ~inverse_range~ the distance from the first to the last of ~quantiles~, else of
~values~, else of ~bounds~, both in units of the input; categories have 1 there. Every number that people can change must have
what its cost needs.

Another one-hot value changes two inputs, to 0 and to 1. It costs the mean of their two weights (~switches: once~), their
sum under ~l1~ (~switches: encoded~), or what ~switch_cost~ says. What links drag along is free. Costs
follow from the task file alone, never from the data at hand.

**JSON Schema.** [task.schema.json](task.schema.json) is made from the same list of keys. Editors that know YAML schemas take it from a first
line ~# yaml-language-server: $schema=...~ with its path. It knows keys and types; what refers to something else in the file, only
~cfq~ checks.

## Example
`

// example is the task file that the page shows.
const example = `version: 1

data:
  label: decision
  favourable: approved
  missing: "?"

features: # in the order of the model's inputs
  - {name: age, kind: numeric, mean: 40, std: 12.5, actionable: false}
  - {name: income, kind: numeric, mean: 33000, std: 20000, direction: increase, max_increase: 12000, step: 100}
  - {name: amount, kind: numeric, mean: 15000, std: 10000, direction: decrease, bounds: [1000, 60000], step: 500, weight: 1.5}
  - {name: credit_grade, kind: ordinal, values: [1, 2, 3, 4, 5], mean: 3, std: 1, direction: increase, max_increase: 2}
  - {name: housing, kind: onehot, values: [rent, own, family], shares: [0.5, 0.4, 0.1], transitions: {rent: [family]}}
  - {name: guarantor, kind: binary, one: "yes", zero: "no", shares: 0.2, direction: increase}

cost: {norm: l1, weights: inverse_std}

constraints:
  - amount <= 0.5 * income
  - {if: housing = family, then: credit_grade >= 2}

sparsity: {max_features: 3}
`

const exampleData = `
With it, this data file

~~~text
age,income,amount,credit_grade,housing,guarantor,decision
30,27000,10000,3,rent,no,refused
50,43000,20000,4,?,yes,approved
61,38000,?,2,own,no,refused
~~~

gives two people and a row that cannot be read:

~~~text
-0.8 -0.3 -0.5 0  1 0 0  0    refused
 0.8  0.5  0.5 1  0 0 0  1    approved
line 4, column amount: the value is missing
~~~

For the first of them, 2000 more income costs 0.1 / 1.001 = 0.10, and to move from ~rent~ to ~family~ costs the mean of
1 / (0.5 + 0.001) and 1 / (0.3 + 0.001), 2.66. The second owes more than the first constraint allows: an action that changes the income or the
amount may not make that worse.
`

const kindsNote = "`kinds` are those that the key means something for; given for another kind it is a mistake.\n\n"

const linksNote = `
A link says what changes by itself when a person changes something: more years of school come with the degree
(~map: {13: Bachelors, 14: Masters}~), a year longer in the job with a year of age (~scale: 1~). The dragged feature costs nothing,
is ~actionable: false~, and ~bounds~ still hold for it. Links may follow on each other, not in a circle.
`

const rulesNote = `
Most constraints are no mapping but a text: an inequality between raw numbers, linear in each, or the value of a category.

~~~yaml
constraints:
  - debt <= 0.5 * income
  - (savings + 2 * debt) / 3 < 10000 - amount
  - housing in {own, family}          # also: housing = own, housing != rent, housing not in {rent}
  - education >= Masters              # ordered values
  - {if: employment = unemployed, then: [amount <= 5000, months <= 24]}
  - {at_most: 1, of: [income, savings, debt]}
~~~

Operators are ~<=~, ~<~, ~>=~, ~>~, ~=~ (also ~==~), and for categories ~=~, ~!=~, ~in~, ~not in~; ~+~, ~-~, ~*~, ~/~ and parentheses, with numbers on
all sides of ~*~ but one and behind ~/~. Names stand as they are, blanks, dots and hyphens included: the longest feature name
that fits is meant, so that with a feature ~hours-per-week~ the text ~hours-per-week - 2~ subtracts 2 from it. A name that reads as a number, starts
with a sign, or would be misread stands in quotes of any kind, as ~'2'~. So do values. A thermometer
of ~thresholds~ counts as the threshold that has been reached, or below the first as lying as far below it as the second
lies above.

A person may break a constraint as they are. Then an action either leaves its features alone, or fulfils it, or, without ~if~,
takes the person no further from fulfilling it.
`

const overridesNote = `
## What single people can change

A table, read beside the data file, says where single people differ from the task: a column ~row~ with the number of the data row
(counted as above), one ~feature~, and any of COLUMNS, of which ~min~ and ~max~ are the sides of ~bounds~. An empty
field keeps what the task says.

~~~text
row,feature,actionable,max,max_increase
0,income,,,2000
7,housing,false,,
7,amount,,12000,
~~~
`
