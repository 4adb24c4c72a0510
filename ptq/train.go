package ptq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/allocate"
	"cfq/eval"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio/codec"
	"cfq/qat"
	"cfq/qat/cohort"
	"cfq/quant"
	"cfq/recourse/constraint"
	"cfq/sensitivity"
	"cfq/task"
)

// Training is what came of a training.
type Training struct {
	Objective qat.Objective  `json:"objective"`
	Steps     int            `json:"steps"`
	People    int            `json:"people,omitempty"` // whose recourse was trained on
	Trials    []cohort.Trial `json:"trials,omitempty"` // of weights of the objective
	Eta       float64        `json:"eta,omitempty"`    // the one of the trials that was chosen
	// Rounds have the shares VD and RVD before the round. Bits are those of a weight on average; while widths are learned,
	// what they cost in the round's last step.
	Rounds []qat.Event `json:"rounds"`
	// Shares of promises at margin 0.1 to some refused people that break in the end.
	VD  eval.Float `json:"vd"`
	RVD eval.Float `json:"rvd"`
	// Shares of the rows that the quantized network decides otherwise than the original, before training and after.
	DisagreementBefore float64 `json:"disagreement_before"`
	Disagreement       float64 `json:"disagreement"`

	unsaved error // why the checkpoint does not hold the last round; nil where it does
}

const maxChurnIncrease = 0.01

func (t *Training) doubts() (warnings []string) {
	if t.unsaved != nil {
		warnings = append(warnings, fmt.Sprintf("the training was not saved: %v", t.unsaved))
	}
	if v := float64(t.RVD); v != v && t.VD == 0 {
		warnings = append(warnings, "the trained model refuses none of the people who were asked for recourse: it may "+
			"approve everyone")
	}
	if t.Disagreement > t.DisagreementBefore+maxChurnIncrease {
		warnings = append(warnings, fmt.Sprintf("training made the model decide %s of the rows otherwise than the "+
			"original, %s before: compare it with one that is not trained (cfq compare)",
			message.Percent(t.Disagreement, 1), message.Percent(t.DisagreementBefore, 1)))
	}
	return warnings
}

func (c *calibration) train(ctx context.Context, plans []quant.Layer, budget float64) (_ []quant.Layer,
	_ *Training, err error,
) {
	net, err := c.openStudent(ctx, plans)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, net.Model.Close()) }()
	bits, spec, result := c.meanBits(plans), c.net.recipe.Train.Spec, &Training{Objective: c.net.recipe.objective()}
	if result.DisagreementBefore, err = c.source.Disagreement(ctx, net.Model); err != nil {
		return nil, nil, err
	}
	if c.net.recipe.Train.EtaSweep {
		own, held := divide(c.sample.trained, trialsHeldOut, c.source.Seed^tuneSeed)
		if len(own) == 0 || !c.source.Labelled(held) {
			return nil, nil, inputError(errors.New("eta-sweep: no labelled people can be held out from so few"))
		}
		result.Trials, err = c.source.SweepEta(ctx, net, &spec, own, held, func(r cohort.Trial, done, total int) {
			c.net.run.tell(fmt.Sprintf("try eta %v", r.Eta), done, total)
		})
		if err != nil {
			return nil, nil, err
		}
		result.Eta = spec.Weights.Of("eta")
	}
	run := qat.Run{Progress: func(e qat.Event) {
		e.Bits = bits
		c.tell("train", e)
	}}
	if budget == c.net.recipe.Allocate.Budget {
		run.Checkpoint = c.net.checkpoint
	}
	out, err := qat.Train(ctx, net, c.source.Source(), spec, run)
	if err != nil {
		return nil, nil, err
	}
	result.unsaved = out.Unsaved
	if c.net.recipe.objectiveDoc().Recourse {
		result.People = c.source.Taught()
	}
	result.Rounds = out.History
	for i := range result.Rounds {
		result.Rounds[i].Bits, result.Steps = bits, result.Rounds[i].Steps
	}
	trained := qat.Quantized(out.Layers)
	vd, rvd, disagreement, err := c.source.Final(ctx, trained)
	result.VD, result.RVD, result.Disagreement = eval.Float(vd), eval.Float(rvd), disagreement
	return trained, result, err
}

func (c *calibration) tell(stage string, e qat.Event) {
	c.net.run.tell(fmt.Sprintf("%s: loss %.2g, VD %s, RVD %s, %.2f bits", stage, e.Loss, message.Percent(float64(e.VD), 1),
		message.Percent(float64(e.RVD), 1), e.Bits), e.Round, e.Rounds)
}

func (c *calibration) openStudent(ctx context.Context, plans []quant.Layer) (net qat.Network, err error) {
	net.Layers = c.trainable(plans)
	if err := c.prune(ctx, net.Layers); err != nil {
		return net, err
	}
	net.Model, err = c.openLayers(ctx, plans)
	return net, err
}

// tuneSeed tells the people held out here from those that a search for a target has held out before by the same seed:
// of the others none would be left.
const tuneSeed = 1 << 63

const trialsHeldOut = 0.2

// Learned is what came of learning bit widths.
type Learned struct {
	Steps int `json:"steps"`
	// Cost is what the most probable widths cost, in the unit of the budget. The exact knapsack takes the widths, within
	// the budget, that most probably are all that is needed.
	Cost   float64     `json:"cost"`
	Rounds []qat.Event `json:"rounds"`
}

// learn learns the bit widths of a budget: the risk of each, instead of errors.
func (c *calibration) learn(ctx context.Context, budget float64) (_ widthErrors, _ *Learned, err error) {
	var granted float64
	for i := range c.net.layers {
		_, grant := c.multiples(i)
		granted += float64(c.net.layers[i].Params()) * float64(grant)
	}
	net, err := c.openStudent(ctx, c.fitsOf(minBudget))
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, net.Model.Close()) }()
	for i := range net.Layers {
		net.Layers[i].Widths = &qat.Widths{
			Plans: c.layers[i], PerRow: c.net.perRow(&c.net.layers[i]),
			Costs: lists.Map(c.choices(i, nil)[0], func(ch allocate.Choice) float64 { return float64(ch.Cost) / granted }),
		}
	}
	progress := func(e qat.Event) { c.tell("learn bit widths", e) }
	policy, err := qat.Search(ctx, net, budget, c.source.Source(), c.net.recipe.Train.Spec, qat.Run{Progress: progress})
	if err != nil {
		return nil, nil, fmt.Errorf("bit widths: %w", err)
	}
	learned := &Learned{Cost: policy.Cost, Rounds: policy.History}
	learned.Steps = policy.History[len(policy.History)-1].Steps
	return policy.Risks, learned, nil
}

func (c *calibration) trainable(plans []quant.Layer) (layers []qat.Layer) {
	for _, p := range plans {
		i := c.net.index(p.Node)
		if !c.net.alone(i) {
			continue
		}
		l := qat.Layer{Info: c.foldedLayers[i], Plan: p}
		if c.onGrid(i) {
			l.Sources = c.input.Sources()
		}
		layers = append(layers, l)
	}
	return layers
}

// openSource finds whom trainings at all budgets train on: all people but those held out, not only those who are
// calibrated on.
func (c *calibration) openSource(ctx context.Context) error {
	n, spec := c.net, c.net.recipe.Train
	n.run.tell("recourse to train on", 0, 0)
	held, err := c.heldOut(ctx)
	if err != nil {
		return err
	}
	people := c.sample.all
	c.sample.trainedRows = lists.Where(people.N, func(i int) bool {
		_, out := slices.BinarySearch(held.people, i)
		return !out
	})
	if len(held.people) > 0 {
		people = people.Subset(c.sample.trainedRows)
	}
	c.sample.trained = people
	set, err := personal(n.set, people)
	if err != nil {
		return inputError(err)
	}
	s := &cohort.Source{Set: set, Teacher: n.teacher(), Open: c.openLayers}
	s.Population, s.Full, s.Labels, s.Seed = n.population(people.X, set), n.full, people.Labels, spec.Seed
	for _, g := range people.Subgroups {
		s.GroupCount += len(g.Values)
	}
	s.Groups = make([]float32, people.N*s.GroupCount)
	first := 0
	for _, g := range people.Subgroups {
		for i, code := range g.Codes {
			if code >= 0 {
				s.Groups[i*s.GroupCount+first+int(code)] = 1
			}
		}
		first += len(g.Values)
	}
	if s.Margins, err = n.full.Margins(ctx, people.X); err != nil {
		return err
	}
	if n.run.Promises != nil {
		s.Rays = cohort.RaysTo(task.AllRows(people.N), cohort.Points(n.run.Promises))
	}
	if n.recipe.teachesInTraining() {
		o := n.teacher()
		o.Noise = 0
		points, err := n.recoursePoints(ctx, people.X, set, n.run.Promises, o)
		if err != nil {
			return err
		}
		s.Points = qat.Points{Source: points.Source, X: slices.Clone(points.Points())}
	}
	c.source = s
	return s.Find(ctx, n.recipe.objective())
}

func (p *network) population(x []float32, set *constraint.Set) cohort.Population {
	features := lists.Map(p.task.Features, func(f task.Feature) int { return f.Offset })
	return cohort.Population{X: x, Dim: p.full.Dim(), Numbers: set.Numbers(), Features: features}
}

// openCheckpoint opens the file that keeps the state of the training at the recipe's budget; nil without one. It comes
// before any work: all that a training depends on was given.
func (p *network) openCheckpoint(people *task.People) (*qat.Checkpoint, error) {
	if p.run.Checkpoint == "" || p.recipe.Train == nil {
		return nil, nil
	}
	sum, err := codec.Fingerprint(p.source)
	if err != nil {
		return nil, err
	}
	recipe, err := json.Marshal(p.recipe)
	if err != nil {
		return nil, err
	}
	promised := cohort.Points(p.run.Promises)
	found := lists.Map(promised, func(to []float32) bool { return to != nil })
	settings := fmt.Sprintf("%v\n%s %d\n%+v\n%v %q %v", p.task.Latent, recipe, p.recipe.Train.Batch, p.run.Overrides,
		people.Rows, people.IDs, people.Subgroups)
	return qat.OpenCheckpoint(p.run.Checkpoint, p.engine, sum, string(p.task.JSON()), settings, people.X,
		people.Labels, slices.Concat(promised...), found)
}

// prunePoints is how many recourse points the sensitivity of weights is the mean over.
const prunePoints = 1024

// Sparsity is what pruning made of the weights of the quantized layers.
type Sparsity struct {
	By     string  `json:"by"`
	Pruned float64 `json:"pruned"` // share of the weights that were made zero and kept so
	Zero   float64 `json:"zero"`   // share of the codes that are zero in the end
}

// prune says which weights of the layers become zero: the given share of all of them with the least scores.
//
// Reference: Prune+Quant, magnitude- or sensitivity-based, of the paper; single weights, not structures.
func (c *calibration) prune(ctx context.Context, layers []qat.Layer) error {
	if c.net.recipe.Train.Sparsity == 0 {
		return nil
	}
	infos := lists.Map(layers, func(l qat.Layer) quant.LayerInfo {
		return c.net.layers[c.net.index(l.Info.Node)] // in float: after an integer input weights have other units
	})
	scores, err := c.pruningScores(ctx, infos)
	if err != nil {
		return err
	}
	all := slices.Concat(scores...)
	pruned, order := make([]bool, len(all)), task.AllRows(len(all))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a], all[b]) })
	for _, at := range order[:int(math.Round(c.net.recipe.Train.Sparsity*float64(len(all))))] {
		pruned[at] = true
	}
	for k := range layers {
		n := len(scores[k])
		layers[k].Pruned, pruned = pruned[:n:n], pruned[n:]
	}
	return nil
}

func (c *calibration) pruningScores(ctx context.Context, layers []quant.LayerInfo) ([][]float64, error) {
	if c.net.recipe.Train.PruneBy == pruneMagnitude {
		return lists.Map(layers, func(l quant.LayerInfo) []float64 {
			return lists.Map(l.W, func(w float32) float64 { return math.Abs(float64(w)) })
		}), nil
	}
	rays := subset(c.source.Rays, qat.Spread(len(c.source.Rays), prunePoints))
	x := lists.Join(rays, func(r cohort.Ray) []float32 { return r.To })
	if len(x) == 0 {
		return nil, inputError(errors.New("nobody has recourse to measure the sensitivity of weights at: prune by magnitude"))
	}
	return sensitivity.Weights(ctx, c.net.full, layers, x)
}

func (s *TrainSpec) sparsity(plan *quant.Plan) *Sparsity {
	if s == nil || s.Sparsity == 0 {
		return nil
	}
	all := lists.Join(plan.Layers, func(l quant.Layer) []int8 { return l.Codes })
	zero := lists.Filter(all, func(q int8) bool { return q == 0 })
	return &Sparsity{By: s.PruneBy, Pruned: s.Sparsity, Zero: float64(len(zero)) / float64(len(all))}
}
