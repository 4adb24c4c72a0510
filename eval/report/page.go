package report

import (
	"slices"

	"cfq/eval/gate"
	"cfq/internal/chart"
	"cfq/internal/message"
)

type reportPage struct {
	title   string
	verdict gate.Verdict // "" without a gate
	blocks  []pageBlock
	answer  int // the blocks that say what was asked for, with a gate; the rest is what it rests on
}

// legible keeps names in files from steering what shows them: see [message.OneLine].
func (p *reportPage) legible() *reportPage {
	each := func(list []string) []string {
		list = slices.Clone(list)
		for i, s := range list {
			list[i] = message.OneLine(s)
		}
		return list
	}
	p.title = message.OneLine(p.title)
	for i := range p.blocks {
		b := &p.blocks[i]
		b.people = slices.Clone(b.people)
		for k := range b.people {
			b.people[k].Who = message.OneLine(b.people[k].Who)
		}
		b.title, b.lines, b.after = message.OneLine(b.title), each(b.lines), each(b.after)
		b.table.head = each(b.table.head)
		for k, row := range b.table.rows {
			b.table.rows[k] = each(row)
		}
		for k := range b.figures {
			f := &b.figures[k]
			f.caption, f.chart.Categories = message.OneLine(f.caption), each(f.chart.Categories)
		}
	}
	return p
}

func (p *reportPage) head() string {
	switch {
	case p.verdict == "":
		return p.title
	case p.title == "":
		return string(p.verdict)
	}
	return string(p.verdict) + ": " + p.title
}

type pageBlock struct {
	title   string   // "" for the headline
	lines   []string // sentences
	table   textTable
	after   []string         // explanations under the table
	figures []captionedChart // for views that can draw
	people  []Pictured       // for views that can show images
	bullet  bool             // draw lines as a list
	fold    bool             // few readers need it: views that can close it do
}

// textTable is rows of cells under an optional head. The first left columns are
// aligned left, the others right.
type textTable struct {
	head []string
	rows [][]string
	left int
	// styles are "good", "bad" or "unsure" for cells of the columns that prune leaves where they are.
	styles map[cellAt]string
	meters map[int]meter // of rows, for views that can draw: behind the second column
}

// meter is a number against its limit, and the same in words.
type meter struct {
	chart.Meter

	words string
}

type cellAt struct{ row, column int }

type captionedChart struct {
	caption string
	chart   chart.Chart
}

func (t *textTable) style(column int, style string) {
	t.styleAt(cellAt{len(t.rows) - 1, column}, style)
}

func (t *textTable) styleAt(p cellAt, style string) {
	if t.styles == nil {
		t.styles = map[cellAt]string{}
	}
	t.styles[p] = style
}

func (t *textTable) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *textTable) prune() {
	if t.head == nil {
		return
	}
	left := t.left
	for j := len(t.head) - 1; j >= 0; j-- {
		if slices.ContainsFunc(t.rows, func(r []string) bool { return r[j] != missing }) || len(t.rows) == 0 {
			continue
		}
		t.head = slices.Delete(t.head, j, j+1)
		for i := range t.rows {
			t.rows[i] = slices.Delete(t.rows[i], j, j+1)
		}
		if j < left {
			t.left--
		}
	}
}

type detail bool

const (
	brief detail = false
	full  detail = true
)

func (d detail) limit(n, maximum int) int {
	if d == full {
		return n
	}
	return min(n, maximum)
}
