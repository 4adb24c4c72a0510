package task

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each word of another library means what the reference page says: the same task as with our own key.
func TestAliasesMeanTheirKeys(t *testing.T) {
	const head = "version: 1\nfeatures:\n  - {name: a, kind: numeric, quantiles: [0, 10, 30]"
	const hot = "  - {name: b, kind: onehot, values: [x, y, z]"
	type pair struct{ theirs, ours string }
	words := map[string]bool{}
	for _, c := range []pair{
		{"step_direction: 1", "direction: increase"},
		{"step_direction: -1", "direction: decrease"},
		{"step_direction: 0", "direction: any"},
		{"step_size: 0.5, step_type: absolute", "step: 0.5"},
		{"lb: 2", "bounds: [2, null]"},
		{"ub: 9, lb: 2", "bounds: [2, 9]"},
		{"lb: 50%, ub: null", "bounds: [10, null]"},
		{"step_ub: 3, step_lb: -2", "max_increase: 3, max_decrease: 2"},
		{"step_lb: 0", "max_decrease: 0"},
		{"actionability: same-or-increase", "direction: increase"},
		{"actionability: same-or-decrease", "direction: decrease"},
		{"actionability: none", "actionable: false"},
		{"actionability: any", "actionable: true"},
		{"direction: same-or-increase", "direction: increase"},
		{"direction: same-or-decrease", "direction: decrease"},
		{"direction: none", "actionable: false"},
		{"mutability: false", "mutable: false"},
		{"mutability: false", "actionable: false"},
		{"mutability: true", "mutable: true"},
		{"permitted_range: [0, 75%]", "bounds: [0, 20]"},
		{"feature_range: [0, 5]", "bounds: [0, 5]"},
	} {
		sameTask(t, head+", "+c.theirs+"}\n"+hot+"}\n", head+", "+c.ours+"}\n"+hot+"}\n")
		words[strings.Split(c.theirs, ":")[0]] = true
		for _, w := range strings.Split(c.theirs, ", ") {
			words[strings.Split(w, ":")[0]] = true
		}
	}
	hotly := func(more string) string { return head + "}\n" + hot + more + "}\n" }
	sameTask(t, hotly(", actionability: any"), hotly(""))
	sameTask(t, hotly(", ordered: true, step_direction: -1"), hotly(", ordered: true, direction: decrease"))
	sameTask(t, hotly(", permitted_range: [x, z]"), hotly(", transitions: {x: [x, z], y: [x, z], z: [x, z]}"))
	for _, c := range []pair{
		{"permitted_range: {a: [1, 2], b: [y]}", "bounds: [1, 2]; transitions: {x: [y], y: [y], z: [y]}"},
		{"permitted_range: {a: [50%, null]}", "bounds: [10, null];"},
		{"features_to_vary: all", ";"},
		{"features_to_vary: [a]", "; actionable: false"},
		{"features_to_vary: b", "actionable: false;"},
		{"immutables: [a]", "mutable: false;"},
		{"immutable: b", "; mutable: false"},
		{"immutable_features: [b, a]", "mutable: false; mutable: false"},
		{"features_to_vary: [a]\nimmutable: [b]", "; mutable: false"},
	} {
		of := strings.Split(c.ours, ";")
		for i := range of {
			if of[i] = strings.TrimSpace(of[i]); of[i] != "" {
				of[i] = ", " + of[i]
			}
		}
		sameTask(t, head+"}\n"+hot+"}\n"+c.theirs+"\n", head+of[0]+"}\n"+hot+of[1]+"}\n")
		words[strings.Split(c.theirs, ":")[0]] = true
	}
	for _, a := range append(newDecoder("").featureAliases(&Feature{}, &percents{}), newDecoder("").taskAliases(&Task{}, &parts{})...) {
		if !words[a.word] {
			t.Errorf("%s's %q is not tried", a.library, a.word)
		}
	}
}

func sameTask(t *testing.T, theirs, ours string) {
	t.Helper()
	got, err := Parse("theirs", []byte(theirs))
	if err != nil {
		t.Error(err)
		return
	}
	if d := cmp.Diff(parse(t, ours), got); d != "" {
		t.Errorf("%s\n%s", theirs, d)
	}
}

func TestAliasesThatContradict(t *testing.T) {
	feature := func(keys string) string { return "version: 1\nfeatures: [{name: a, kind: numeric, " + keys + "}]\n" }
	for _, c := range []struct{ keys, want string }{
		{"step_direction: 1, direction: increase", `2:53: "step_direction" is another word for "direction" (actionable-recourse, reachml), which is given, too; keep one`},
		{"lb: 1, bounds: [0, 2]", `2:41: "lb" is another word for "bounds" (actionable-recourse, reachml), which is given, too; keep one`},
		{"lb: 1, feature_range: [0, 2]", `"lb" and "feature_range" say the same thing; keep one`},
		{"permitted_range: [0, 1], feature_range: [0, 2]", `"permitted_range" and "feature_range" say the same thing; keep one`},
		{"actionability: none, actionable: true", `"actionability" is another word for "actionable" (MACE)`},
		{"actionability: any, step_direction: 1", `"step_direction" and "actionability" say the same thing; keep one`},
		{"mutability: true, mutable: true", `"mutability" is another word for "mutable" (MACE)`},
		{"mutability: false, actionable: true", `it is actionable and never changes (mutable: false)`},
		{"step_direction: 2", `2:53: step_direction is 1 (increase), -1 (decrease) or 0 (both), not 2`},
		{"step_direction: up", `this must be a number, not "up"`},
		{"step_size: 0.1, step_type: relative", `steps are in raw units here: multiply step_size by the distance of the bounds and write step_type: absolute`},
		{"step_type: log", `step_type is absolute, not "log"`},
		{"step_lb: 3", `2:46: feature "a": max_decrease is a size and must be 0 or more`},
		{"lb: 3, ub: 2", `no value lies between 3 and 2`},
		{"permitted_range: 3", `this must be a pair [lo, hi]`},
		{"actionability: same", `"same" is not known here; one of: any, none, same-or-increase, same-or-decrease`},
		{"step_dirction: 1", `a feature has no key "step_dirction"`},
	} {
		wantMistake(t, feature(c.keys), c.want)
	}
	wantMistake(t, "version: 1\nfeatures: [{name: a, kind: binary, one: x, permitted_range: [0, 1]}]\n", "permitted_range means nothing for kind binary")
	wantMistake(t, "version: 1\nfeatures: [{name: a, kind: onehot, values: [x, y], permitted_range: [w]}]\n", `transitions name "w", which is not among its values`)
	wantMistake(t, "version: 1\nfeatures: [{name: a, kind: onehot, values: [x, y], actionability: same-or-increase}]\n", `a direction needs values that stand in an order`)
	const two = "version: 1\nfeatures: [{name: a, kind: numeric, actionable: true}, {name: b, kind: numeric, bounds: [0, 1], actionable: false}]\n"
	for _, c := range []struct{ keys, want string }{
		{"immutables: [c]", `3:14: there is no feature "c"; one of: a, b`},
		{"immutables: [a]", `3:14: "a" is listed as immutable, and is actionable or mutable elsewhere in this file; keep one of the two`},
		{"immutables: [b, b]", `3:17: "b" is listed twice`},
		{"features_to_vary: [a, b]", `3:23: features_to_vary lists "b", which says itself that it is not actionable; keep one of the two`},
		{"features_to_vary: []", `2:49: feature "a" says that it is actionable, and features_to_vary does not list it; keep one of the two`},
		{"permitted_range: {b: [0, 1]}", `3:19: permitted_range of "b" stands beside the feature's own limits; keep one of the two`},
		{"permitted_range: {c: [0, 1]}", `3:19: there is no feature "c"; one of: a, b`},
		{"permitted_range: [0, 1]", `permitted_range must map features to [lo, hi], as {age: [18, 65]}, not a list`},
		{"permitted_range: {a: [1%, 1]}", `the percentile "1%" needs the feature's quantiles`},
		{"immutabels: [b]", `the task file has no key "immutabels"`},
	} {
		wantMistake(t, two+c.keys+"\n", c.want)
	}
	wantMistake(t, "version: 1\nfeatures: [{name: a, kind: numeric}, {name: b, kind: numeric}]\nfeatures_to_vary: [a]\nimmutables: [a]\n", `4:14: "a" is listed as immutable`)
	// What a link drags along is mutable, and an immutable feature is not dragged.
	wantMistake(t, "version: 1\nfeatures: [{name: a, kind: numeric}, {name: b, kind: numeric}]\nimmutables: [b]\nlinks: [{from: a, to: b, scale: 1}]\n", `"b" never changes (mutable: false)`)
	task := parse(t, "version: 1\nfeatures: [{name: a, kind: numeric}, {name: b, kind: numeric}]\nfeatures_to_vary: [a]\nlinks: [{from: a, to: b, scale: 1}]\n")
	if !task.Features[1].Mutable || task.Features[1].Actionable {
		t.Errorf("%+v", task.Features[1])
	}
}
