package calib

import "cfq/quant"

// A convolution multiplies, at each position of its output, what lies under its
// kernel: its patches stand for the rows of a dense layer's input. Statistics look
// at mostPlaces positions of each row at most, and at fewer where the patches are
// long: patchWork bounds the products of one row, fewestPlaces the places from below.
const (
	mostPlaces   = 64
	fewestPlaces = 4
	patchWork    = 1 << 20
)

// places is the number of positions of each row that statistics look at.
func places(l quant.LayerInfo) int {
	n := patchWork / (l.In * l.In * l.Conv.Group)
	return min(max(n, fewestPlaces), mostPlaces, l.Conv.Positions())
}

// place is the k-th of n positions out of all to look at in a row: evenly spread,
// and from row to row one further, so that the rows together show every position.
func place(k, n, all, row int) int {
	return (k*all/n + row%((all+n-1)/n)) % all
}

// chunkNumbers bounds the numbers of patches that are held at once.
const chunkNumbers = 1 << 20

// sumConv is sum for a convolution: second moments and means of the patches, group
// by group.
func (k *collector) sumConv(i, from, rows int, values, grads [][]float32) {
	l, s := k.layers[i], &k.stats[i]
	v := values[k.values.at(l.Input)]
	size := len(v) / rows
	weights := k.rowWeights(from, rows)
	var by, out []float32
	if s.LogitGram != nil {
		by, out = grads[k.grads.at(l.Input)], grads[k.grads.at(l.Output)]
	}
	s.count(v, by, weights, convCosts(l, size))
	n := places(l)
	step := max(1, chunkNumbers/(n*l.In))
	for g, part := range l.Groups() {
		p := patcher{conv: part.Conv, in: l.In, n: n, from: from}
		at := s.part(l, g)
		for r := 0; r < rows; r += step {
			to := min(r+step, rows)
			h := p.patches(v[r*size:to*size], r, to)
			weight := moments(at.Gram, at.Mean, h, repeat(weights[r:to], n))
			if g == 0 {
				k.weight[i] += weight
			}
			if out == nil {
				continue
			}
			h = p.patches(v[r*size:to*size], r, to) // moments has overwritten them
			width := len(out) / rows
			by := p.squares(out[r*width:to*width], r, to, g*part.Out, part.Out, weights[r:to])
			k.groupWeight(i)[g] += moments(at.LogitGram, at.LogitMean, h, by)
		}
	}
}

// groupWeight returns the weights of the groups of layer i in the sums with gradients.
func (k *collector) groupWeight(i int) []float64 {
	if k.groupWeights == nil {
		k.groupWeights = map[int][]float64{}
	}
	if k.groupWeights[i] == nil {
		k.groupWeights[i] = make([]float64, k.layers[i].Conv.Group)
	}
	return k.groupWeights[i]
}

// finishConv is Stats.finish for each group of a convolution.
func (k *collector) finishConv(i int) {
	for g, by := range k.groupWeight(i) {
		part := k.stats[i].part(k.layers[i], g)
		part.finish(k.weight[i], by)
	}
}

// rowWeights returns the weights of rows of the set.
func (k *collector) rowWeights(from, rows int) []float64 {
	weights := make([]float64, rows)
	for r := range weights {
		weights[r] = 1
		if k.set.Weights != nil {
			weights[r] = k.set.Weights[from+r]
		}
	}
	return weights
}

// patcher makes patches of a convolution in one group, n of each row.
type patcher struct {
	conv        *quant.Conv
	in, n, from int // numbers of a patch, patches of a row, first row of the batch
}

// patches returns the patches of the rows r to end of a batch, whose inputs are v.
func (p patcher) patches(v []float32, r, end int) []float64 {
	rows := end - r
	size, all := len(v)/rows, p.conv.Positions()
	out := make([]float64, rows*p.n*p.in)
	for j := range rows {
		for k := range p.n {
			at := (j*p.n + k) * p.in
			p.conv.Patch(out[at:at+p.in], v[j*size:(j+1)*size], 0, place(k, p.n, all, p.from+r+j))
		}
	}
	return out
}

// squares returns, for each patch, the row's weight times the squared gradient by
// what the outputs, those from first on, make of it.
func (p patcher) squares(grads []float32, r, end, first, outputs int, weights []float64) []float64 {
	rows, all := end-r, p.conv.Positions()
	size := len(grads) / rows
	out := make([]float64, rows*p.n)
	for j := range rows {
		for k := range p.n {
			at := place(k, p.n, all, p.from+r+j)
			for o := first; o < first+outputs; o++ {
				g := float64(grads[j*size+o*all+at])
				out[j*p.n+k] += weights[j] * g * g
			}
		}
	}
	return out
}

// convCosts is what an error of each of the size elements of a row of the input
// does to the outputs, squared: that of its channel's weights, borders not counted.
func convCosts(l quant.LayerInfo, size int) []float64 {
	c := l.Conv
	kernel := l.In * c.Group / c.Channels
	sums := make([]float64, c.Channels)
	for k, w := range l.W {
		group := k / l.In / (l.Out / c.Group)
		sums[group*(c.Channels/c.Group)+k%l.In/kernel] += float64(w) * float64(w)
	}
	out := make([]float64, size)
	for k := range out {
		out[k] = sums[k/(size/c.Channels)]
	}
	return out
}
