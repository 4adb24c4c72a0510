package task

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"cfq/internal/config"
)

// Overrides reads what single people can change where it differs from the task: a table with the columns row and
// feature, and any of the columns that docs/task.md lists. Rows are counted as ReadOptions counts them; an empty field
// keeps what the task says. The fields are checked as the keys of a task file are, and mistakes returned as
// config.Errors, all of them. The overrides come in the order of rows and features.
func (t *Task) Overrides(path string) ([]Override, error) {
	o := &overrideReader{d: newDecoder(path, t), task: t, seen: map[[2]int]int{}}
	if _, err := FromFile(path, func(r io.Reader) (any, error) { return nil, o.read(r) }); err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	if err := o.d.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(o.all, func(a, b Override) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Feature, b.Feature))
	})
	return o.all, nil
}

type overrideReader struct {
	d       *fileDecoder
	task    *Task
	columns []string
	seen    map[[2]int]int // line of each row and feature
	all     []Override
}

func overrideColumns() []string {
	return []string{
		"actionable", "direction", "min", "max", "step", "max_increase", "max_decrease", "max_change", "weight",
	}
}

func (o *overrideReader) read(r io.Reader) error {
	rows, err := (&Data{Delimiter: ',', Trim: true}).rows(r)
	if err != nil {
		return err
	}
	if o.columns, err = header(rows); err != nil {
		return fmt.Errorf("%w; overrides need a header with row, feature and the columns that differ", err)
	}
	if o.checkColumns(); len(o.d.Errs) > 0 {
		return nil
	}
	return rows.Each(context.Background(), func(rec []string, row int, bad *Problem) error {
		switch {
		case bad != nil:
			return bad
		case len(rec) != len(o.columns):
			return rows.Problem(row, fmt.Sprintf("%d fields where %d are expected", len(rec), len(o.columns)))
		}
		fields := map[string]ast.Node{}
		for i, s := range rec {
			if s = strings.TrimSpace(s); s != "" {
				line, col := rows.position(i)
				fields[o.columns[i]] = fieldNode(s, line, col)
			}
		}
		line, col := rows.position(0)
		o.override(fieldNode("", line, col), fields)
		return nil
	})
}

func (o *overrideReader) checkColumns() {
	known := append([]string{"row", "feature"}, overrideColumns()...)
	for i, name := range o.columns {
		at := fieldNode(name, 1, i+1)
		switch {
		case !slices.Contains(known, name):
			o.d.Errorf(at, "there is no column %q%s", name, config.DidYouMean(name, known))
		case slices.Contains(o.columns[:i], name):
			o.d.Errorf(at, "the column %q occurs twice", name)
		}
	}
	for _, name := range known[:2] {
		if !slices.Contains(o.columns, name) {
			o.d.Errorf(fieldNode("", 1, 1), "the column %q is missing", name)
		}
	}
}

func fieldNode(s string, line, col int) ast.Node {
	tk := token.New(s, s, &token.Position{Line: line, Column: col})
	tk.Type = token.StringType
	if s == "true" || s == "false" {
		return ast.Bool(tk)
	}
	return ast.String(tk)
}

func (o *overrideReader) override(at ast.Node, fields map[string]ast.Node) {
	d, before := o.d, len(o.d.Errs)
	for _, name := range []string{"row", "feature"} {
		if fields[name] == nil {
			d.Errorf(at, "the field %q is empty", name)
		}
	}
	if len(d.Errs) > before {
		return
	}
	var row int
	d.Count(&row, 0).Read(fields["row"])
	i := d.featureNamed(fields["feature"], config.ScalarText(fields["feature"]))
	if len(d.Errs) > before {
		return
	}
	if line, twice := o.seen[[2]int{row, i}]; twice {
		d.Errorf(at, "row %d and feature %q are given on line %d, too; keep one", row, o.task.Features[i].Name, line)
		return
	}
	o.seen[[2]int{row, i}] = at.GetToken().Position.Line
	f := o.task.Features[i]
	o.apply(&f, at, fields)
	if len(d.Errs) == before {
		o.all = append(o.all, Override{Row: row, Feature: i, With: f.Action})
	}
}

func (o *overrideReader) apply(f *Feature, at ast.Node, fields map[string]ast.Node) {
	e, was := featureEntry{f, mapping{Node: at, At: fields}, o.d}, f.Actionable
	for _, k := range o.d.actionKeys(o.task, f) {
		if e.Has(k.Name) && k.Value.Read != nil {
			k.Value.Read(e.At[k.Name])
		}
	}
	for i, name := range []string{"min", "max"} {
		if e.Has(name) {
			e.side(i, e.At[name])
			e.At["bounds"] = e.At[name]
		}
	}
	e.checkBounds()
	e.refuse()
	if hot, ok := f.Encoding.(*OneHot); ok {
		hot.checkOrder(e)
	}
	moves := o.task.Moves(f.Name)
	if e.Has("actionable") && f.Actionable && moves {
		o.d.Errorf(e.Place("actionable"), "%q changes by a link, and cannot be actionable, too", f.Name)
	}
	f.Mutable = f.Actionable || moves
	if need := o.task.Cost.lacks(featureEntry{Feature: f}); f.Actionable && !was && need != "" {
		o.d.Errorf(e.Place("actionable"),
			"the weights of the cost need %s of %q when it is actionable; `cfq task init` makes them from data", need, f.Name)
	}
	if n := f.Number(); n != nil {
		n.checkReach(e)
	}
}
