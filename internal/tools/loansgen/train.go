package main

import "math"

// dense is a layer y = x W' + b with W of shape out x in, row-major, and the
// state of the Adam optimizer.
type dense struct {
	in, out int
	w, b    []float64
	gw, gb  []float64
	mw, vw  []float64
	mb, vb  []float64
}

func newDense(s *source, in, out int) *dense {
	d := &dense{
		in: in, out: out,
		w: make([]float64, in*out), gw: make([]float64, in*out), mw: make([]float64, in*out), vw: make([]float64, in*out),
		b: make([]float64, out), gb: make([]float64, out), mb: make([]float64, out), vb: make([]float64, out),
	}
	scale := math.Sqrt(2 / float64(in))
	for i := range d.w {
		d.w[i] = mul(scale, s.normal())
	}
	return d
}

// forward writes the layer's output to y, through a Relu if asked.
func (d *dense) forward(x, y []float64, relu bool) {
	for o := range d.out {
		row := d.w[o*d.in : (o+1)*d.in]
		sum := d.b[o]
		for i, v := range x {
			sum += mul(row[i], v)
		}
		if relu {
			sum = max(sum, 0)
		}
		y[o] = sum
	}
}

// backward adds the gradient of the weights for output gradient gy at input x,
// and writes the gradient of the input to gx unless that is nil.
func (d *dense) backward(x, gy, gx []float64) {
	clear(gx)
	for o, g := range gy {
		if g == 0 {
			continue
		}
		row, grow := d.w[o*d.in:(o+1)*d.in], d.gw[o*d.in:(o+1)*d.in]
		d.gb[o] += g
		for i, v := range x {
			grow[i] += mul(g, v)
			if gx != nil {
				gx[i] += mul(g, row[i])
			}
		}
	}
}

// net is the classifier: Relu between the layers, two logits at the end.
type net struct{ layers []*dense }

// forward returns the activations of every layer for x; the last are the logits.
func (n *net) forward(x []float64, acts [][]float64) {
	for i, d := range n.layers {
		d.forward(x, acts[i], i+1 < len(n.layers))
		x = acts[i]
	}
}

func (n *net) buffers() [][]float64 {
	var b [][]float64
	for _, d := range n.layers {
		b = append(b, make([]float64, d.out))
	}
	return b
}

// train fits a network to rows x with labels y by minibatch Adam on the logistic
// loss of the two logits, with decoupled weight decay and a falling step size.
func train(x [][]float64, y []bool, hidden []int) *net {
	const (
		epochs = 14
		batch  = 50
		rate   = 4e-3
		decay  = 3.0 // at this strength training and test rows are fitted equally well
	)
	s := newSource(3)
	n := &net{}
	width := len(x[0])
	for _, h := range append(append([]int{}, hidden...), 2) {
		n.layers = append(n.layers, newDense(s, width, h))
		width = h
	}
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	acts, grads := n.buffers(), n.buffers()
	step := adam{m: 0.9, v: 0.999, mt: 1, vt: 1}
	for epoch := range epochs {
		for i := len(order) - 1; i > 0; i-- {
			j := s.below(i + 1)
			order[i], order[j] = order[j], order[i]
		}
		lr := mul(rate, 1-float64(epoch)/epochs)
		for at := 0; at < len(order); at += batch {
			part := order[at:min(at+batch, len(order))]
			for _, row := range part {
				n.gradient(x[row], y[row], 1/float64(len(part)), acts, grads)
			}
			step.apply(n, lr, decay)
		}
	}
	return n
}

// gradient adds the gradient of the loss at one row, times weight.
func (n *net) gradient(x []float64, approved bool, weight float64, acts, grads [][]float64) {
	n.forward(x, acts)
	last := len(n.layers) - 1
	logits := acts[last]
	g := 1 / (1 + exp(clamp(logits[0]-logits[1], -30, 30))) // probability of approval
	if approved {
		g--
	}
	g = mul(g, weight)
	grads[last][0], grads[last][1] = -g, g
	for i := last; i >= 0; i-- {
		if i == 0 {
			n.layers[0].backward(x, grads[0], nil)
			return
		}
		n.layers[i].backward(acts[i-1], grads[i], grads[i-1])
		for j, a := range acts[i-1] {
			if a == 0 { // subgradient of Relu at 0 is 0
				grads[i-1][j] = 0
			}
		}
	}
}

// adam holds the decay rates of the moments and their running powers.
type adam struct{ m, v, mt, vt float64 }

// apply takes one step and clears the gradients.
func (a *adam) apply(n *net, lr, decay float64) {
	a.mt, a.vt = mul(a.mt, a.m), mul(a.vt, a.v)
	for _, d := range n.layers {
		a.update(d.w, d.gw, d.mw, d.vw, lr, decay)
		a.update(d.b, d.gb, d.mb, d.vb, lr, 0)
	}
}

func (a *adam) update(w, g, m, v []float64, lr, decay float64) {
	for i := range w {
		m[i] = mul(a.m, m[i]) + mul(1-a.m, g[i])
		v[i] = mul(a.v, v[i]) + mul(1-a.v, mul(g[i], g[i]))
		rate := m[i] / (1 - a.mt) / (math.Sqrt(v[i]/(1-a.vt)) + 1e-8)
		w[i] -= mul(lr, rate+mul(decay, w[i]))
		g[i] = 0
	}
}
