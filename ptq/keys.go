package ptq

import (
	"errors"
	"fmt"
	"math"
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

	text   func(*Recipe) string        // "" where a recipe does not have it
	set    func(*Recipe, string) error // want is not repeated in the error
	unused func(*Recipe) string        // why it has no effect on a recipe; "" where it has one
	trains bool                        // it is of recipes that train
}

// Choice is a value that a setting can have.
type Choice struct{ Name, Doc string }

// Get returns the text of a recipe's value; "" where the recipe does not have it.
func (k *Key) Get(r *Recipe) string { return k.text(r) }

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
	return k.assign(&r, text)
}

func (k *Key) assign(r *Recipe, text string) error {
	err := k.set(r, text)
	if errors.Is(err, errNoValue) {
		err = fmt.Errorf("invalid value %q for %s: want %s", message.Clip(text), k.Name, k.Want)
	}
	return err
}

var errNoValue = errors.New("not a value")

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
			{string(OnFactual), "the rows"},
			{string(OnRecourse), "the rows and their recourse points, each counting the same (U_cal of the paper)"},
			{string(OnWeighted), "the rows and their recourse points, those near the decision counting most"},
		}, func(r *Recipe) *CalibrateOn { return &r.Calibrate.Points }),
		countKey("calibrate.rows", "largest number of rows to calibrate on, plus refused people where they are few",
			"0, for all, or more", 0, math.MaxInt32, func(r *Recipe) *int { return &r.Calibrate.Rows }),
		teacher(choiceKey("calibrate.teacher", "how the teacher recourse moves", []Choice{
			{string(TeacherReach), "steps as long as the linearised margin needs"},
			{string(TeacherPaper), "steps of one length, as the paper writes them"},
		}, func(r *Recipe) *TeacherSteps { return &r.Calibrate.Teacher.Moves })),
		teacher(countKey("calibrate.teacher-steps", "gradient steps of the teacher recourse", "1 or more", 1, math.MaxInt32,
			func(r *Recipe) *int { return &r.Calibrate.Teacher.Steps }).from("K")),
		teacher(numberKey("calibrate.teacher-step", "length of each step of calibrate.teacher=paper", "0, for 1, or more",
			0, math.MaxFloat64, func(r *Recipe) *float64 { return &r.Calibrate.Teacher.StepSize }).from("alpha")),
		teacher(numberKey("calibrate.teacher-noise",
			"Gaussian noise, in model inputs, on every teacher action, which stays feasible", "0, for none, or more",
			0, math.MaxFloat64, func(r *Recipe) *float64 { return &r.Calibrate.Teacher.Noise }).from("sigma")),
		teacher(countKey("calibrate.teacher-sample", "refused people, drawn at random, who get teacher recourse",
			"0, for all, or more", 0, math.MaxInt32, func(r *Recipe) *int { return &r.Calibrate.Teacher.Sample })),
		teacher(seedKey("calibrate.teacher-seed", "seed of noise and sample", 0,
			func(r *Recipe) *uint64 { return &r.Calibrate.Teacher.Seed })),
	}
}

func allocateKeys() []Key {
	return []Key{
		numberKey("allocate.budget", "what a weight may cost on average, in bits per weight", "2 to 8", minBudget, maxBudget,
			func(r *Recipe) *float64 { return &r.Allocate.Budget }).from("B"),
		choiceKey("allocate.cost", "what a budget counts", []Choice{
			{string(CostBits), "the bit width of the weights alone, as the paper counts"},
			{string(CostBytes), "every byte that the file stores for the weights: codes, scales, zero points, order of " +
				"rows; in bits per weight"},
			{string(CostBOPs), "weight bits x activation bits x multiplications, as a share of those with 8-bit " +
				"activations; in bits per weight"},
		}, func(r *Recipe) *Cost { return &r.Allocate.Cost }),
		choiceKey("allocate.rule", "how bit widths are chosen", []Choice{
			{string(AllocatorExact), "smallest quantization error of the margin, by a knapsack"},
			{string(AllocatorPaper), "the paper's greedy rule over gradient scores"},
			{string(AllocatorOptimum), "the optimum of the paper's objective, the sum of gradient scores times bits"},
			{string(AllocatorHAWQ), "smallest sum of mean Hessian trace times squared weight error (HAWQ-V2), by the same " +
				"knapsack"},
			{string(AllocatorUniform), "one bit width for all, the largest that fits"},
			{string(AllocatorLearned), "learned before training by straight-through Gumbel-Softmax with the paper's BitCost; " +
				"within the budget by the same knapsack"},
		}, func(r *Recipe) *Allocator { return &r.Allocate.Rule }),
		choiceKey("allocate.unit", "what has a bit width of its own", []Choice{
			{string(BitWidthsPerLayer), "each layer"},
			{string(BitWidthsPerRow), "each output channel of each layer"},
		}, func(r *Recipe) *BitWidths { return &r.Allocate.Unit }),
		choiceKey("allocate.scores", "where the importance of layers is measured", []Choice{
			{string(OnFactual), "at the rows"}, {string(OnRecourse), "at their recourse points"},
		}, func(r *Recipe) *CalibrateOn { return &r.Allocate.Scores }),
		patternsKey("allocate.only", "the layers to quantize; else all",
			func(r *Recipe) *[]string { return &r.Allocate.Only }),
		patternsKey("allocate.keep-float", "the layers that stay in float",
			func(r *Recipe) *[]string { return &r.Allocate.KeepFloat }),
	}
}

func roundKeys() []Key {
	ranges := make([]Choice, 0, len(calib.Ranges()))
	for _, r := range calib.Ranges() {
		ranges = append(ranges, Choice{string(r.Name), r.Doc})
	}
	return []Key{
		choiceKey("round.rule", "how weights are rounded", []Choice{
			{string(RoundNearest), "each weight to the nearest code"},
			{string(RoundGPTQ), "each weight makes up for the error of those before it, the bias for the rest"},
			{string(RoundAdaRound), "each weight up or down, learned by gradient, the bias for the rest"},
		}, func(r *Recipe) *Rounding { return &r.Round.Rule }),
		choiceKey("round.scales", "what has a weight scale of its own", []Choice{
			{string(ScalesPerTensor), "each layer"},
			{string(ScalesPerChannel), "each output channel of each layer"},
		}, func(r *Recipe) *Scales { return &r.Round.Scales }),
		choiceKey("round.weight-range", "how the scales of weights are fitted", ranges,
			func(r *Recipe) *Range { return &r.Round.WeightRange }),
		choiceKey("round.act-range", "how the ranges of activations are fitted", ranges,
			func(r *Recipe) *Range { return &r.Round.ActRange }).unless(withoutActivations),
		flagKey("round.cross-layer-equalization", "balance the channel ranges of neighbouring layers first",
			func(r *Recipe) *bool { return &r.Round.CrossLayerEqualization }),
		countKey("refine.rounds", "rounds of end-to-end refinement", "0, for none, or more", 0, math.MaxInt32,
			func(r *Recipe) *int { return &r.Refine.Rounds }),
	}
}

func withoutActivations(r *Recipe) string {
	if r.Write.Compute == ComputeInteger {
		return ""
	}
	return fmt.Sprintf("with write.compute=%s there may be no quantized activations; write.compute=%s quantizes them in "+
		"every layer", r.Write.Compute, ComputeInteger)
}

func writeKeys() []Key {
	return []Key{
		choiceKey("write.compute", "what layers compute on", []Choice{
			{string(ComputeAuto), "integers from the first dense layer on that is faster so, by its shape; float elsewhere"},
			{string(ComputeInteger), "integers, activations having 8 bits"},
			{string(ComputeFloat), "float: weights of few bits become floats when the model is loaded"},
		}, func(r *Recipe) *Compute { return &r.Write.Compute }),
		choiceKey("write.input", "how the model's input is quantized where layers that read it compute on integers",
			[]Choice{
				{string(InputAuto), "on an 8-bit grid, unless that alone moves margins by more than 0.05 logits (rms)"},
				{string(InputInt8), "on an 8-bit grid: these layers run on integers"},
				{string(InputFloat), "not at all: these layers compute in float, on weights of few bits"},
			}, func(r *Recipe) *Input { return &r.Write.Input }).unless(withoutActivations),
		countKey("write.act-bits", "bits of the activations between layers", "2 to 8", 2, 8,
			func(r *Recipe) *int { return &r.Write.ActBits }).unless(withoutActivations),
		flagKey("write.full-range",
			"8-bit weights of integer kernels up to 127, not 64: other results on x64 CPUs without VNNI",
			func(r *Recipe) *bool { return &r.Write.FullRange }),
		{
			Name: "write.runtime", Doc: "the oldest ONNX Runtime that must read the file; else 1.24", Want: runtimeNames(),
			text: func(r *Recipe) string { return r.Write.Runtime },
			set: func(r *Recipe, text string) error {
				if _, err := qdq.RuntimeOf(text); err != nil {
					return errNoValue
				}
				r.Write.Runtime = text
				return nil
			},
		},
		flagKey("write.keep-metadata", "write the exporter's metadata and doc strings, too",
			func(r *Recipe) *bool { return &r.Write.KeepMetadata }),
	}
}

func choiceKey[T ~string](name, doc string, choices []Choice, at func(*Recipe) *T) Key {
	return Key{
		Name: name, Doc: doc, Choices: choices, Want: message.Or(Names(choices)),
		text: func(r *Recipe) string { return string(*at(r)) },
		set: func(r *Recipe, text string) error {
			if !slices.Contains(Names(choices), text) {
				return notChoice(name, text, choices)
			}
			*at(r) = T(text)
			return nil
		},
	}
}

func notChoice(key, text string, choices []Choice) error {
	names := Names(choices)
	return fmt.Errorf("invalid value %q for %s: want %s%s", message.Clip(text), key, message.Or(names), near(text, names))
}

func near(text string, words []string) string {
	if word := message.Nearest(text, words); word != "" {
		return fmt.Sprintf("; did you mean %q?", word)
	}
	return ""
}

func numberKey(name, doc, want string, lo, hi float64, at func(*Recipe) *float64) Key {
	return Key{
		Name: name, Doc: doc, Want: want,
		text: func(r *Recipe) string { return strconv.FormatFloat(*at(r), 'g', -1, 64) },
		set: func(r *Recipe, text string) error {
			v, err := decimal(text, lo, hi)
			if err == nil {
				*at(r) = v
			}
			return err
		},
	}
}

func decimal(text string, lo, hi float64) (float64, error) {
	v, ok := config.Decimal(text)
	if !ok || !(v >= lo && v <= hi) {
		return 0, errNoValue
	}
	return v, nil
}

func countKey(name, doc, want string, lo, hi int, at func(*Recipe) *int) Key {
	return Key{
		Name: name, Doc: doc, Want: want,
		text: func(r *Recipe) string { return strconv.Itoa(*at(r)) },
		set: func(r *Recipe, text string) error {
			v, err := strconv.Atoi(text)
			if err != nil || v < lo || v > hi {
				return errNoValue
			}
			*at(r) = v
			return nil
		},
	}
}

func seedKey(name, doc string, least uint64, at func(*Recipe) *uint64) Key {
	return Key{
		Name: name, Doc: doc, Want: fmt.Sprintf("%d or more", least),
		text: func(r *Recipe) string { return strconv.FormatUint(*at(r), 10) },
		set: func(r *Recipe, text string) error {
			v, err := strconv.ParseUint(text, 10, 64)
			if err != nil || v < least {
				return errNoValue
			}
			*at(r) = v
			return nil
		},
	}
}

func flagKey(name, doc string, at func(*Recipe) *bool) Key {
	return Key{
		Name: name, Doc: doc, Want: "true or false",
		text: func(r *Recipe) string { return strconv.FormatBool(*at(r)) },
		set: func(r *Recipe, text string) error {
			if text != "true" && text != "false" {
				return errNoValue
			}
			*at(r) = text == "true"
			return nil
		},
	}
}

func patternsKey(name, doc string, at func(*Recipe) *[]string) Key {
	return Key{
		Name: name, Doc: doc, Want: "names of layers, or patterns such as '/head/*', separated by commas",
		text: func(r *Recipe) string { return strings.Join(*at(r), ",") },
		set: func(r *Recipe, text string) error {
			*at(r) = strings.Split(text, ",")
			if slices.Contains(*at(r), "") {
				return errNoValue
			}
			return nil
		},
	}
}

func (k Key) from(symbol string) Key {
	k.Source = symbol
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
	objective := Key{
		Name: "train.objective", Doc: "what training minimises", Choices: objectives(),
		text: func(r *Recipe) string { return string(r.objective()) },
	}
	objective.Want = message.Or(Names(objective.Choices))
	objective.set = func(r *Recipe, text string) error {
		switch {
		case !slices.Contains(Names(objective.Choices), text):
			return notChoice(objective.Name, text, objective.Choices)
		case text == string(Untrained):
			r.Train = nil
		case r.Train == nil:
			*r = r.trained(Objective(text))
		default:
			r.Train.Objective = Objective(text)
		}
		return nil
	}
	actions := func(r *Recipe) string {
		if r.teachesInTraining() {
			return ""
		}
		return fmt.Sprintf("the objective %s has no teacher actions; train.objective=validity has", r.Train.Objective)
	}
	list := []Key{
		countKey("train.steps", "steps of the optimizer", fmt.Sprintf("%d to %d", qat.Rounds, qat.MostSteps), qat.Rounds,
			qat.MostSteps, func(r *Recipe) *int { return &r.Train.Steps }),
		numberKey("train.learning-rate", "learning rate", "a number above 0", math.SmallestNonzeroFloat64, math.MaxFloat64,
			func(r *Recipe) *float64 { return &r.Train.Rate }),
		seedKey("train.seed", "seed of all that is random in training", 1,
			func(r *Recipe) *uint64 { return &r.Train.Seed }),
		weightKey("eta", "weight of validity at teacher points"),
		flagKey("train.eta-sweep", "choose eta by people held out of short trainings",
			func(r *Recipe) *bool { return &r.Train.EtaSweep }).unless(actions),
		weightKey("beta", "weight of the hinge"),
		weightKey("gamma", "margin of the hinge in logits"),
		weightKey("alpha1", "weight of the distance to the teacher's action"),
		weightKey("alpha2", "weight of the difference in cost to the teacher's action"),
		numberKey("train.lambda", "weight of the bit cost while bit widths are learned; 0 lets it follow the budget",
			"0 or more", 0, math.MaxFloat64, func(r *Recipe) *float64 { return &r.Train.Lambda }).from("lambda").unless(
			func(r *Recipe) string {
				if r.Allocate.Rule == AllocatorLearned {
					return ""
				}
				return fmt.Sprintf("the allocator %s has no bit cost to weigh; allocate.rule=%s has one", r.Allocate.Rule,
					AllocatorLearned)
			}),
		countKey("train.teacher-actions", "teacher actions per refused person, from different starts", "1 to 64", 1, 64,
			func(r *Recipe) *int { return &r.Train.TeacherActions }).unless(actions),
		flagKey("train.teacher-online", "new noise and starts of teacher recourse for every batch",
			func(r *Recipe) *bool { return &r.Train.TeacherOnline }).unless(actions),
		numberKey("train.sparsity", "share of the weights that are zero", "0 or a share below 1, such as 0.5", 0,
			math.Nextafter(1, 0), func(r *Recipe) *float64 { return &r.Train.Sparsity }),
		choiceKey("train.prune-by", "which weights train.sparsity makes zero", []Choice{
			{string(PruneMagnitude), "those with the least |w|"},
			{string(PruneSensitivity), "those with the least |w dm/dw|, m the margin at recourse points"},
		}, func(r *Recipe) *PruneBy { return &r.Train.PruneBy }).unless(func(r *Recipe) string {
			if r.Train.Sparsity > 0 {
				return ""
			}
			return "no weights are pruned; train.sparsity=0.5 makes half of them zero"
		}),
	}
	for i, k := range list {
		list[i] = k.within(func(r *Recipe) bool { return r.Train != nil }, func(*Recipe) error {
			return fmt.Errorf("%s: nothing is trained without an objective; train.objective=%s trains", k.Name, qat.Distil)
		})
		list[i].trains = true
	}
	return append([]Key{objective}, list...)
}

func (k Key) within(has func(*Recipe) bool, add func(*Recipe) error) Key {
	text, set := k.text, k.set
	k.text = func(r *Recipe) string {
		if !has(r) {
			return ""
		}
		return text(r)
	}
	k.set = func(r *Recipe, value string) error {
		if !has(r) {
			if err := add(r); err != nil {
				return err
			}
		}
		return set(r, value)
	}
	return k
}

func targetKeys() []Key {
	share := func(name, doc string, lo float64, want string, at func(*Target) *float64) Key {
		return numberKey(name, doc, want, lo, math.Nextafter(1, 0), func(r *Recipe) *float64 { return at(r.Target) })
	}
	const small, part = math.SmallestNonzeroFloat64, "a share above 0 and below 1, such as "
	list := []Key{
		share("target.vd", "the largest VD and RVD of the model that is searched for, in place of a budget", small,
			part+"0.02", func(t *Target) *float64 { return &t.VD }),
		numberKey("target.margin", "margin, in logits, of the promises that are to hold",
			"logits above 0, such as 0.1: at the boundary half of all promises break whatever is done", small,
			math.MaxFloat64, func(r *Recipe) *float64 { return &r.Target.Margin }),
		share("target.holdout", "share of the people that is not calibrated on and judges", small, part+"0.3",
			func(t *Target) *float64 { return &t.HoldOut }),
		share("target.confidence", "of the claim that the target is kept", 0.5, "0.5 or more and below 1, such as 0.95",
			func(t *Target) *float64 { return &t.Confidence }),
		countKey("target.sample", "refused people who judge, at most", "1 or more", 1, math.MaxInt32,
			func(r *Recipe) *int { return &r.Target.Sample }),
		seedKey("target.seed", "seed of what is held out and of the judges", 0,
			func(r *Recipe) *uint64 { return &r.Target.Seed }),
	}
	for i, k := range list {
		list[i] = k.within(func(r *Recipe) bool { return r.Target != nil }, func(r *Recipe) error {
			if i > 0 {
				return fmt.Errorf("%s: it is of use with target.vd only", k.Name)
			}
			r.Target = &Target{Margin: 0.1, HoldOut: 0.3, Confidence: 0.95, Sample: 4000, Seed: 1}
			return nil
		})
	}
	return list
}

func (k Key) unless(unused func(*Recipe) string) Key {
	k.unused = unused
	return k
}

func weightKey(name, doc string) Key {
	var users []string
	for _, o := range qat.Objectives() {
		if o.Quantized && slices.Contains(o.Weights, name) {
			users = append(users, string(o.Name))
		}
	}
	return Key{
		Name: "train." + name, Doc: doc + "; objectives: " + strings.Join(users, ", "), Source: name, Want: "0 or more",
		text: func(r *Recipe) string {
			v := qat.DefaultWeight(name)
			if given := *r.Train.Named(name); given != nil {
				v = *given
			}
			return strconv.FormatFloat(v, 'g', -1, 64)
		},
		set: func(r *Recipe, text string) error {
			v, err := decimal(text, 0, math.MaxFloat64)
			if err == nil {
				*r.Train.Named(name) = &v
			}
			return err
		},
		unused: func(r *Recipe) string {
			if slices.Contains(users, string(r.Train.Objective)) {
				return ""
			}
			return fmt.Sprintf("the objective %s has none", r.Train.Objective)
		},
	}
}

func objectives() []Choice {
	out := []Choice{{string(Untrained), "nothing: the network is not trained"}}
	for _, o := range qat.Objectives() {
		if o.Quantized {
			out = append(out, Choice{string(o.Name), o.Doc})
		}
	}
	return out
}
