package draft

import (
	"gonum.org/v1/gonum/stat"

	"cfq/task"
)

// correlation returns that of two features on a scale; 0 when one has no numbers or does not vary.
func (c *checker) correlation(a, b int) float64 {
	var x, y []float64
	for row := range c.p.N {
		u, okU := task.Number(c.raws[a][c.codes[a][row]])
		v, okV := task.Number(c.raws[b][c.codes[b][row]])
		if okU && okV {
			x, y = append(x, u), append(y, v)
		}
	}
	if len(x) < 3 {
		return 0
	}
	if r := stat.Correlation(x, y, nil); r == r { // no NaN
		return r
	}
	return 0
}
