package qat

import (
	"context"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/recourse"
	"cfq/recourse/constraint"
)

// Kind says where points come from.
type Kind int

// The kinds of points.
const (
	Factual Kind = iota
	Teacher      // recourse of the full-precision model
	Student      // recourse of the network as trained so far
	Kinds        // how many kinds there are
)

// Points are rows to train on, and what the full-precision model says of them.
type Points struct {
	Kind    Kind
	X       []float32 // rows x inputs
	Margins []float32 // of the full-precision model
	// StudentMargins are those of the network as trained so far, at factual points of objectives that resample points.
	StudentMargins []float32
	// Source is the position, among the factual points, of the person of each teacher point; resampling needs none.
	Source []int
	// Groups says in which groups the people of factual points are, rows x Source.Groups of 0 and 1.
	Groups []float32
	// Classes has the label of each factual row, -1 where it is not known; nil where no label is.
	Classes []int
	// Probabilities of the full-precision model, rows x classes; only KD needs them.
	Probabilities []float32
	// Attributes of factual rows, rows x Code.Attributes; only the objective Attributes needs them.
	Attributes []float32
}

// Draw is what a round is trained on and what its people say.
type Draw struct {
	Points  []Points // all that the round is trained on, each kind once
	VD, RVD float64  // of the network as the round begins; NaN where nobody was asked
}

// Source owns the people of a training. The same calls must give the same points.
type Source struct {
	// Draw draws the points of a round, given the layers as trained so far: of each kind as many as the round has a use
	// for, where there may be any number.
	Draw   func(ctx context.Context, round int, use [Kinds]int, now []Trained) (Draw, error)
	Groups int // of people, as Points.Groups has them
	// Set is what people can change, by their positions among the factual points, for objectives that unroll the network's
	// own actions, which Teacher finds.
	Set     *constraint.Set
	Teacher recourse.TeacherOptions
}

// Dim returns the number of inputs of the network as trained so far, which is a model that a teacher can ask.
func (s *trainStep) Dim() int { return s.job.net.Model.Dim() }

// LossGrads returns the margin of each row and the gradient by the inputs of the cross-entropy with the target class.
func (s *trainStep) LossGrads(ctx context.Context, x []float32) (margins, g []float32, err error) {
	in := []*graph.Tensor{s.job.net.Model.Feed(x), ort.ViewFloats(paramsName, s.Params, int64(len(s.Params)))}
	for name, v := range s.drawn {
		if name != lambdaName {
			in = append(in, ort.ViewFloats(name, v, int64(len(v))))
		}
	}
	out, err := s.student.Run(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	if margins, err = ort.FloatsOf(out[0]); err == nil {
		g, err = ort.FloatsOf(out[1])
	}
	return margins, g, err
}

// Spread returns at most limit of the numbers below n, evenly spread.
func Spread(n, limit int) []int {
	limit = max(0, min(n, limit))
	return lists.Make(limit, func(k int) int { return k * n / limit })
}
