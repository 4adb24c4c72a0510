package task

import (
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/message"
)

// pairs is the map of a link with its places.
type pairs struct {
	list []Pair
	at   []ast.Node // of the keys
}

func (d *decoder) linkKeys(l *Link, p *pairs) []key {
	return []key{
		{Name: "from", Value: d.text(&l.From), Fallback: required, Doc: "the feature whose change drags"},
		{Name: "to", Value: d.text(&l.To), Fallback: required, Doc: "the feature that is dragged along; it is `actionable: false`"},
		{
			Name: "scale", Value: d.number(&l.Scale), Fallback: "`map` instead",
			Doc: "between numbers: raw units of `to` for each raw unit that `from` changes, not 0; several links to one number add up",
		},
		{
			Name: "map", Value: d.pairs(p), Fallback: "`scale` instead",
			Doc: "the value that `to` takes when `from` changes to a value, as `{Masters: 14}`; when `from` is a number, each entry holds from its value on up to " +
				"the next; without an entry `to` stays",
		},
	}
}

// pairs reads a mapping of raw values to raw values.
func (d *decoder) pairs(p *pairs) value {
	return value{Read: func(n ast.Node) {
		node, ok := n.(*ast.MappingNode)
		if !ok {
			d.errorf(n, "map must give the value of one feature for values of another, as {Masters: 14}, not %s", d.describe(n))
			return
		}
		for _, kv := range node.Values {
			from, ok1 := d.Key(kv.Key)
			to, ok2 := d.Text(kv.Value)
			if ok1 && ok2 {
				p.list, p.at = append(p.list, Pair{from, to}), append(p.at, ast.Node(kv.Key))
			}
		}
		if len(node.Values) == 0 {
			d.errorf(n, "the map is empty")
		}
	}, Form: mapOf(scalarForm)}
}

// links reads and checks the links, once the features are known.
func (d *decoder) links(n ast.Node, t *Task, features []mapping) {
	if n == nil {
		return
	}
	var places []mapping
	d.List(n, "links", func(_ int, n ast.Node) {
		var l Link
		var p pairs
		m := d.mapping(n, "a link", d.linkKeys(&l, &p))
		if m.Has("from") && m.Has("to") && d.link(&l, &p, m, t, features) {
			t.Links = append(t.Links, l)
			places = append(places, m)
		}
	})
	for i := range t.Links {
		d.checkLinkPair(t.Links[:i+1], places[i])
	}
	d.checkCircle(t.Links, places)
}

// link checks one link and puts its map into order. It says whether both features are there.
func (d *decoder) link(l *Link, p *pairs, m mapping, t *Task, features []mapping) bool {
	i, j := d.featureNamed(m.Place("from"), l.From, t), d.featureNamed(m.Place("to"), l.To, t)
	if i < 0 || j < 0 {
		return false
	}
	from, to := &t.Features[i], &t.Features[j]
	switch {
	case i == j:
		d.errorf(m.Place("to"), "%q drags itself along; from and to are two features", l.To)
		return false
	case to.Actionable:
		d.errorf(m.Place("to"), "%q is dragged along by %q and actionable, too; set actionable: false on it, or remove the link", l.To, l.From)
	case features[j].Has("mutable") && !to.Mutable:
		d.errorf(m.Place("to"), "%q never changes (mutable: false), and %q drags it along; remove one of the two", l.To, l.From)
	}
	switch {
	case m.Has("scale") == m.Has("map"):
		d.errorf(m.Node, "a link needs scale or map, one of the two")
	case m.Has("map"):
		d.checkMap(l, p, from, to)
	case l.Scale == 0:
		d.errorf(m.Place("scale"), "scale must not be 0: it is what %q changes by for each unit of %q", l.To, l.From)
	case !from.Kind.IsNumber() || !to.Kind.IsNumber():
		d.errorf(m.Place("scale"), "scale is between numbers, and %q is %s; write a map", notNumber(from, to).Name, clause(notNumber(from, to).Kind))
	}
	return true
}

func notNumber(a, b *Feature) *Feature {
	if a.Kind.IsNumber() {
		return b
	}
	return a
}

// checkMap reports entries that either feature does not know, and sorts them.
func (d *decoder) checkMap(l *Link, p *pairs, from, to *Feature) {
	ranks := map[float64]Pair{}
	for i, e := range p.list {
		rank, name, why := from.rank(e.From)
		if why == "" {
			if _, twice := ranks[rank]; twice {
				why = "it stands in the map twice"
			}
		}
		if why != "" {
			d.errorf(p.at[i], "%q is no value that %q can be mapped from: %s", e.From, l.From, clause(why))
			continue
		}
		if why := to.refuses(e.To); why != "" {
			d.errorf(p.at[i], "%q is mapped to %q, which %q cannot be: %s", e.From, e.To, l.To, clause(why))
		}
		ranks[rank] = Pair{name, e.To}
	}
	for _, r := range sortedNumbers(ranks) {
		l.Map = append(l.Map, ranks[r])
	}
}

func sortedNumbers[V any](m map[float64]V) []float64 {
	list := make([]float64, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// rank returns where a raw value stands among the feature's, and how the feature writes it; or why it is none of them.
func (f *Feature) rank(raw string) (rank float64, name, why string) {
	if why := f.refuses(raw); why != "" {
		return 0, "", why
	}
	switch f.Kind {
	case Numeric, Ordinal:
		v, _ := Number(raw)
		return v, raw, ""
	case Binary:
		if same(raw, f.One) {
			return 1, f.One, ""
		}
		return 0, f.zeroName(), ""
	}
	i := slices.IndexFunc(f.placeNames(), func(s string) bool { return same(raw, s) })
	if i < 0 {
		return 0, "", "one of: " + message.List(f.placeNames(), 20)
	}
	return float64(i), f.placeName(i), ""
}

// refuses says why a raw value is none of the feature's; "" when it is one.
func (f *Feature) refuses(raw string) string {
	if raw == "" {
		return "an empty value is a missing one"
	}
	x := make([]float32, f.Width)
	if err := f.Encode(raw, x); err != nil {
		return err.Error()
	}
	if math.IsInf(float64(x[0]), 0) {
		return "it is too large"
	}
	return ""
}

// checkLinkPair holds the last link against those before it.
func (d *decoder) checkLinkPair(links []Link, m mapping) {
	l := links[len(links)-1]
	for _, o := range links[:len(links)-1] {
		switch {
		case o.To != l.To:
		case o.From == l.From:
			d.errorf(m.Place("from"), "the link from %q to %q is given twice; keep one", l.From, l.To)
			return
		case o.Map != nil || l.Map != nil:
			d.errorf(m.Place("to"), "%q has two sources, %q and %q; only scales add up, a map is the only link to its feature", l.To, o.From, l.From)
			return
		}
	}
}

// checkCircle reports the first circle.
func (d *decoder) checkCircle(links []Link, places []mapping) {
	for i, l := range links {
		if way := wayBack(links, l.To, l.From, nil); way != nil {
			d.errorf(places[i].Node, "the links go round in a circle: %s; remove one of them", clause(message.Legible(l.From)+" -> "+strings.Join(way, " -> ")))
			return
		}
	}
}

// wayBack returns the features on a way along the links, nil when there is none.
func wayBack(links []Link, from, to string, seen []string) []string {
	if from == to {
		return []string{message.Legible(to)}
	}
	if slices.Contains(seen, from) {
		return nil
	}
	for _, l := range links {
		if l.From != from {
			continue
		}
		if way := wayBack(links, l.To, to, append(seen, from)); way != nil {
			return append([]string{message.Legible(from)}, way...)
		}
	}
	return nil
}
