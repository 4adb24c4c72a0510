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

A task file (YAML or JSON) describes a decision: how columns become the model's inputs, which outcome people want, what they can
change and what a change costs.

**Units.** Every quantity of a feature is in the units of the data file. Only ~target.margin~ (logits) and ~cost.eps~ (model
inputs) are not.

**Encoding.** The inputs stand in the order of ~features~.

- ~numeric~: one input, (value - ~mean~) / ~std~. Without both keys the raw value is the input.
- ~ordinal~: the same, but only certain numbers occur: ~values~, or the steps of ~step~ within ~bounds~.
- ~binary~: one input, 1 for the value ~one~ and 0 for ~zero~, or for every other value when ~zero~ is not given.
- ~onehot~: one input for each of ~values~, in that order: 1 for the person's value, 0 for the others.
- ~thermometer~: one input for each of ~values~ but the first, 1 up to the person's value: with ~[D, C, B]~, D is 0 0, C is 1 0
  and B is 1 1. Or of a number: one input for each of ~thresholds~, 1 for those it reaches.

Values are compared as text and as numbers: ~1~ and ~1.0~ are the same value.

**Missing values.** The empty field and the fields of ~data.missing~ are missing. A missing one-hot value is a group of zeros. To
give "not known" an input of its own, list its marker in ~values~ and not in ~data.missing~. A row with a missing number, binary
or thermometer value cannot be read. A missing label is an unknown outcome.

**Data files** are delimited text (also gzip) or Parquet, recognised by content. Parquet booleans read as ~true~ and ~false~, dates
as ~2006-01-02~, decimals exactly, null and NaN as missing; messages count its rows from 1.

**Rows that cannot be read** are left out, counted and reported with line, column and reason.

**Row numbers.** ~--rows~ takes a JSON list of numbers from 0, counted over the data rows that ~data.filter~ keeps; rows that
cannot be read count. A leading ~!~ means all other rows.

**Actions.** An action changes at most ~sparsity.max_features~ actionable features, each within its ~direction~, ~bounds~, largest
changes and steps. A person outside of the bounds may stay. Linked features follow, and the ~constraints~ hold afterwards.

**Cost.** The cost is the norm ~cost.norm~ of the changes of the inputs times their weights. With ~inverse_std~ a weight is
~weight~ / (sigma + ~eps~). sigma is the input's standard deviation over the training rows: 1 for numbers, sqrt(p (1 - p)) with p
from ~shares~ for the other kinds. ~inverse_mad~ uses ~mad~ instead, and ~inverse_range~ the range of ~quantiles~, else of
~values~, else of ~bounds~, in units of the input; categories have 1 there. Another one-hot value costs the mean of the weights of
its two inputs (~switches: once~), both changes (~switches: encoded~), or ~switch_cost~. Linked changes are free.

**Drafts.** ~cfq task init~ drafts a task file from data and, with ~--encoding~, from a JSON file that declares the model's inputs
in their order: ~column~, ~kind~ (~numeric~ with ~mean~ and ~std~, ~binary~ with ~one~ and ~zero~, ~onehot~ with ~value~ for each
input or ~values~ for all), and ~"target": "favourable = 1"~ for the class index. Open points are comments ~# QUESTION: ...~;
~cfq task check~ refuses the file until they are answered and removed.

**JSON Schema**, for editors: [task.schema.json](task.schema.json).

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
`

const kindsNote = "A key is a mistake for a kind that `kinds` does not list.\n\n"

const linksNote = `
A link says what changes by itself: the degree (~map: {13: Bachelors, 14: Masters}~) with the years of school. The linked feature costs nothing and is ~actionable: false~; its ~bounds~ hold. Links form no circle.
`

const rulesNote = `
A constraint is a linear inequality between raw numbers, or the value of a category.

~~~yaml
constraints:
  - debt <= 0.5 * income
  - (savings + 2 * debt) / 3 < 10000 - amount
  - housing in {own, family}          # also: housing = own, housing != rent, housing not in {rent}
  - education >= Masters              # ordered values
  - {if: employment = unemployed, then: [amount <= 5000, months <= 24]}
  - {at_most: 1, of: [income, savings, debt]}
~~~

Names may contain blanks, dots and hyphens: the longest feature name that fits is meant. Quote a name or value that would be
misread, as ~'2'~. A thermometer of ~thresholds~ counts as the threshold that has been reached, or below the first as lying as far
below it as the second lies above.

A person may break a constraint as they are. An action then leaves its features alone, or fulfils it, or, without ~if~, takes the
person no further from fulfilling it.
`

const overridesNote = `
## What single people can change

~--overrides~ names a table (CSV or Parquet) for people who differ from the task: the columns ~row~ (counted as above), ~feature~,
and any of COLUMNS; ~min~ and ~max~ are the sides of ~bounds~. An empty field keeps what the task says.

~~~text
row,feature,actionable,max,max_increase
0,income,,,2000
7,housing,false,,
7,amount,,12000,
~~~
`
