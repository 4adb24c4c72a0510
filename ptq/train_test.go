package ptq

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
	"cfq/ptq/taskmodel"
	"cfq/qat"
	"cfq/qat/cohort"
	"cfq/quant"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

func short(o Recipe) Recipe {
	o.Train.Steps, o.Train.Batch = 32, 16
	if o.Method == "cfq-qat" {
		o.Refine.Rounds = 0
	}
	return o
}

// example is people of the loans example of whom few are refused, since it is finding recourse, in each round, that
// takes the time.
type example struct {
	g      *graph.Model
	m      *onnxio.Model
	tk     *task.Task
	people *task.People
}

func fortunate(t *testing.T, all, refused int) *example {
	t.Helper()
	g, tk, people := loans(t, "train.csv")
	var rows []int
	for i, v := range marginsOf(t, g, tk, people.X) {
		if v <= 0 {
			if refused--; refused < 0 {
				continue
			}
		}
		if rows = append(rows, i); len(rows) == all {
			break
		}
	}
	return &example{g, loaded(t, g), tk, people.Subset(rows)}
}

func (f *example) quantize(t *testing.T, o Recipe, run Run) *Result {
	t.Helper()
	return quantized(t, f.g, f.tk, f.people, o, run)
}

func checkTraining(t *testing.T, r *Result, people, steps int, objective qat.Objective) {
	t.Helper()
	tr := r.Training
	if tr == nil || tr.Objective != objective || tr.Steps != steps || len(tr.Rounds) != 16 {
		t.Fatalf("training %+v", tr)
	}
	for i, round := range tr.Rounds {
		if round.Steps != steps*(i+1)/16 || !(round.Loss >= 0) || !(round.VD >= 0 && round.VD <= 1) || !(round.RVD >= 0 &&
			round.RVD <= 1) {
			t.Errorf("round %d: %+v", i, round)
		}
	}
	doc := must.Get(qat.FindObjective(objective))(t)
	if (tr.People > 0) != doc.Recourse || tr.People > 8 || !(tr.VD >= 0 && tr.VD <= 1) || !(tr.RVD >= 0 && tr.RVD <= 1) {
		t.Errorf("%+v", tr)
	}
	if len(r.Calibrated) != people || !slices.IsSorted(r.Calibrated) || r.Calibrated[people-1] != people-1 {
		t.Errorf("%d of %d people are recorded", len(r.Calibrated), people)
	}
	must.Same(t, strconv.Itoa(steps), r.Recipe["train.steps"])
	for _, l := range r.Plan.Layers {
		if len(l.Codes) == 0 || len(l.Bias) == 0 {
			t.Errorf("layer %s: the plan has %d codes and %d biases", l.Node, len(l.Codes), len(l.Bias))
		}
	}
}

func losses(r *Result) (sum float64) {
	for _, round := range r.Training.Rounds {
		sum += float64(round.Loss)
	}
	return sum
}

// A model trained for promises that were made is within its budget and the same for any number of workers; its plan
// writes the bytes again. Rays lead to the promises that there are; all people are on record, also those that were not
// calibrated on.
func TestTrained(t *testing.T) {
	t.Parallel()
	f := fortunate(t, 60, 4)
	promises := promisesTo(t, f.m, f.tk, f.people)
	found, kept := 0, 0
	for i, a := range promises {
		if a.Status != recourse.Found {
			continue
		}
		if found++; found%3 == 0 {
			promises[i] = recourse.Action{}
		} else {
			kept++
		}
	}
	o := mustRecipe("cfq-qat", "allocate.budget=3", "allocate.cost=bits", "calibrate.rows=30", "refine.rounds=0")
	o.Train.Optimizer = qat.Optimizer{Steps: 96, Batch: 32, LearningRate: 4e-3, Seed: 1}
	r := f.quantize(t, o, Run{Promises: promises})
	if long() && !bytes.Equal(r.Model, f.quantize(t, o, Run{Workers: 2, Promises: promises}).Model) {
		t.Error("two workers wrote other bytes than one")
	}
	checkTraining(t, r, 60, 96, qat.Distil)
	o.Train.LearningRate = 1e-12 // each round has other points: only what stays as it is can be compared with
	still := f.quantize(t, o, Run{Promises: promises})
	if got, most := losses(r), 0.8*losses(still); !(got < most) {
		t.Errorf("the losses of the rounds add up to %v, want less than %v", got, most)
	}
	if !r.Promised || r.Training.People != kept || kept == 0 || kept == found {
		t.Errorf("trained on the recourse of %d people, %d of %d have a promise", r.Training.People, kept, found)
	}
	written := marginsOf(t, must.Get(codec.Read(r.Model, ""))(t), f.tk, f.people.X)
	differ := 0.0
	for i, v := range marginsOf(t, f.g, f.tk, f.people.X) {
		if v > 0 != (written[i] > 0) {
			differ++
		}
	}
	must.Same(t, differ/60, r.Training.Disagreement)
	if before := still.Training; before.Disagreement != before.DisagreementBefore {
		t.Errorf("without a change %v of the rows are decided otherwise, %v before", before.Disagreement,
			before.DisagreementBefore)
	}
	if r.Bits > 3 || r.Factual >= 60 || r.Refined != nil {
		t.Errorf("%v bits, calibrated on %d rows, refined %v", r.Bits, r.Factual, r.Refined)
	}
	var text bytes.Buffer
	must.Do(t, WritePlan(&text, r))
	again := must.Get(FromPlan(t.Context(), f.m, readPlan(t, text.Bytes()), Run{}))(t)
	if !bytes.Equal(r.Model, again.Model) || again.Training != nil {
		t.Errorf("the plan writes %d bytes, want those %d of the run; training %v", len(again.Model), len(r.Model),
			again.Training)
	}
}

// Training sees nobody whom the written model is judged by, and with training and without it is judged by the same.
func TestTrainingHoldsOut(t *testing.T) {
	t.Parallel()
	g, tk, people := loans(t, "train.csv")
	people = few(people, 600)
	settings := []string{"calibrate.rows=100", "refine.rounds=0"}
	plain := calibrated(t, g, tk, people, mustRecipe(CFPTQ, settings...), Run{})
	c := calibrated(t, g, tk, people, mustRecipe("lsq", settings...), Run{})
	must.Do(t, c.openSource(t.Context()))
	held := must.Get(plain.heldOut(t.Context()))(t)
	must.Same(t, held.X, must.Get(c.heldOut(t.Context()))(t).X)
	all := append(slices.Clone(held.people), c.sample.trainedRows...)
	slices.Sort(all)
	must.Same(t, task.AllRows(people.N), all)
	if len(held.people) < minPoints || len(c.source.Margins) != people.N-len(held.people) {
		t.Errorf("%d people are held out, %d trained on", len(held.people), len(c.source.Margins))
	}
}

// Every trained method and every objective makes a model of its own that runs as planned.
func TestTrainedMethods(t *testing.T) {
	t.Parallel()
	f, files := fortunate(t, 24, 1), map[string]string{}
	for name, o := range map[string]Recipe{
		"lsq":       mustRecipe("lsq"),
		"pact":      mustRecipe("pact"),
		"paper":     mustRecipe("cfq-qat-paper"),
		"matching":  mustRecipe("cfq-qat-paper", "train.objective=match"),
		"learned":   mustRecipe("cfq-qat", "allocate.rule=learned"),
		"mixed-qat": mustRecipe("mixed-qat"),
		"validity":  mustRecipe("cfq-qat", "train.objective=validity"),
		"hinge":     mustRecipe("cfq-qat", "train.objective=hinge"),
		"match":     mustRecipe("cfq-qat", "train.objective=match"),
		"group":     mustRecipe("cfq-qat", "train.objective=group"),
		"kd":        mustRecipe("cfq-qat", "train.objective=kd"),
		"task":      mustRecipe("cfq-qat", "train.objective=task"),
		"integers":  mustRecipe("lsq", "write.compute=integer"),
		"trained":   mustRecipe("ptq", "train.objective=distil", "round.scales=per-tensor"),
	} {
		if !slices.Contains([]string{"learned", "pact"}, name) && !long() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			o.Allocate.Budget = 3
			r := f.quantize(t, short(o), Run{})
			checkTraining(t, r, 24, 32, o.Train.Objective)
			if learned := o.Allocate.Rule == allocatorLearned; learned != (r.Learned != nil) ||
				learned && (r.Learned.Steps != 8 || r.Bits > o.Allocate.Budget || r.Layers[0].MarginError != nil) {
				t.Errorf("learned widths %+v, %v bits", r.Learned, r.Bits)
			}
			if other, ok := files[string(r.Model)]; ok {
				t.Errorf("the model is that of %s", other)
			}
			files[string(r.Model)] = name
			if onIntegers := o.Write.Compute == computeInteger; onIntegers != (r.Plan.Input != nil) {
				t.Errorf("the input's grid is %v", r.Plan.Input)
			}
		})
	}
}

// Rows of 2 bits with negative scales go into training and come out of it as they are.
func TestTrainedMirrored(t *testing.T) {
	t.Parallel()
	f := fortunate(t, 60, 4)
	settings := []string{"allocate.budget=2", "refine.rounds=0"}
	want := f.quantize(t, mustRecipe(CFPTQ, settings...), Run{})
	o := mustRecipe("cfq-qat", settings...)
	o.Train.Optimizer = qat.Optimizer{Steps: 32, Batch: 32, LearningRate: 1e-12, Seed: 1}
	r := f.quantize(t, o, Run{})
	negative := 0
	for i, l := range r.Plan.Layers {
		must.Same(t, want.Plan.Layers[i].Codes, l.Codes)
		for k, s := range l.Scales {
			if s < 0 {
				negative++
			}
			if planned := want.Plan.Layers[i].Scales[k]; math.Abs(float64(s/planned)-1) > 1e-3 {
				t.Errorf("layer %s: the scale %v has become %v", l.Node, planned, s)
			}
		}
	}
	if negative == 0 {
		t.Error("no row is mirrored")
	}
	must.Same(t, r.Training.DisagreementBefore, r.Training.Disagreement)
}

func codesOf(r *Result) string {
	var b strings.Builder
	for _, l := range r.Plan.Layers {
		fmt.Fprintln(&b, l.Codes, l.Scales, l.Bias)
	}
	return b.String()
}

// Every setting of the teacher reaches training: what is calibrated is the same, and the trained model another one.
func TestTeacherOfTraining(t *testing.T) {
	t.Parallel()
	refused := 1
	if long() {
		refused = 6 // a sample needs people to choose from
	}
	f := fortunate(t, 20, refused)
	files := map[string]string{}
	for name, change := range map[string]func(o *Recipe){
		"none":   func(*Recipe) {},
		"steps":  func(o *Recipe) { o.Calibrate.Teacher, o.Calibrate.TeacherSteps = teacherPaper, 1 },
		"noise":  func(o *Recipe) { o.Calibrate.TeacherNoise = 0.3 },
		"seed":   func(o *Recipe) { o.Calibrate.TeacherNoise, o.Calibrate.TeacherSeed = 0.3, 2 },
		"sample": func(o *Recipe) { o.Calibrate.TeacherSample = 3 },
		"paper":  func(o *Recipe) { o.Calibrate.Teacher = teacherPaper },
	} {
		if name != "none" && name != "noise" && !long() {
			continue
		}
		o := short(mustRecipe("ptq", "allocate.budget=3", "train.objective=validity"))
		change(&o)
		r := f.quantize(t, o, Run{})
		if other, ok := files[codesOf(r)]; ok {
			t.Errorf("%s: the model is that of %s", name, other)
		}
		files[codesOf(r)] = name
	}
}

// The sweep tries each eta on fewer people and steps, takes the one that is best for the others, and trains with it as
// if it had been given.
func TestEtaSweep(t *testing.T) {
	t.Parallel()
	f := fortunate(t, 40, 1)
	o := short(mustRecipe("ptq", "allocate.budget=2", "train.objective=validity", "train.eta-sweep=true"))
	o.Train.LearningRate = 0.01
	r := f.quantize(t, o, Run{})
	var tried []float64
	var best cohort.Trial
	for i, trial := range r.Training.Trials {
		tried = append(tried, trial.Eta)
		if !(trial.Accuracy >= 0 && trial.Accuracy <= 1) || trial.Accuracy == 1 && trial.VD > 1 {
			t.Errorf("%+v", trial)
		}
		if i == 0 || trial.Accuracy > best.Accuracy || trial.Accuracy == best.Accuracy && trial.VD < best.VD {
			best = trial
		}
	}
	if !slices.Equal(tried, []float64{0.25, 0.5, 1, 2}) || r.Training.Eta != best.Eta {
		t.Errorf("eta %v of %+v", r.Training.Eta, r.Training.Trials)
	}
	o.Train.EtaSweep, o.Train.Weights = false, qat.Weights{"eta": best.Eta}
	if given := f.quantize(t, o, Run{}); codesOf(given) != codesOf(r) || given.Training.Trials != nil {
		t.Error("with eta given: another model")
	}
}

// Groups of people can be in a column that no model sees: the checkpoint of a training with others is an error.
func TestCheckpointKnowsGroups(t *testing.T) {
	t.Parallel()
	f := fortunate(t, 20, 1)
	o := short(mustRecipe("lsq", "train.objective=group"))
	run := Run{Checkpoint: filepath.Join(t.TempDir(), "c")}
	for _, shift := range []int32{0, 1} {
		group := task.Subgroup{Feature: "region", Values: []string{"north", "south"}}
		for i := range f.people.N {
			group.Codes = append(group.Codes, int32(i/7)%2*(1-shift)+int32(i)%2*shift)
		}
		f.people.Subgroups = []task.Subgroup{group}
		if _, err := Quantize(t.Context(), f.m, f.tk, f.people, o, run); (err == nil) != (shift == 0) {
			t.Errorf("groups shifted by %d: %v", shift, err)
		}
	}
}

// A training that is cancelled goes on from its checkpoint, and ends with the bytes of one in one piece.
func TestTrainingGoesOn(t *testing.T) {
	t.Parallel()
	f := fortunate(t, 20, 1)
	o := short(mustRecipe("lsq"))
	want := f.quantize(t, o, Run{})
	given := Run{Checkpoint: filepath.Join(t.TempDir(), "checkpoint")}
	calibrated := false
	run := func(o Recipe, stop int) (*Result, []int, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var rounds []int
		given := given
		given.Progress = func(e eval.Event) {
			if calibrated = calibrated || strings.HasPrefix(e.Stage, "statistics"); !strings.HasPrefix(e.Stage, "train: ") {
				return
			}
			if rounds = append(rounds, e.Done); e.Done == stop {
				cancel()
			}
		}
		r, err := Quantize(ctx, f.m, f.tk, f.people, o, given)
		return r, rounds, err
	}
	if r, rounds, err := run(o, 6); !errors.Is(err, context.Canceled) || r != nil || len(rounds) != 6 {
		t.Fatalf("stopped after the rounds %v: %v, %v", rounds, r, err)
	}
	var input *InputError
	if _, _, err := run(o, 8); errors.As(err, &input) {
		t.Errorf("cancelling is an error of the input: %v", err)
	}
	got, rounds, err := run(o, 0)
	must.Do(t, err)
	if !bytes.Equal(want.Model, got.Model) || rounds[0] != 9 {
		t.Errorf("other bytes, or begun at round %d", rounds[0])
	}
	must.Same(t, 16, len(got.Training.Rounds))
	// Another setting is another training, which is known before any work.
	o.Train.Seed, calibrated = 5, false
	if _, rounds, err := run(o, 0); !errors.As(err, &input) || rounds != nil || calibrated ||
		!strings.Contains(err.Error(), given.Checkpoint) {
		t.Errorf("another seed begins at round %v: %v", rounds, err)
	}
	// Several trainings cannot have one checkpoint.
	o.Target = &Target{VD: 0.1, Margin: 0.1, HoldOut: 0.3, Confidence: 0.95, Sample: 1}
	_, err = Smallest(t.Context(), f.m, f.tk, f.people, o, given)
	wantInputError(t, err, "checkpoint")
}

// Objectives of labels need them, for two classes.
func TestTrainingNeedsLabels(t *testing.T) {
	t.Parallel()
	f := fortunate(t, 20, 1)
	f.people.Labels = nil
	for _, doc := range qat.Objectives() {
		if doc.Name == qat.Distil || !doc.Quantized {
			continue // it looks at no label anywhere, and takes long; or it is not for quantized networks
		}
		o := short(mustRecipe("cfq-qat", fmt.Sprint("train.objective=", doc.Name)))
		_, err := Quantize(t.Context(), f.m, f.tk, f.people, o, Run{})
		if doc.Labels {
			wantInputError(t, err, string(doc.Name))
		} else {
			must.Do(t, err)
		}
	}
}

func TestTrainingErrors(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	for _, method := range []string{"cfq-qat", "lsq", "mixed-qat"} {
		_, err := OpenFleet(t.Context(), loaded(t, m), tk, few(people, 40),
			Draws{Recipe: short(mustRecipe(method)), Models: 1, Seed: 1}, Run{})
		wantInputError(t, err, method)
	}
	noisy := mustRecipe("cfq-qat", "train.objective=validity", "calibrate.teacher-noise=0.1")
	promised := Run{Promises: make([]recourse.Action, 40)}
	_, err := Quantize(t.Context(), loaded(t, m), tk, few(people, 40), noisy, promised)
	wantInputError(t, err, "promises are kept as they are")
	alike := few(people, 40)
	alike.Subgroups = nil
	by := short(mustRecipe("cfq-qat", "train.objective=group"))
	_, err = Quantize(t.Context(), loaded(t, m), tk, alike, by, Run{})
	wantInputError(t, err, "subgroup: true")
	o := short(mustRecipe("lsq"))
	o.Train.LearningRate = 1e9
	_, err = Quantize(t.Context(), loaded(t, m), tk, few(people, 40), o, Run{})
	if !errors.Is(err, qat.ErrDiverged) {
		t.Errorf("a rate without sense: %v", err)
	}
}

func promisesTo(t *testing.T, m *onnxio.Model, tk *task.Task, people *task.People) []recourse.Action {
	t.Helper()
	c := must.Get(taskmodel.Open(m, tk, 1))(t)
	defer c.Close()
	set := must.Get(constraint.Compile(tk))(t)
	return must.Get(recourse.Solve(t.Context(), c, set, people.X, recourse.SolveOptions{Margin: 0.1, Workers: 1}))(t)
}

// Pruned weights, those with the least magnitude of all layers or with the least effect on margins at recourse points,
// are zero in the written file.
func TestPruned(t *testing.T) {
	t.Parallel()
	f := fortunate(t, 30, 1)
	canonical, _, err := pass.Canonical(f.g, nil)
	must.Do(t, err)
	layers := must.Get(quant.FindLayers(canonical))(t)
	var magnitudes []float64
	for _, l := range layers {
		for _, w := range l.W {
			magnitudes = append(magnitudes, math.Abs(float64(w)))
		}
	}
	slices.SortFunc(magnitudes, cmp.Compare)
	limit := magnitudes[len(magnitudes)*3/10]
	var files [][]byte
	for _, by := range []string{pruneMagnitude, pruneSensitivity} {
		r := f.quantize(t, mustRecipe("prune-qat", "train.sparsity=0.3", "train.prune-by="+by, "train.steps=32"), Run{})
		files = append(files, r.Model)
		if r.Recipe["train.sparsity"] != "0.3" || (r.Recipe["train.prune-by"] == by) != (by == pruneSensitivity) {
			t.Errorf("recipe %v", r.Recipe)
		}
		s := r.Sparsity
		if s == nil || s.By != by || s.Pruned != 0.3 || s.Zero < 0.2999 || s.Zero > 0.5 {
			t.Errorf("%+v of %d bytes", s, r.Bytes)
		}
		zero := 0
		for i, l := range r.Plan.Layers {
			for k, q := range l.Codes {
				if q == 0 {
					zero++
				} else if by == pruneMagnitude && math.Abs(float64(layers[i].W[k])) < limit {
					t.Errorf("weight %d of %s, %v, is pruned and has the code %d", k, l.Node, layers[i].W[k], q)
				}
			}
		}
		must.Near(t, s.Zero, float64(zero)/float64(len(magnitudes)), 1e-9)
	}
	if slices.Equal(files[0], files[1]) {
		t.Error("the rule makes no difference")
	}
}
