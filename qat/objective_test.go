package qat

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/recourse/constraint"
)

// forward is the network of a problem with dense layers, in double precision, with parameters as a step has them:
// ratios, logarithms of scales, biases. A single logit z is [0, z].
func (p *problem) forward(slots []paramSlot, params, x []float64) []float64 {
	z, _ := p.through(slots, params, x)
	return z
}

// through is forward, and the gradient by the inputs of the product of the logits with a vector.
func (p *problem) through(slots []paramSlot, params, x []float64) ([]float64, func(g []float64) []float64) {
	v, back := x, func(g []float64) []float64 { return g }
	for i, at := range slots {
		info, in := &p.layers[i].Info, len(v)
		z, w := make([]float64, info.Out), make([]float64, info.Out*in)
		for o := range z {
			f, _ := quant.FormatOf(p.layers[i].Plan.Width(o), false)
			z[o] = params[at.bias+o]
			for j := range v {
				w[o*in+j] = params[at.weights+o*in+j]
				if !p.layers[i].Plan.Float {
					code := min(max(math.RoundToEven(w[o*in+j]), float64(f.QMin)), float64(f.QMax))
					w[o*in+j] = code * math.Exp(params[at.scales+o%(at.bias-at.scales)])
				}
				z[o] += v[j] * w[o*in+j]
			}
		}
		before, last := back, i == len(slots)-1
		back = func(g []float64) []float64 {
			down := make([]float64, in)
			for k, s := range g {
				for j := range down {
					if last || z[k] > 0 {
						down[j] += s * w[k*in+j]
					}
				}
			}
			return before(down)
		}
		v = slices.Clone(z)
		for o := range v {
			if !last {
				v[o] = max(v[o], 0)
			}
		}
	}
	if len(v) == 1 {
		logit := back
		return append([]float64{0}, v...), func(g []float64) []float64 { return logit(g[1:]) }
	}
	return v, back
}

// rowLoss is what a row adds to an objective, as the paper writes it, by its logits.
func rowLoss(objective Objective, p *Points, i int, z []float64, target int, j *trainingJob) float64 {
	var sum float64
	for _, v := range z {
		sum += math.Exp(v)
	}
	entropy := func(class int) float64 { return math.Log(sum) - z[class] }
	label := func() float64 {
		if p.Classes[i] < 0 {
			return 0
		}
		return entropy(p.Classes[i])
	}
	rest := slices.Delete(slices.Clone(z), target, target+1)
	margin := z[target] - slices.Max(rest)
	factual := p.Kind == Factual
	switch objective {
	case Distil:
		d := float64(p.Margins[i])
		return math.Pow(margin-d, 2) / (1 + math.Pow(d/0.15, 2))
	case Validity, Hinge, Match, Group:
		switch {
		case factual:
			return label()
		case objective != Hinge:
			return j.Weights.Of("eta") * entropy(target)
		}
		return j.Weights.Of("eta")*entropy(target) + j.Weights.Of("beta")*max(0, j.Weights.Of("gamma")-margin)
	case RMargin:
		if factual {
			return label()
		}
		return j.Weights.Of("beta") * max(0, j.Weights.Of("gamma")-margin)
	case KD:
		var loss float64
		for c := range z {
			loss += float64(p.Probabilities[i*len(z)+c]) * entropy(c)
		}
		return loss
	}
	return label()
}

// Of every objective the loss is that of the formulas, and its gradient by all parameters through which it is smooth,
// scales, biases and the weights of a layer in float, that of central differences of them.
func TestObjectives(t *testing.T) {
	t.Parallel()
	const rows = 8
	for _, logits := range []int{1, 2, 3} {
		p := wide(t, 11, -1, logits, compute{bits: 3})
		p.layers[1].Plan = quant.Layer{Node: p.layers[1].Info.Node, Float: true}
		m := p.written(t, p.plans())
		for i, doc := range Objectives() {
			if (i+logits)%2 == 0 {
				continue // the other half with the other numbers of logits
			}
			if doc.Ensemble || doc.unrolled() || !doc.Full && !doc.Quantized {
				continue // TestEnsemble, TestMatch; of autoencoders, package fit compares with what the files do
			}
			var used []Points
			r := rand.New(rand.NewPCG(4, 4))
			for k := range Kinds {
				one := must.Get(p.points(context.Background(), r, k, rows))(t)
				one.Source = Spread(rows, rows)
				for i := range rows { // of two attributes; not everyone has a value of the first
					one.Groups = append(one.Groups, [][]float32{{1, 0, 0}, {0, 1, 1}, {0, 0, 1}}[i%3]...)
				}
				if doc.share(k) > 0 {
					used = append(used, one)
				}
			}
			s := compiled(t, p.network(m), Source{Groups: 3}, Spec{
				Objective: doc.Name, Optimizer: Optimizer{Batch: rows},
				Weights: Weights{"eta": 0.7, "beta": 1.3, "gamma": 0.8},
			}, func(j *trainingJob) { j.rows = rows * len(used) })
			trainer := newTrainer(s)
			trainer.replace(used)
			for _, points := range used {
				for i := range rows {
					trainer.put(points.Kind, i)
				}
			}
			all := trainBatch{x: trainer.next.x, columns: map[string][]float32{}}
			for _, c := range trainer.columns {
				all.columns[c.name] = c.values
			}
			loss := func(params []float64) (sum float64) {
				worst, people := make([]float64, 3), make([]float64, 3)
				for k := range used {
					for i := range rows {
						z := p.forward(s.slots, params, wide64(used[k].X[i*p.dim:(i+1)*p.dim]))
						l := rowLoss(doc.Name, &used[k], i, z, m.Target(), s.job)
						if doc.Groups && k == int(Teacher) {
							for g, in := range used[Factual].Groups[3*i : 3*i+3] {
								worst[g], people[g] = worst[g]+l*float64(in), people[g]+float64(in)
							}
							l = 0
						}
						sum += l
					}
				}
				for g := range worst {
					worst[g] /= max(1, people[g])
				}
				return sum + rows*slices.Max(worst)
			}
			checkGradient(t, fmt.Sprintf("%s, %d logits", doc.Name, logits), s, &all, loss)
		}
	}
}

// checkGradient compares the loss of a step and its gradient by scales, by biases and by the weights of layers in float
// with those of a function of the parameters.
func checkGradient(t *testing.T, name string, s *trainStep, b *trainBatch, loss func(params []float64) float64) {
	t.Helper()
	params := make([]float64, len(s.Params))
	for i, v := range s.Params {
		params[i] = float64(v)
	}
	before := slices.Clone(s.Params)
	got := must.Get(s.run(context.Background(), b, 0))(t)
	if want := loss(params); math.Abs(got-want) > 1e-4*want || !(want > 1e-3) {
		t.Errorf("%s: loss %v, want %v", name, got, want)
	}
	must.Same(must.In(t, name), s.Params, before)
	wants, largest := map[int]float64{}, 0.0
	for layer, at := range s.slots {
		from := at.scales
		if s.job.net.Layers[layer].Plan.Float {
			from = at.weights
		}
		for i := from; i < at.end; i++ {
			const h = 1e-5
			old := params[i]
			params[i] = old + h
			up := loss(params)
			params[i] = old - h
			wants[i] = (up - loss(params)) / (2 * h)
			params[i], largest = old, max(largest, math.Abs(wants[i]))
		}
	}
	for i, want := range wants {
		if g := float64(s.First[i]); math.Abs(g-want) > 1e-3*largest { // Adam's sum begins with the gradient
			t.Errorf("%s: gradient by parameter %d is %v, by differences %v", name, i, g, want)
		}
	}
}

// Of an ensemble the loss and its gradient are those of the formulas: the mean of the members' cross-entropies at rows,
// and the variance of their logits at recourse points.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	const rows, dim, members = 4, 3, 3
	m := graphOf(-1, dim)
	b := graph.NewBuilder(m.Graph, "")
	r := rand.New(rand.NewPCG(8, 8))
	var logits []string
	for range members {
		w, bias := graph.FromFloats("w", normal(r, 2*dim), 2, dim), graph.FromFloats("b", normal(r, 2), 2)
		logits = append(logits, b.Op("Gemm", []string{"x", b.Const(w), b.Const(bias)}, graph.IntAttr("transB", 1)))
	}
	sum := b.Op("Add", []string{b.Op("Add", logits[:2]), logits[2]})
	mean := b.Op("Mul", []string{sum, b.Const(graph.FromFloats("share", []float32{1. / members}))})
	m.Graph.Outputs = []graph.Value{{Name: mean, DType: graph.Float}}
	infos := must.Get(quant.FindLayers(m))(t)
	var layers []Layer
	for _, info := range infos {
		layers = append(layers, Layer{Info: info, Plan: quant.Layer{Node: info.Node, Float: true}})
	}
	spec := Spec{
		Objective: RConsistency, Optimizer: Optimizer{Batch: 2 * rows}, Weights: Weights{"eta": 0.7},
	}
	net := Network{Model: open(t, m), Layers: layers}
	must.Fail(t, must.Err(spec.resolve(net, Source{})), "members")
	net.Members = logits
	s := compiled(t, net, Source{}, spec, nil)
	x := normal(r, 2*rows*dim)
	all := trainBatch{x: x, columns: map[string][]float32{}}
	for i := range 2 * rows {
		p := &Points{Kind: Factual, Classes: []int{1, 0, -1, 1}}
		if i >= rows {
			p.Kind = Student
		}
		for _, term := range s.job.objective.terms() {
			for _, c := range term.columns {
				row := make([]float32, c.width(s.job))
				c.fill(row, p, i%rows, s.job)
				all.columns[c.name] = append(all.columns[c.name], row...)
			}
		}
	}
	logit := func(params []float64, member, row, class int) float64 {
		at := s.slots[member]
		z := params[at.bias+class]
		for j := range dim {
			z += params[at.weights+class*dim+j] * float64(x[row*dim+j])
		}
		return z
	}
	loss := func(params []float64) (sum float64) {
		for k := range members {
			for i, class := range []int{1, 0, -1, 1} {
				if class >= 0 {
					sum += math.Log1p(math.Exp(logit(params, k, i, 1-class)-logit(params, k, i, class))) / members
				}
			}
			for i := rows; i < 2*rows; i++ {
				for class := range 2 {
					mean := (logit(params, 0, i, class) + logit(params, 1, i, class) + logit(params, 2, i, class)) / members
					sum += 0.7 * math.Pow(logit(params, k, i, class)-mean, 2) / members
				}
			}
		}
		return sum
	}
	checkGradient(t, "ensemble", s, &all, loss)
}

// Objectives of the paper have a use for teacher points, not for those of the student, and KD and task for neither.
func TestPointsOfObjectives(t *testing.T) {
	t.Parallel()
	p := mlp(t, 2, compute{bits: 4})
	m := p.written(t, p.plans())
	for _, doc := range Objectives() {
		net := p.network(m)
		net.Members = []string{"any"}
		j := must.Get((Spec{Objective: doc.Name}).resolve(net, Source{Groups: 1, Set: &constraint.Set{}}))(t)
		tr := newTrainer(&trainStep{job: j})
		d := must.Get(p.draw(t.Context(), 0, [Kinds]int{}, nil))(t)
		d.Points[Factual].Groups = make([]float32, 200)
		tr.replace(d.Points)
		want := [Kinds]int{Factual: 200}
		if doc.Recourse {
			want[Teacher] = 200
		}
		if doc.Recourse && !doc.needsPairs() {
			want[Student] = 200
		}
		var seen [Kinds]int
		for k := range tr.pools {
			seen[k] = tr.rows(Kind(k))
		}
		must.Same(must.In(t, doc.Name), want, seen)
	}
}

// A person counts by the margin of the model that is nearer to the decision boundary, fully if the models decide
// differently, and people are drawn as often as they count on average.
func TestPeopleNearBoundary(t *testing.T) {
	t.Parallel()
	p := small(t)
	trainer := newTrainer(compiled(t, p.network(p.written(t, p.plans())), p.source(),
		Spec{Optimizer: Optimizer{Batch: 512, Seed: 5}}, nil))
	people := Points{
		Kind: Factual, X: make([]float32, 5*p.dim),
		Margins: []float32{0.15, 3, -3, 0.6, -0.3}, StudentMargins: []float32{0.15, 3, 3, 0.15, -0.3},
	}
	points := []Points{people}
	for k := range Kinds {
		if k != Factual {
			points = append(points, Points{Kind: k, X: make([]float32, 2*p.dim), Margins: []float32{9, 9}})
		}
	}
	trainer.replace(points)
	want := []float64{0.5, 1. / 401, 1, 0.5, 0.2}
	mean := 0.0
	for i, w := range want {
		must.Near(must.In(t, i), w, float64(personWeight(&people, i, nil)), 1e-6)
		mean += w / float64(len(want))
	}
	drawn, all := 0, 0
	for range 20 {
		must.Do(t, trainer.draw(t.Context()))
		for _, v := range trainer.next.columns[weightName] {
			if v > 1./400 {
				drawn++
			}
			all++
		}
		trainer.Steps++
	}
	// One of the five people counts as little as no point near the boundary would.
	expected := mean * 4 / 5
	must.Near(t, expected, float64(drawn)/float64(all), 5*math.Sqrt(expected*(1-expected)/float64(all)))
}
