package ptq

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/config"
	"cfq/internal/must"
	"cfq/qat"
)

func TestMethodsAreRecipes(t *testing.T) {
	t.Parallel()
	for _, m := range Methods() {
		r := m.Recipe
		must.Do(must.In(t, m.Name), r.Check())
		must.Do(must.In(t, m.Name), r.Set("allocate.budget=3.5", "write.keep-metadata=true", "target.vd=0.05"))
		text := must.Get(json.Marshal(r))(t)
		again := must.Get(ParseRecipe("r.json", text))(must.In(t, m.Name))
		must.Same(must.In(t, m.Name), r, again)
	}
}

// Every setting has a place of its own, says what it may be, and refuses all else.
func TestKeysHavePlaces(t *testing.T) {
	t.Parallel()
	full := mustRecipe("cfq-qat", "train.objective=validity", "target.vd=0.1")
	steps := keyOf(t, "train.steps")
	must.Same(t, [2]float64{qat.Rounds, qat.MostSteps}, [2]float64{steps.low, steps.high})
	texts := map[string]string{}
	for _, k := range Keys() {
		texts[k.Name] = k.Get(&full)
		if k.Doc == "" || k.Want == "" {
			t.Errorf("%s is not described", k.Name)
		}
		free := k.Name == "allocate.keep-float"
		for _, bad := range []string{"none of these", "NaN", ""} {
			if err := k.Check(bad); err == nil && !(free && bad != "") {
				t.Errorf("%s may be %q", k.Name, bad)
			}
		}
		for _, c := range k.Choices {
			must.Do(t, k.Check(c.Name))
		}
	}
	for _, setting := range []string{
		"calibrate.rows=7", "calibrate.points=factual", "calibrate.teacher-noise=0.5", "allocate.budget=2.5",
		"allocate.cost=bits", "allocate.keep-float=/a,/b", "round.rule=nearest", "refine.rounds=0", "train.steps=64",
		"train.eta=0", "train.seed=9", "train.eta-sweep=true", "target.margin=0.2",
		"write.full-range=true",
	} {
		r := full
		if err := r.Set(setting); err != nil {
			t.Error(err)
			continue
		}
		key, value, _ := strings.Cut(setting, "=")
		for _, k := range Keys() {
			want := texts[k.Name]
			if k.Name == key {
				want = value
			}
			must.Same(must.In(t, setting), want, k.Get(&r))
			must.Same(must.In(t, setting), texts[k.Name], k.Get(&full))
		}
	}
}

func TestSettingsFollow(t *testing.T) {
	t.Parallel()
	must.Same(t, bitWidthsPerLayer, mustRecipe(CFPTQ, "allocate.rule=paper").Allocate.Unit)
	must.Same(t, costBits, mustRecipe(CFPTQ, "allocate.rule=paper").Allocate.Cost)
	must.Same(t, computeInteger, mustRecipe(CFPTQ, "allocate.cost=bops").Write.Compute)
	r := mustRecipe("cfq-qat", "train.objective=match")
	must.Same(t, teacherPaper, r.Calibrate.Teacher)
	r = mustRecipe("cfq-qat", "train.objective=none")
	if d := cmp.Diff(mustRecipe(CFPTQ).Texts(), r.Texts()); r.Train != nil || d == "" {
		t.Errorf("training %+v", r.Train)
	}
}

func TestSettingMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method   string
		settings string
		want     string
	}{
		{CFPTQ, "allocate.budget", `"allocate.budget" is not key=value`},
		{CFPTQ, "allocate.bugdet=3", `there is no setting "allocate.bugdet"; did you mean "allocate.budget"?`},
		{CFPTQ, "allocate.budget=3 allocate.budget=4", "allocate.budget is set twice"},
		{CFPTQ, "allocate.budget=1.5", `invalid value "1.5" for allocate.budget: want 2 to 8`},
		{CFPTQ, "allocate.budget=nan", `invalid value "nan"`},
		{CFPTQ, "allocate.cost=joules", "want bits, bytes or bops"},
		{"ptq", "allocate.cost=bytes", "allocate.cost bytes needs allocate.rule exact or learned"},
		{CFPTQ, "allocate.keep-float=", "invalid value"},
		{CFPTQ, "write.act-bits=9 write.compute=integer", "want 2 to 8"},
		{CFPTQ, "write.act-bits=4", "there may be no quantized activations"},
		{CFPTQ, "round.scales=per-tensor allocate.unit=per-row", "needs round.scales per-channel"},
		{CFPTQ, "allocate.rule=learned", "needs a train.objective"},
		{CFPTQ, "target.margin=0.2", "of use with target.vd only"},
		{CFPTQ, "calibrate.teacher-step=0.5", "it is for teacher paper"},
		{"ptq", "calibrate.teacher-steps=5", "the method ptq does not look at recourse; cf-ptq does"},
		{"ptq", "train.steps=64", "train.steps: nothing is trained without an objective"},
		{CFPTQ, "train.sparsity=0.5", "nothing is trained without an objective"},
		{"cfq-qat", "train.steps=3", "want 16 to"},
		{"cfq-qat", "train.eta=0.5", "train.eta: the objective distil has none"},
		{"cfq-qat", "train.eta=-2", "want 0 or more"},
		{"cfq-qat", "train.eta-sweep=true", "the objective distil has no teacher actions"},
		{"cfq-qat", "train.objective=kd train.eta-sweep=true", "kd has no"},
		{"cfq-qat", "train.objective=validity train.eta=2 train.eta-sweep=true", "train.eta is 2"},
		{"cfq-qat", "train.objective=destil", `did you mean "distil"?`},
		{"cfq-qat", "train.lambda=1", "allocate.rule=learned has one"},
		{"lsq", "train.prune-by=magnitude", "no weights are pruned"},
		{"prune-qat", "train.sparsity=1", "want 0 or a share below 1"},
		{"pact", "write.compute=float", "learns the ranges of activations"},
		{"cfptq", "", `invalid value "cfptq" for method: want cf-ptq,`},
	} {
		r, err := NewRecipe(c.method, strings.Fields(c.settings)...)
		if err == nil {
			err = r.Check()
		}
		wantInputError(t, err, c.want)
	}
}

func TestParseRecipe(t *testing.T) {
	t.Parallel()
	r, err := ParseRecipe("r.yaml", []byte("method: cfq-qat\ntrain.eta: 0.5\nallocate.keep-float: [/a, /b]\n"+
		"train.objective: validity\norigin.model: 12ab\n"))
	want := mustRecipe("cfq-qat", "train.objective=validity", "train.eta=0.5", "allocate.keep-float=/a,/b")
	must.Do(t, err)
	must.Same(t, want, r)
	for text, want := range map[string]string{
		"": "r.yaml: the recipe is empty; it needs a method",
		"method: cf-ptq\nallocate.bugdet: 3\ncalibrate.rows: many\n": `r.yaml:2:1: a recipe has no key "allocate.bugdet"; ` +
			`did you mean "allocate.budget"?` + "\n" +
			`r.yaml:3:17: invalid value "many" for calibrate.rows: want 0, for all, or more`,
		"calibrate.rows: 1\ncalibrate.rows: 2\n":     "r.yaml:2:1: ",
		"method: cf-pt\n":                            `r.yaml:1:9: invalid value "cf-pt" for method`,
		"version: 3\n":                               "r.yaml:1:10: this is a recipe of version 3, and this program reads",
		"method: ptq\ntrain.steps: 64\n":             "r.yaml:2:14: train.steps: nothing is trained",
		"method: cfq-qat\ntrain.learning-rate: .nan": `r.yaml:2:22: invalid value ".nan"`,
	} {
		_, err := ParseRecipe("r.yaml", []byte(text))
		var found config.Errors
		if !errors.As(err, &found) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
