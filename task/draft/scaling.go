package draft

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"cfq/task"
)

const maxSample = 2000

type scaling struct {
	name      string
	pixels    bool
	mean, std float64 // std 0: those of the data, or its least value and its range
	between   bool
}

func scalings() []scaling {
	return []scaling{
		{"numbers as they are", false, 0, 1, false},
		{"pixels as bytes (std: 1)", true, 0, 1, false},
		{"pixels between 0 and 1 (std: 255)", true, 0, 255, false},
		{"pixels between -1 and 1 (mean: 127.5, std: 127.5)", true, 127.5, 127.5, false},
		{"numbers standardised by these data", false, 0, 0, false},
		{"pixels standardised by these data", true, 0, 0, false},
		{"numbers between 0 and 1 (mean: least value, std: range of these data)", false, 0, 0, true},
	}
}

// CompareScalings warns where a model decides more rows as labelled with another scaling of numbers or pixels than with
// that of the task file. margins runs the model on rows of inputs.
func (r *Report) CompareScalings(
	t *task.Task, people *task.People, margins func(x []float32) ([]float32, error),
) error {
	if r.Score == nil || t.Latent != nil {
		return nil
	}
	known := slices.DeleteFunc(task.AllRows(people.N), func(i int) bool { return people.Labels[i] < 0 })
	var sample []int // from all of the file, which may be sorted
	for i := 0; i < len(known); i += (len(known)-1)/maxSample + 1 {
		sample = append(sample, known[i])
	}
	some := people.Subset(sample)
	own, err := decidedAsLabelled(some, margins)
	if err != nil {
		return err
	}
	most, best, name := 0.0, 0.0, ""
	for _, s := range scalings() {
		other := *some
		if other.X = s.apply(t, some); other.X == nil {
			continue
		}
		right, err := decidedAsLabelled(&other, margins)
		if err != nil {
			return err
		}
		if gain := clearGain(own, right); gain > most {
			most, best, name = gain, stat.Mean(right, nil), s.name
		}
	}
	if name != "" {
		r.Find(Warning, "model", fmt.Sprintf("it decides %.1f %% of %d rows as labelled with %s, and %.1f %% with "+
			"mean and std of the task file: which ones does it take?", 100*best, some.N, name, 100*stat.Mean(own, nil)))
	}
	return nil
}

func (s *scaling) apply(t *task.Task, people *task.People) []float32 {
	var x []float32
	for _, c := range t.Columns() {
		f := &c.Feature
		n := f.Number()
		if n == nil || s.pixels != t.IsPixel(f) || n.Log != nil || n.Clip != nil {
			continue
		}
		if x == nil {
			x = slices.Clone(people.X)
		}
		mean, std := s.mean, s.std
		if std == 0 {
			var raw []float64
			for row := range people.N {
				for _, at := range c.At {
					raw = append(raw, n.FromInput(people.X[row*people.Dim+at]))
				}
			}
			if mean, std = stat.PopMeanStdDev(raw, nil); s.between {
				mean, std = slices.Min(raw), slices.Max(raw)-slices.Min(raw)
			}
			std = cmp.Or(std, 1)
		}
		if n.Spread != 0 { // the model gets input times std
			std *= n.Unit()
		}
		for row := range people.N {
			for _, at := range c.At {
				v := &x[row*people.Dim+at]
				*v = float32((n.FromInput(*v) - mean) / std)
			}
		}
	}
	return x
}

// clearGain is by how much more rows are right than before: 0 unless that is above 2 points and above three standard
// deviations of the rows in which the two differ, so that the same model with a few rows is not suspected.
func clearGain(before, after []float64) float64 {
	differ := floats.Distance(before, after, 1)
	gain := stat.Mean(after, nil) - stat.Mean(before, nil)
	if gain >= max(0.02, 3*math.Sqrt(differ)/float64(len(after))) {
		return gain
	}
	return 0
}

// decidedAsLabelled is 1 for each person whom a model decides as labelled, and 0 for the others. If it decides most
// of them otherwise, its class index is the wrong one, which is reported elsewhere: then 1 is the opposite.
func decidedAsLabelled(people *task.People, run func(x []float32) ([]float32, error)) ([]float64, error) {
	margins, err := run(people.X)
	if err != nil {
		return nil, err
	}
	right := make([]float64, people.N)
	for i, label := range people.Labels {
		if (margins[i] > 0) == (label == 1) {
			right[i] = 1
		}
	}
	if stat.Mean(right, nil) < 0.5 {
		floats.AddConst(-1, right)
		floats.Scale(-1, right)
	}
	return right, nil
}
