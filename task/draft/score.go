package draft

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Model is what infer asks of a classifier.
type Model interface {
	// Dim returns the number of inputs of a row.
	Dim() int
	// Logits returns rows x classes values for rows x Dim inputs; a single value z of a row stands for the classes' [0, z].
	Logits(ctx context.Context, x []float32) (logits []float32, classes int, err error)
}

// Score says how well a model decides rows whose outcome is known.
type Score struct {
	Rows     int     `json:"rows"`
	Index    int     `json:"index"`    // class index that stands for the favourable outcome
	Classes  int     `json:"classes"`  // of the model
	Accuracy float64 `json:"accuracy"` // share of rows that are decided as labelled
	Majority float64 `json:"majority"` // accuracy of always naming the more frequent outcome
	// Loss is the mean cross-entropy in nats, of the best of five temperatures, so that a model that is too sure of itself is not taken for a wrong one.
	Loss    float64 `json:"loss"`
	Entropy float64 `json:"entropy"` // the loss of always naming the share of the favourable outcome
}

// Fits says whether the model knows something about the rows.
func (s *Score) Fits() bool { return s.Rows > 0 && s.Loss < 0.99*s.Entropy }

// judge scores the class index against labels (1 favourable, 0 not, -1 not known).
func judge(logits []float32, classes int, labels []int8, index int) Score {
	s := Score{Index: index, Classes: max(classes, 2)}
	temperatures := []float64{0.5, 1, 2, 4, 8}
	losses := make([]float64, len(temperatures))
	right, favourable := 0, 0
	for i, label := range labels {
		if label < 0 {
			continue
		}
		m := margin(logits[i*classes:(i+1)*classes], index)
		if (m > 0) == (label == 1) {
			right++
		}
		favourable += int(label)
		if label == 0 {
			m = -m
		}
		s.Rows++
		for j, t := range temperatures {
			losses[j] += softplus(-m / t)
		}
	}
	if s.Rows == 0 {
		return s
	}
	n := float64(s.Rows)
	s.Loss = math.Inf(1)
	for _, l := range losses {
		if l/n < s.Loss { // false for NaN
			s.Loss = l / n
		}
	}
	p := float64(favourable) / n
	s.Accuracy, s.Majority = float64(right)/n, max(p, 1-p)
	for _, q := range []float64{p, 1 - p} {
		if q > 0 {
			s.Entropy -= q * math.Log(q)
		}
	}
	return s
}

// margin is the logit of a class less the largest other one.
func margin(z []float32, index int) float64 {
	if len(z) == 1 {
		if index == 0 {
			return -float64(z[0])
		}
		return float64(z[0])
	}
	other := math.Inf(-1)
	for j, v := range z {
		if j != index {
			other = max(other, float64(v))
		}
	}
	return float64(z[index]) - other
}

// softplus is log(1 + exp x).
func softplus(x float64) float64 {
	if x > 30 {
		return x
	}
	return math.Log1p(math.Exp(x))
}

// best scores all classes and returns the best one.
func best(logits []float32, classes int, labels []int8) Score {
	var top Score
	for index := range max(classes, 2) {
		if s := judge(logits, classes, labels, index); index == 0 || s.Loss < top.Loss {
			top = s
		}
	}
	return top
}

// encode returns the model inputs of the given rows that can be read, and which these are.
func encode(features []feature, missing []string, rows []int) (x []float32, kept []int) {
	dim := 0
	for i := range features {
		dim += features[i].Width
	}
	tables := make([][]float32, len(features))
	broken := make([][]bool, len(features))
	gone := map[string]bool{"": true}
	for _, m := range missing {
		gone[m] = true
	}
	for i := range features {
		f := &features[i]
		values := f.from.col.values
		tables[i], broken[i] = make([]float32, len(values)*f.Width), make([]bool, len(values))
		for j, v := range values {
			if gone[v] {
				v = ""
			}
			broken[i][j] = f.Encode(v, tables[i][j*f.Width:(j+1)*f.Width]) != nil
		}
	}
	x = make([]float32, 0, len(rows)*dim)
next:
	for _, r := range rows {
		for i := range features {
			if broken[i][features[i].from.col.codes[r]] {
				continue next
			}
		}
		for i := range features {
			code, w := int(features[i].from.col.codes[r]), features[i].Width
			x = append(x, tables[i][code*w:(code+1)*w]...)
		}
		kept = append(kept, r)
	}
	return x, kept
}

// labels returns the outcome of every row.
func (t *target) labels(c *column, missing []string) []int8 {
	favourable := t.favourable
	if favourable == "" {
		favourable = t.values[0]
	}
	byValue := make([]int8, len(c.values))
	for i, v := range c.values {
		_, suffix := withoutStop([]string{v})
		if t.suffix != "" && suffix != "" {
			v = v[:len(v)-1]
		}
		switch {
		case v == favourable || sameNumber(v, favourable):
			byValue[i] = 1
		case slices.Contains(anywhere(), v) || slices.Contains(missing, v):
			byValue[i] = -1
		}
	}
	out := make([]int8, len(c.codes))
	for i, code := range c.codes {
		out[i] = byValue[code]
	}
	return out
}

// describe says in words how well the model decides.
func (s *Score) describe() string {
	return fmt.Sprintf("the model decides %s of %s as labelled; always naming the more frequent outcome would decide %s",
		percent(s.Accuracy), plural(s.Rows, "row"), percent(s.Majority))
}
