package task

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
)

// alias is a key under the name that another recourse library has for it, so that its users need not translate what they have.
type alias struct {
	word, library string
	doc           string   // what it means here, in Markdown
	covers        []string // the keys that it says something about, which may not stand beside it; "bounds lo" is a side of bounds
	form          func() schema
	apply         func(n ast.Node, m mapping)
}

// The libraries, by the names of their repositories.
const (
	libAR     = "actionable-recourse"
	libReach  = "reachml"
	libARs    = libAR + ", " + libReach
	libMACE   = "MACE"
	libDiCE   = "DiCE"
	libCARLA  = "CARLA"
	libAlibi  = "alibi"
	immutable = "these features never change, not even as what a link drags along"
)

func (d *decoder) featureAliases(f *Feature, b *percents) []alias {
	number := func(dst *float64, key string) func(ast.Node, mapping) {
		return func(n ast.Node, m mapping) {
			d.number(dst).Read(n)
			m.At[key] = n
		}
	}
	side := func(i int) func(ast.Node, mapping) {
		return func(n ast.Node, m mapping) {
			d.side(n, i, &f.Bounds, b)
			m.At["bounds"] = n
		}
	}
	return []alias{
		{
			"step_direction", libARs, "`direction`: 1 is `increase`, -1 `decrease`, 0 `any`",
			[]string{"direction"},
			func() schema { return schema{"enum": []int{-1, 0, 1}} },
			func(n ast.Node, m mapping) { d.stepDirection(n, f, m) },
		},
		{"step_size", libARs, "`step`, in raw units", []string{"step"}, d.number(&f.Step).Above0().Form, number(&f.Step, "step")},
		{
			"step_type", libAR, "how `step_size` is meant: `absolute` is the only way here",
			[]string{"step_type"},
			oneOf([]string{"absolute"}),
			func(n ast.Node, _ mapping) { d.stepType(n) },
		},
		{"lb", libARs, "the lower side of `bounds`", []string{"bounds lo"}, sideForm, side(0)},
		{"ub", libARs, "the upper side of `bounds`", []string{"bounds hi"}, sideForm, side(1)},
		{"step_ub", libReach, "`max_increase`", []string{"max_increase"}, d.number(&f.MaxIncrease).From0().Form, number(&f.MaxIncrease, "max_increase")},
		{
			"step_lb", libReach, "`max_decrease`, as a number not above 0",
			[]string{"max_decrease"},
			d.number(&f.MaxDecrease).With("maximum", 0).Form,
			func(n ast.Node, m mapping) {
				number(&f.MaxDecrease, "max_decrease")(n, m)
				f.MaxDecrease = 0 - f.MaxDecrease
			},
		},
		{
			"actionability", libMACE, "`same-or-increase` and `same-or-decrease` are a `direction`, `none` is `actionable: false`, `any` neither; " +
				"also as a value of `direction`",
			[]string{"actionable", "direction"},
			oneOf(actionabilities()),
			func(n ast.Node, m mapping) { d.actionability(n, f, m) },
		},
		{
			"mutability", libMACE, "`mutable`",
			[]string{"mutable"},
			flagForm,
			func(n ast.Node, m mapping) {
				d.flag(&f.Mutable).Read(n)
				m.At["mutable"] = n
			},
		},
		{
			"permitted_range", libDiCE, "`bounds`; of a one-hot feature, the list of values that it may become, as `transitions` from every one",
			[]string{"bounds", "transitions"},
			anyOf(pairForm, config.ListOf(scalarForm)),
			func(n ast.Node, m mapping) { d.permit(n, f, b, m) },
		},
		{
			"feature_range", libAlibi, "`bounds`, in raw units",
			[]string{"bounds"},
			pairForm,
			func(n ast.Node, m mapping) {
				d.span(&f.Bounds, b).Read(n)
				m.At["bounds"] = n
			},
		},
	}
}

func (d *decoder) taskAliases(t *Task, p *parts) []alias {
	fixed := func(word, library string) alias {
		return alias{
			word, library, "`mutable: false`: " + immutable,
			[]string{word},
			oneOrMore(scalarForm),
			func(n ast.Node, _ mapping) { d.immutable(n, t, p) },
		}
	}
	return []alias{
		{
			"permitted_range", libDiCE, "`bounds` by the names of features, as `{age: [18, 65]}`; of a one-hot feature, the list of values that it may become",
			[]string{"permitted_range"},
			mapOf(anyOf(pairForm, config.ListOf(scalarForm))),
			func(n ast.Node, _ mapping) { d.permitAll(n, t, p) },
		},
		{
			"features_to_vary", libDiCE, "names of the features that are `actionable`, as all others are not; or `all`",
			[]string{"features_to_vary"},
			oneOrMore(scalarForm), func(n ast.Node, _ mapping) { d.vary(n, t, p) },
		},
		fixed("immutables", libCARLA), fixed("immutable", libCARLA), fixed("immutable_features", libAlibi),
	}
}

func isAlias(aliases []alias, word string) bool {
	return slices.ContainsFunc(aliases, func(a alias) bool { return a.word == word })
}

// applyAliases reads the words of other libraries, and reports those that stand beside a key or another word for the same thing.
func (d *decoder) applyAliases(m mapping, aliases []alias) {
	var own []string
	for _, word := range sortedKeys(m.At) {
		if !isAlias(aliases, word) {
			own = append(own, word)
		}
	}
	var given []alias
	for _, a := range aliases {
		if !m.Has(a.word) {
			continue
		}
		for _, key := range own {
			if overlap(a.covers, []string{key}) {
				d.errorf(m.At[a.word], "%q is another word for %q (%s), which is given, too; keep one", a.word, key, clause(a.library))
			}
		}
		for _, o := range given {
			if overlap(a.covers, o.covers) {
				d.errorf(m.At[a.word], "%q and %q say the same thing; keep one", o.word, a.word)
			}
		}
		given = append(given, a)
	}
	for _, a := range given {
		a.apply(m.At[a.word], m)
	}
}

// overlap says whether two lists of keys have one in common, or one that the other has a side of.
func overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y || strings.HasPrefix(x, y+" ") || strings.HasPrefix(y, x+" ") {
				return true
			}
		}
	}
	return false
}

// aliasTable is the table of the reference page.
func aliasTable(b *strings.Builder) {
	d := newDecoder("")
	rows := func(where string, aliases []alias) {
		for _, a := range aliases {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", a.word, a.library, where, a.doc)
		}
	}
	fmt.Fprint(b, "| word | library | stands | means |\n|---|---|---|---|\n")
	rows("in a feature", d.featureAliases(&Feature{}, &percents{}))
	rows("in the task file", d.taskAliases(&Task{}, &parts{}))
}
