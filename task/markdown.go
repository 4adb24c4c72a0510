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
	}
	return b.String()
}

// section is the keys of one mapping.
type section struct {
	title string
	rules []rule
	kinds bool // keys mean something for some kinds of feature only
}

// sections lists the mappings of a task file. Their rules are never run.
func sections() []section {
	d, t := &decoder{}, &Task{}
	return []section{
		{title: "The task file", rules: d.taskRules(t, nil, nil)},
		{title: "`data`", rules: d.dataRules(&t.Data)},
		{title: "A condition of `data.filter`", rules: d.filterRules(&Condition{})},
		{title: "`target`", rules: d.targetRules(&t.Target)},
		{title: "A feature of `features`", rules: d.featureRules(&Feature{}), kinds: true},
		{title: "`cost`", rules: d.costRules(&t.Cost)},
		{title: "`sparsity`", rules: d.sparsityRules(&t.Sparsity)},
	}
}

func (s section) table(b *strings.Builder) {
	cell := strings.NewReplacer("|", `\|`)
	head, rule := "| key | what | without it |", "|---|---|---|"
	if s.kinds {
		head, rule = head+" kinds |", rule+"---|"
	}
	fmt.Fprintf(b, "%s\n%s\n", head, rule)
	for _, r := range s.rules {
		fallback := r.fallback
		if fallback == required {
			fallback = "**required**"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |", r.key, cell.Replace(r.doc), cell.Replace(fallback))
		if s.kinds {
			fmt.Fprintf(b, " %s |", strings.Join(kindsOf(r.key), ", "))
		}
		b.WriteString("\n")
	}
}

// kindsOf names the kinds of feature that a key means something for: "all" when applies leaves it to every one.
func kindsOf(key string) []string {
	var names []string
	for _, k := range []Kind{Numeric, Ordinal, Binary, OneHot} {
		if slices.Contains(applies(k), key) {
			names = append(names, string(k))
		}
	}
	if names == nil {
		return []string{"all"}
	}
	return names
}

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

Values are compared as text, and numbers also as numbers: ~1~ and ~1.0~ are the same value. Only the markers of
~data.missing~ are compared as text alone.

**Missing values.** An empty field is missing, and so is one that ~data.missing~ lists. A missing one-hot value is a
group of zeros: a person without that value, not a problem. To give "not known" an input of its own, list its
marker among ~values~ and not in ~data.missing~. A missing number or binary value has no encoding, so the row cannot be
read. A missing label is an outcome that is not known.

**Rows that cannot be read** (a wrong number of fields, a number that is none, a missing number or binary value, a
category or grade that ~values~ does not list) are left out, counted and reported with line, column and reason. They
never stop the reading, unless no row at all is left.

**Row numbers.** ~--rows~ takes a JSON list of numbers that start at 0 with the first data row that ~data.filter~
keeps. Header, skipped, comment and blank lines and filtered rows have no number; rows that cannot be read have one. So
the numbers are those of a table loaded with the same filter. A leading ~!~ means all other rows.

**Actions.** An action changes actionable features only, at most ~sparsity.max_features~ of them, each within its
~direction~, ~bounds~, ~max_increase~, ~max_decrease~ and ~max_change~, on its steps. Bounds always contain a
person's own value: where it lies outside, they are widened to it, so that nobody is made to change.

**Cost.** The cost of an action is the norm, ~cost.norm~, of the changes of the model's inputs times their weights. With
~inverse_std~ the weight of an input is ~weight~ / (sigma + ~eps~), where sigma is its standard deviation over the
training rows:

- numeric and ordinal: 1, because ~mean~ and ~std~ standardise the input; a change of one ~std~ costs about
  ~weight~. It is 1 without them, too, so that every raw unit then costs about ~weight~.
- one-hot and binary: sqrt(p (1 - p)) with p from ~shares~; without them p is 1/number of values, 1/2 for binary.

Another category changes two inputs, to 0 and to 1, and costs the sum of their weights under ~l1~. Costs follow
from the task file alone, never from the data at hand.

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

For the first of them, 2000 more income costs 0.1 / 1.001 = 0.10, and to move from ~rent~ to ~family~ costs
1 / (0.5 + 0.001) + 1 / (0.3 + 0.001) = 5.32.
`

const kindsNote = "`kinds` are those that the key means something for; given for another kind it is a mistake.\n\n"
