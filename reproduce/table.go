package reproduce

import "cfq/eval"

// Table is a table of the paper: what is run for it, and what the paper reports.
type Table struct {
	Name   string // as the command calls it
	Labels string // of the paper's tables; "" for one of this project's own
	Title  string
	// Columns are measured for each row; Rows have the paper's numbers for those that it reports, in their order.
	Columns []Column
	Rows    []Row
	Claims  []Claim
	Note    string // what a reader must know who compares with the paper; a paragraph or nothing
}

// Column is a number that is measured for each row.
type Column struct {
	Head   string
	Metric string // ID of eval.Metrics, at Margin, also behind Worst or Spread; Seconds; or one of those of actions
	Format string // of fmt
	Paper  bool   // the paper reports it
}

// Seconds stands for a metric: of the processor, that quantizing took, or looking for actions.
const Seconds = "seconds"

// Before a metric: the largest value of the groups of people that Row.Part tells apart, and that less the smallest.
// Groups of few promises do not count.
const (
	Worst  = "worst "
	Spread = "spread "
)

// Weighted stands in a part between a group and the share of all people that it counts as.
const Weighted = " weighted to "

// Metrics of actions, for rows of Variant.Recourse; those with a second word are of the actions of Row.Solver.
const (
	Success     = "success"     // share of the people who have an action
	Cost        = "cost"        // mean of these
	People      = "people"      // who fall short of the margin
	Proved      = "proved"      // share of them whose action is proved to be the cheapest, or who are proved to have none
	GapMean     = "gap.mean"    // of those: what the search's action costs more than the cheapest, over its cost
	GapLargest  = "gap.largest" // of these
	GapMissed   = "gap.missed"  // people without an action of the search
	SuccessHere = "robust.here" // share of the people whose action holds in the quantized model
	SuccessAway = "robust.away" // mean share of the deployments held out in which an action holds
	CostRatio   = "robust.cost" // to the cost of the original's actions
	Time        = "robust.time" // seconds of all cores
)

// Margin is the required margin, in logits, at which everything is measured.
const Margin = eval.HeadlineMargin

// Row is one line of a table: a variant, measured on the networks of several seeds.
type Row struct {
	Name    string // of the method, as in Claim
	Variant Variant
	// Part is the part of the evaluation that counts: nothing for everybody, the name of a group, "sex Female", of a
	// condition, as --stress gives them, or a group and Weighted.
	Part string
	// Solver is the one whose actions count, of those of `cfq recourse --robust`.
	Solver string
	Paper  []Number // by the columns that the paper reports; nil = a row that it does not have
}

// Variant is how a model is trained, quantized and evaluated: flags of the commands.
type Variant struct {
	Data     string // name of a data set
	Form     string // of the task: another norm of the cost, or inCodes; "" = as it is
	Train    []string
	Quantize []string
	Eval     []string
	Recourse []string // in place of the two before: actions of the network are looked for
	Rows     int      // of that many test rows, at most; 0 = as of all tables
}

// Number is what the paper reports: a mean, and the standard deviation over seeds, NaN where it has none.
type Number struct{ Mean, SD float64 }

// Claim is a statement of the paper on two methods, which is checked wherever a table has both: on each data set and in
// each part, the networks of each seed paired.
type Claim struct {
	Says         string // about Lower and Upper
	Metric       string
	Lower, Upper string // names of rows: the metric of Lower is below that of Upper
}

// paper returns what the paper reports of a row, by column; nil where it reports nothing.
func (t *Table) paper(r *Row) []*Number {
	numbers, left := make([]*Number, len(t.Columns)), r.Paper
	for i, c := range t.Columns {
		if c.Paper && len(left) > 0 {
			numbers[i], left = &left[0], left[1:]
		}
	}
	return numbers
}

// Find returns the table called name.
func Find(name string) (Table, bool) {
	for _, t := range Tables() {
		if t.Name == name {
			return t, true
		}
	}
	return Table{}, false
}

// Names lists the names of Tables.
func Names() []string {
	var names []string
	for _, t := range Tables() {
		names = append(names, t.Name)
	}
	return names
}

// Where is the data set and the part of it that a row is about.
func (r *Row) Where() string {
	name := dataSet(r.Variant.Data).Title
	if r.Part != "" {
		name += ", " + r.Part
	}
	return name
}
