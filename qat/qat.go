// Package qat trains a network through fake quantizers, so that few bits cost little recourse.
//
// In: a classifier whose layers are in canonical form, plans of these layers (bit widths and first scales), and points
// with what the full-precision model says of them. Out: plans of the same bit widths with trained codes, scales and
// biases. The invariant: a step is one ONNX graph that ONNX Runtime runs, the codes are those that the graph computed
// with, and the same arguments give the same plans.
//
// References: sections CFQ objective, Quantizer parameterization and Training algorithm of the paper.
package qat

import (
	"context"
	"errors"
	"fmt"
	"math"

	"cfq/internal/lists"
	"cfq/internal/statistics"
	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Network is what is trained.
type Network struct {
	Model   *classifier.Model // computes as its file will, with weights of the plans
	Layers  []Layer
	Members []string // values that hold the logits of an ensemble's members, whose mean the model's logits are
	Code    Code     // of an autoencoder
}

// Layer is a layer to train.
type Layer struct {
	Info quant.LayerInfo // after an integer input, folded
	// Plan has bit widths and where training starts: scales, codes, bias. A layer that it keeps in float is trained so.
	Plan quant.Layer
	// Pruned says which weights, Out x In, are zero and stay zero; nil = none.
	Pruned []bool
	// Widths are the bit widths that Search chooses among; nil for Train.
	Widths *Widths
	// Sources are the columns of the weights that the columns of an integer kernel have; nil when they are the same.
	Sources []int
}

// Trained is a layer as trained so far.
type Trained struct {
	quant.Layer
	W []float32 // Out x In, of a layer in float; nil of others
}

// Quantized returns the plans of layers.
func Quantized(layers []Trained) []quant.Layer {
	return lists.Map(layers, func(l Trained) quant.Layer { return l.Layer })
}

// Event is the state after a round.
type Event struct {
	Round  int              `json:"-"` // from 1 to Rounds
	Rounds int              `json:"-"`
	Steps  int              `json:"steps"`
	Loss   statistics.Float `json:"loss"` // mean over the round
	VD     statistics.Float `json:"vd"`   // as Draw has them
	RVD    statistics.Float `json:"rvd"`
	// Bits are what the bit widths cost in the last step of a round of Search, in the unit of the budget.
	Bits float64 `json:"bits"`
}

// Outcome is what came of a training.
type Outcome struct {
	Layers  []Trained
	History []Event // by round
	Unsaved error   // why the checkpoint does not hold the last round; nil where it does
}

// ErrDiverged is wrapped by the error of a training whose loss is not a number or grows without bound.
var ErrDiverged = errors.New("training diverged")

// Rounds is how often points are drawn, and so the least number of steps. In the last frozenRounds codes stay as they
// are, while scales and biases make up for the last changes of codes: a weight between two codes would otherwise move
// to and fro to the end.
const Rounds, frozenRounds = 16, 2

// maxPoints is the largest number of points of a kind that a round has a use for.
const maxPoints = 12288

// diverged is how many times the loss of the first batch the mean of a round may be.
const diverged = 100

// A training has failed if its last loss is more than ended times the first one, and not only small.
const ended, tinyLoss = 2, 1e-2

// Train trains the layers of the network. The full-precision model is known by its points alone.
func Train(ctx context.Context, net Network, source Source, spec Spec, run Run) (*Outcome, error) {
	j, err := spec.resolve(net, source)
	if err != nil {
		return nil, err
	}
	s, err := compile(j)
	if err != nil {
		return nil, fmt.Errorf("training step: %w", err)
	}
	t := newTrainer(s)
	defer t.close()
	frozen := Rounds - frozenRounds
	if t.reader == nil {
		frozen = Rounds // nothing has codes
	}
	out, err := t.loop(ctx, Rounds, frozen, run)
	if err != nil {
		return nil, err
	}
	if last := out.History[len(out.History)-1].Loss; float64(last) > ended*t.Start+tinyLoss {
		return nil, fmt.Errorf("%w: the loss was %.3g at first and is %.3g; a learning rate of %.2g may help", ErrDiverged,
			t.Start, last, j.LearningRate/10)
	}
	out.Layers, err = t.trained(ctx)
	return out, err
}

func (t *trainer) loop(ctx context.Context, rounds, frozen int, run Run) (*Outcome, error) {
	out, use := &Outcome{}, t.job.use(rounds)
	if c := run.Checkpoint; c != nil && c.saved != nil {
		t.optimizerState, out.History = c.saved.State, c.saved.History
	}
	if len(out.History) > frozen {
		if err := t.openFrozen(); err != nil {
			return nil, fmt.Errorf("training step: %w", err)
		}
	}
	for round := len(out.History); round < rounds; round++ {
		now, err := t.trained(ctx)
		if err != nil {
			return nil, err
		}
		drawn, err := t.job.source.Draw(ctx, round, use, now)
		if err != nil {
			return nil, err
		}
		t.replace(drawn.Points)
		if round == frozen {
			if err := t.freeze(now); err != nil {
				return nil, fmt.Errorf("training step: %w", err)
			}
		}
		from, end := 0, t.job.Steps*frozen/rounds
		if round >= frozen {
			from, end = end, t.job.Steps
		}
		loss, err := t.steps(ctx, t.job.Steps*(round+1)/rounds, from, end)
		if err != nil {
			return nil, err
		}
		if !(loss <= diverged*t.Start+1) || !t.sound() {
			return nil, fmt.Errorf("%w after %d steps: the loss is %.3g; a learning rate below %v may help", ErrDiverged,
				t.Steps, loss, t.job.LearningRate)
		}
		ev := Event{
			Round: round + 1, Rounds: rounds, Steps: t.Steps, Loss: statistics.Float(loss), VD: statistics.Float(drawn.VD),
			RVD: statistics.Float(drawn.RVD), Bits: t.cost,
		}
		out.History = append(out.History, ev)
		if run.Progress != nil {
			run.Progress(ev)
		}
		if run.Checkpoint != nil {
			out.Unsaved = run.Checkpoint.save(checkpointState{t.optimizerState, out.History})
		}
	}
	return out, nil
}

// steps does steps until there have been so many and returns the mean loss. The learning rate falls along a cosine from
// one step to another.
func (t *trainer) steps(ctx context.Context, to, from, end int) (float64, error) {
	var sum float64
	n := to - t.Steps
	for t.Steps < to {
		if err := t.draw(ctx); err != nil {
			return 0, err
		}
		angle := math.Pi * float64(t.Steps-from) / float64(end-from)
		rate := t.job.LearningRate * (1 + math.Cos(angle)) / 2
		loss, err := t.run(ctx, &t.next, rate*min(1, float64(t.Steps+1)/warmUp))
		if err != nil {
			return 0, err
		}
		if !t.job.lsq {
			t.settle()
		}
		if t.Steps == 1 {
			t.Start = loss / float64(t.job.Batch)
		}
		if t.lambda = t.job.Lambda; t.lambda == 0 {
			t.lambda = firstLambda * t.Start * math.Exp(min(mostLambda, lambdaGain*(t.cost-t.job.budget)))
		}
		sum += loss
	}
	return sum / float64(max(1, n)) / float64(t.job.Batch), nil
}
