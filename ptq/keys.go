package ptq

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"cfq/calib"
	"cfq/internal/config"
	"cfq/internal/message"
	"cfq/qat"
	"cfq/quant/qdq"
)

// Key is one setting of a recipe. Checks, help, recipe files, recipes in models and docs/method.md are made from the
// table that Keys returns.
type Key struct {
	Name, Doc string
	Source    string   // what the paper calls it
	Choices   []Choice // its values; nil where Want describes them
	Want      string

	at     func(*Recipe) any    // a pointer to the value
	lo, hi float64              // bounds of a number; hi 0: none
	unused func(*Recipe) string // why it has no effect on a recipe; "" where it has one
}

// Choice is a value that a setting can have.
type Choice struct{ Name, Doc string }

// Get returns the text of a recipe's value; "" where the recipe does not have it.
func (k *Key) Get(r *Recipe) string {
	if k.untrained(r) || k.untargeted(r) {
		return ""
	}
	switch v := k.at(r).(type) {
	case *[]string:
		return strings.Join(*v, ",")
	case **float64: // a weight of the objective
		if *v == nil {
			return fmt.Sprint(qat.DefaultWeight(k.Source))
		}
		return fmt.Sprint(**v)
	default:
		return fmt.Sprint(reflect.ValueOf(v).Elem())
	}
}

// untrained reports whether the key is of recipes that train, and this one does not.
func (k *Key) untrained(r *Recipe) bool {
	return r.Train == nil && strings.HasPrefix(k.Name, "train.") && k.Name != "train.objective"
}

func (k *Key) untargeted(r *Recipe) bool {
	return r.Target == nil && strings.HasPrefix(k.Name, "target.")
}

// Distinguishes reports whether methods have different choices of a key.
func Distinguishes(k Key) bool {
	values := map[string]bool{}
	for _, m := range Methods() {
		if text := k.Get(&m.Recipe); text != "" {
			values[text] = true
		}
	}
	return len(values) > 1 && (k.Choices != nil || k.Name == "refine.rounds")
}

// Check reports a text that is not a value of the key.
func (k *Key) Check(text string) error {
	r := counterfactual().trained(qat.Distil)
	r.Target = &Target{}
	return k.set(&r, text)
}

// set gives the key of a recipe the value that a text stands for. train.objective makes a recipe one that trains,
// and target.vd one that searches for a budget.
func (k *Key) set(r *Recipe, text string) error {
	names := Names(k.Choices)
	switch {
	case k.untrained(r):
		return fmt.Errorf("%s: nothing is trained without an objective; train.objective=%s trains", k.Name, qat.Distil)
	case k.untargeted(r) && k.Name != "target.vd":
		return fmt.Errorf("%s: it is of use with target.vd only", k.Name)
	case k.untargeted(r):
		r.Target = &Target{Margin: 0.1, HoldOut: 0.3, Confidence: 0.95, Sample: 4000, Seed: 1}
	}
	switch {
	case k.Choices != nil && !slices.Contains(names, text):
		return fmt.Errorf("invalid value %q for %s: want %s%s", message.Clip(text), k.Name, k.Want, near(text, names))
	case k.Name == "train.objective":
		r.setObjective(Objective(text))
	case !k.parse(k.at(r), text):
		return fmt.Errorf("invalid value %q for %s: want %s", message.Clip(text), k.Name, k.Want)
	}
	return nil
}

func (r *Recipe) setObjective(o Objective) {
	switch {
	case o == untrained:
		r.Train = nil
	case r.Train == nil:
		*r = r.trained(o)
	default:
		r.Train.Objective = o
	}
}

// parse sets what at points to; it returns false, and sets nothing, for a text that is not a value.
func (k *Key) parse(at any, text string) bool {
	number, ok := config.Decimal(text)
	ok = ok && k.within(number)
	switch v := at.(type) {
	case *bool:
		return setIf(text == "true" || text == "false", v, text == "true")
	case *int:
		n, err := strconv.Atoi(text)
		return setIf(err == nil && n <= math.MaxInt32 && k.within(float64(n)), v, n)
	case *uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		return setIf(err == nil && k.within(float64(n)), v, n)
	case *float64:
		return setIf(ok, v, number)
	case **float64:
		return setIf(ok, v, &number)
	case *[]string:
		list := strings.Split(text, ",")
		return setIf(!slices.Contains(list, ""), v, list)
	case *string: // a release
		_, err := qdq.RuntimeOf(text)
		return setIf(err == nil, v, text)
	}
	reflect.ValueOf(at).Elem().SetString(text) // a choice, which has a type of its own
	return true
}

func (k *Key) within(v float64) bool { return v >= k.lo && (k.hi == 0 || v <= k.hi) }

func setIf[T any](ok bool, at *T, v T) bool {
	if ok {
		*at = v
	}
	return ok
}

// Keys is the table of settings, in the order of the stages.
func Keys() []Key {
	return slices.Concat(calibrateKeys(), allocateKeys(), roundKeys(), trainKeys(), targetKeys(), writeKeys())
}

func calibrateKeys() []Key {
	teacher := func(k Key) Key {
		return k.unless(func(r *Recipe) string {
			if r.LooksAtRecourse() {
				return ""
			}
			return fmt.Sprintf("the method %s does not look at recourse; cf-ptq does", r.Method)
		})
	}
	return []Key{
		choiceKey("calibrate.points", "what scales and codes are fitted on", []Choice{
			{onFactual, "the rows"},
			{onRecourse, "the rows and their recourse points, each counting the same (U_cal of the paper)"},
			{onWeighted, "the rows and their recourse points, those near the decision counting most"},
		}, func(r *Recipe) any { return &r.Calibrate.Points }),
		numberKey("calibrate.rows", "largest number of rows to calibrate on, plus refused people where they are few",
			"0, for all, or more", 0, 0, func(r *Recipe) any { return &r.Calibrate.Rows }),
		teacher(choiceKey("calibrate.teacher", "how the teacher recourse moves", []Choice{
			{teacherReach, "steps as long as the linearised margin needs"},
			{teacherPaper, "steps of one length, as the paper writes them"},
		}, func(r *Recipe) any { return &r.Calibrate.Teacher.Moves })),
		teacher(numberKey("calibrate.teacher-steps", "gradient steps of the teacher recourse", "1 or more", 1, 0,
			func(r *Recipe) any { return &r.Calibrate.Teacher.Steps }).from("K")),
		teacher(numberKey("calibrate.teacher-step", "length of each step of calibrate.teacher=paper", "0, for 1, or more",
			0, 0, func(r *Recipe) any { return &r.Calibrate.Teacher.StepSize }).from("alpha")),
		teacher(numberKey("calibrate.teacher-noise",
			"Gaussian noise, in model inputs, on every teacher action, which stays feasible", "0, for none, or more",
			0, 0, func(r *Recipe) any { return &r.Calibrate.Teacher.Noise }).from("sigma")),
		teacher(numberKey("calibrate.teacher-sample", "refused people, drawn at random, who get teacher recourse",
			"0, for all, or more", 0, 0, func(r *Recipe) any { return &r.Calibrate.Teacher.Sample })),
		teacher(numberKey("calibrate.teacher-seed", "seed of noise and sample", "0 or more", 0, 0,
			func(r *Recipe) any { return &r.Calibrate.Teacher.Seed })),
	}
}

func allocateKeys() []Key {
	return []Key{
		numberKey("allocate.budget", "what a weight may cost on average, in bits per weight", "2 to 8", minBudget, maxBudget,
			func(r *Recipe) any { return &r.Allocate.Budget }).from("B"),
		choiceKey("allocate.cost", "what a budget counts", []Choice{
			{CostBits, "the bit width of the weights alone, as the paper counts"},
			{CostBytes, "every byte that the file stores for the weights: codes, scales, zero points, order of " +
				"rows; in bits per weight"},
			{CostBOPs, "weight bits x activation bits x multiplications, as a share of those with 8-bit " +
				"activations; in bits per weight"},
		}, func(r *Recipe) any { return &r.Allocate.Cost }),
		choiceKey("allocate.rule", "how bit widths are chosen", []Choice{
			{allocatorExact, "smallest quantization error of the margin, by a knapsack"},
			{allocatorPaper, "the paper's greedy rule over gradient scores"},
			{allocatorOptimum, "the optimum of the paper's objective, the sum of gradient scores times bits"},
			{allocatorHAWQ, "smallest sum of mean Hessian trace times squared weight error (HAWQ-V2), by the same " +
				"knapsack"},
			{allocatorUniform, "one bit width for all, the largest that fits"},
			{allocatorLearned, "learned before training by straight-through Gumbel-Softmax with the paper's BitCost; " +
				"within the budget by the same knapsack"},
		}, func(r *Recipe) any { return &r.Allocate.Rule }),
		choiceKey("allocate.unit", "what has a bit width of its own", []Choice{
			{bitWidthsPerLayer, "each layer"},
			{bitWidthsPerRow, "each output channel of each layer"},
		}, func(r *Recipe) any { return &r.Allocate.Unit }),
		choiceKey("allocate.scores", "where the importance of layers is measured", []Choice{
			{onFactual, "at the rows"}, {onRecourse, "at their recourse points"},
		}, func(r *Recipe) any { return &r.Allocate.Scores }),
		patternsKey("allocate.only", "the layers to quantize; else all",
			func(r *Recipe) any { return &r.Allocate.Only }),
		patternsKey("allocate.keep-float", "the layers that stay in float",
			func(r *Recipe) any { return &r.Allocate.KeepFloat }),
	}
}

func roundKeys() []Key {
	ranges := make([]Choice, 0, len(calib.Ranges()))
	for _, r := range calib.Ranges() {
		ranges = append(ranges, Choice{string(r.Name), r.Doc})
	}
	return []Key{
		choiceKey("round.rule", "how weights are rounded", []Choice{
			{string(calib.Nearest), "each weight to the nearest code"},
			{string(calib.GPTQ), "each weight makes up for the error of those before it, the bias for the rest"},
			{string(calib.AdaRound), "each weight up or down, learned by gradient, the bias for the rest"},
		}, func(r *Recipe) any { return &r.Round.Rule }),
		choiceKey("round.scales", "what has a weight scale of its own", []Choice{
			{scalesPerTensor, "each layer"},
			{scalesPerChannel, "each output channel of each layer"},
		}, func(r *Recipe) any { return &r.Round.Scales }),
		choiceKey("round.weight-range", "how the scales of weights are fitted", ranges,
			func(r *Recipe) any { return &r.Round.WeightRange }),
		choiceKey("round.act-range", "how the ranges of activations are fitted", ranges,
			func(r *Recipe) any { return &r.Round.ActRange }).unless(withoutActivations),
		flagKey("round.cross-layer-equalization", "balance the channel ranges of neighbouring layers first",
			func(r *Recipe) any { return &r.Round.CrossLayerEqualization }),
		numberKey("refine.rounds", "rounds of end-to-end refinement", "0, for none, or more", 0, 0,
			func(r *Recipe) any { return &r.Refine.Rounds }),
	}
}

func withoutActivations(r *Recipe) string {
	if r.Write.Compute == computeInteger {
		return ""
	}
	return fmt.Sprintf("with write.compute=%s there may be no quantized activations; write.compute=%s quantizes them in "+
		"every layer", r.Write.Compute, computeInteger)
}

func writeKeys() []Key {
	return []Key{
		choiceKey("write.compute", "what layers compute on", []Choice{
			{computeAuto, "integers from the first dense layer on that is faster so, by its shape; float elsewhere"},
			{computeInteger, "integers, activations having 8 bits"},
			{computeFloat, "float: weights of few bits become floats when the model is loaded"},
		}, func(r *Recipe) any { return &r.Write.Compute }),
		choiceKey("write.input", "how the model's input is quantized where layers that read it compute on integers",
			[]Choice{
				{inputAuto, "on an 8-bit grid, unless that alone moves margins by more than 0.05 logits (rms)"},
				{inputInt8, "on an 8-bit grid: these layers run on integers"},
				{inputFloat, "not at all: these layers compute in float, on weights of few bits"},
			}, func(r *Recipe) any { return &r.Write.Input }).unless(withoutActivations),
		numberKey("write.act-bits", "bits of the activations between layers", "2 to 8", 2, 8,
			func(r *Recipe) any { return &r.Write.ActBits }).unless(withoutActivations),
		flagKey("write.full-range",
			"8-bit weights of integer kernels up to 127, not 64: other results on x64 CPUs without VNNI",
			func(r *Recipe) any { return &r.Write.FullRange }),
		{
			Name: "write.runtime", Doc: "the oldest ONNX Runtime that must read the file; else 1.24", Want: runtimeNames(),
			at: func(r *Recipe) any { return &r.Write.Runtime },
		},
		flagKey("write.keep-metadata", "write the exporter's metadata and doc strings, too",
			func(r *Recipe) any { return &r.Write.KeepMetadata }),
	}
}

func choiceKey(name, doc string, choices []Choice, at func(*Recipe) any) Key {
	return Key{Name: name, Doc: doc, Choices: choices, Want: message.Or(Names(choices)), at: at}
}

func numberKey(name, doc, want string, lo, hi float64, at func(*Recipe) any) Key {
	return Key{Name: name, Doc: doc, Want: want, lo: lo, hi: hi, at: at}
}

func flagKey(name, doc string, at func(*Recipe) any) Key {
	return Key{Name: name, Doc: doc, Want: "true or false", at: at}
}

func patternsKey(name, doc string, at func(*Recipe) any) Key {
	want := "names of layers, or patterns such as '/head/*', separated by commas"
	return Key{Name: name, Doc: doc, Want: want, at: at}
}

// near says which of the words a text may have been meant as.
func near(text string, words []string) string {
	if word := message.Nearest(text, words); word != "" {
		return fmt.Sprintf("; did you mean %q?", word)
	}
	return ""
}

// from adds what the paper calls a key.
func (k Key) from(symbol string) Key {
	k.Source = symbol
	return k
}

// unless adds why a key has no effect.
func (k Key) unless(unused func(*Recipe) string) Key {
	k.unused = unused
	return k
}

// Names returns the names of choices.
func Names(choices []Choice) []string {
	out := make([]string, len(choices))
	for i, c := range choices {
		out[i] = c.Name
	}
	return out
}

func runtimeNames() string {
	var releases []string
	for _, r := range qdq.Runtimes() {
		releases = append(releases, r.Version)
	}
	return message.Or(releases)
}

func trainKeys() []Key {
	actions := func(r *Recipe) string {
		if r.teachesInTraining() {
			return ""
		}
		return fmt.Sprintf("the objective %s has no teacher actions; train.objective=validity has", r.Train.Objective)
	}
	return []Key{
		choiceKey("train.objective", "what training minimises", objectives(),
			func(r *Recipe) any { return new(r.objective()) }),
		numberKey("train.steps", "steps of the optimizer", fmt.Sprintf("%d to %d", qat.Rounds, qat.MostSteps), qat.Rounds,
			qat.MostSteps, func(r *Recipe) any { return &r.Train.Steps }),
		numberKey("train.learning-rate", "learning rate", "a number above 0", math.SmallestNonzeroFloat64, 0,
			func(r *Recipe) any { return &r.Train.Rate }),
		numberKey("train.seed", "seed of all that is random in training", "1 or more", 1, 0,
			func(r *Recipe) any { return &r.Train.Seed }),
		weightKey("eta", "weight of validity at teacher points"),
		flagKey("train.eta-sweep", "choose eta by people held out of short trainings",
			func(r *Recipe) any { return &r.Train.EtaSweep }).unless(actions),
		weightKey("beta", "weight of the hinge"),
		weightKey("gamma", "margin of the hinge in logits"),
		weightKey("alpha1", "weight of the distance to the teacher's action"),
		weightKey("alpha2", "weight of the difference in cost to the teacher's action"),
		numberKey("train.lambda", "weight of the bit cost while bit widths are learned; 0 lets it follow the budget",
			"0 or more", 0, 0, func(r *Recipe) any { return &r.Train.Lambda }).from("lambda").unless(
			func(r *Recipe) string {
				if r.Allocate.Rule == allocatorLearned {
					return ""
				}
				return fmt.Sprintf("the allocator %s has no bit cost to weigh; allocate.rule=%s has one", r.Allocate.Rule,
					allocatorLearned)
			}),
		numberKey("train.teacher-actions", "teacher actions per refused person, from different starts", "1 to 64", 1, 64,
			func(r *Recipe) any { return &r.Train.TeacherActions }).unless(actions),
		flagKey("train.teacher-online", "new noise and starts of teacher recourse for every batch",
			func(r *Recipe) any { return &r.Train.TeacherOnline }).unless(actions),
		numberKey("train.sparsity", "share of the weights that are zero", "0 or a share below 1, such as 0.5", 0,
			math.Nextafter(1, 0), func(r *Recipe) any { return &r.Train.Sparsity }),
		choiceKey("train.prune-by", "which weights train.sparsity makes zero", []Choice{
			{pruneMagnitude, "those with the least |w|"},
			{pruneSensitivity, "those with the least |w dm/dw|, m the margin at recourse points"},
		}, func(r *Recipe) any { return &r.Train.PruneBy }).unless(func(r *Recipe) string {
			if r.Train.Sparsity > 0 {
				return ""
			}
			return "no weights are pruned; train.sparsity=0.5 makes half of them zero"
		}),
	}
}

func targetKeys() []Key {
	const small, part = math.SmallestNonzeroFloat64, "a share above 0 and below 1, such as "
	below1 := math.Nextafter(1, 0)
	return []Key{
		numberKey("target.vd", "the largest VD and RVD of the model that is searched for, in place of a budget",
			part+"0.02", small, below1, func(r *Recipe) any { return &r.Target.VD }),
		numberKey("target.margin", "margin, in logits, of the promises that are to hold",
			"logits above 0, such as 0.1: at the boundary half of all promises break whatever is done", small, 0,
			func(r *Recipe) any { return &r.Target.Margin }),
		numberKey("target.holdout", "share of the people that is not calibrated on and judges", part+"0.3", small, below1,
			func(r *Recipe) any { return &r.Target.HoldOut }),
		numberKey("target.confidence", "of the claim that the target is kept", "0.5 or more and below 1, such as 0.95", 0.5,
			below1, func(r *Recipe) any { return &r.Target.Confidence }),
		numberKey("target.sample", "refused people who judge, at most", "1 or more", 1, 0,
			func(r *Recipe) any { return &r.Target.Sample }),
		numberKey("target.seed", "seed of what is held out and of the judges", "0 or more", 0, 0,
			func(r *Recipe) any { return &r.Target.Seed }),
	}
}

func weightKey(name, doc string) Key {
	var users []string
	for _, o := range qat.Objectives() {
		if o.Quantized && slices.Contains(o.Weights, name) {
			users = append(users, string(o.Name))
		}
	}
	return numberKey("train."+name, doc+"; objectives: "+strings.Join(users, ", "), "0 or more", 0, 0,
		func(r *Recipe) any { return r.Train.Named(name) }).from(name).unless(func(r *Recipe) string {
		if slices.Contains(users, string(r.Train.Objective)) {
			return ""
		}
		return fmt.Sprintf("the objective %s has none", r.Train.Objective)
	})
}

func objectives() []Choice {
	out := []Choice{{untrained, "nothing: the network is not trained"}}
	for _, o := range qat.Objectives() {
		if o.Quantized {
			out = append(out, Choice{string(o.Name), o.Doc})
		}
	}
	return out
}
