package qat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/recourse"
)

// Names of the columns of the matching term; those of a step end in its number.
const (
	pointName  = "qat.point"  // where the step begins
	sizeName   = "qat.size"   // alpha
	activeName = "qat.active" // inputs that the projected action of the step changes
	actionName = "qat.action" // the student's, after the last step
	wantedName = "qat.wanted" // the teacher's
	priceName  = "qat.price"  // gradient of the cost by the student's action
	dearerName = "qat.dearer" // what the cost is more than by the prices and than the teacher's
)

// Values of the student's graph.
const (
	marginOut = "qat.margin"
	gradOut   = "qat.gradient"
)

// projection is the model-local function that stands for a projected step: its value, and the step before projection,
// through which the gradient goes.
const projection = "Projection"

// attached returns the value of a projected step. The projection is data; its gradient is that of the identity on
// inputs that remain active after it, and zero elsewhere.
//
// Reference: section Gradient Flow in the Matching Regularizer.
func (b *stepBuilder) attached(projected, step, active string) string {
	const domain = "cfq"
	m := b.t.Graph
	if b.policy[domain+"."+projection] == nil {
		m.SetOpset(domain, 1)
		m.Functions = append(m.Functions, &graph.Function{
			Name: projection, Domain: domain, Opsets: []graph.Opset{{Version: m.Opset("")}},
			Inputs: []string{"v", "u", "a"}, Outputs: []string{"y"},
			Nodes: []*graph.Node{{Op: "Identity", Inputs: []string{"v"}, Outputs: []string{"y"}}},
		})
		b.policy[domain+"."+projection] = func(c *autodiff.Call, i int) string {
			if i != 1 {
				return ""
			}
			return c.Op("Mul", []string{c.Grad(), c.Node.Input(2)})
		}
	}
	out := b.Name("projected")
	b.t.Types[out] = b.t.Types[projected]
	b.Append(&graph.Node{
		Op: projection, Domain: domain, Name: out, Inputs: []string{projected, step, active}, Outputs: []string{out},
	})
	return out
}

// matchTerm is the matching loss of the student's K projected steps, unrolled: the gradient by the parameters goes
// through that of the network by its inputs at every step. The cost is linear around the student's action, which
// makes its gradient that of the cost.
//
// References: L_match of section CFQ objective; equations app_student_unroll and app_match_perex.
func matchTerm() lossTerm {
	return lossTerm{reduced: true, build: func(b *stepBuilder) string {
		dim := b.job.net.Model.Dim()
		column := func(name string, width int) string { return b.column(name, b.job.Batch, width) }
		var at, step, active string
		for t := range b.job.source.Teacher.Steps {
			point := column(fmt.Sprint(pointName, t), dim)
			if t > 0 {
				at = b.attached(point, step, active)
			} else {
				at = point
			}
			grad := b.slope(at, t)
			step = b.Op("Sub", []string{at, b.Op("Mul", []string{grad, column(fmt.Sprint(sizeName, t), 1)})})
			active = column(fmt.Sprint(activeName, t), dim)
		}
		action := b.attached(column(actionName, dim), step, active)
		sum := func(v string) string { return b.reduce("ReduceSum", v, 1) }
		away := b.Op("Abs", []string{b.Op("Sub", []string{action, column(wantedName, dim)})})
		cost := b.Op("Add", []string{
			sum(b.Op("Mul", []string{action, column(priceName, dim)})), column(dearerName, 1),
		})
		return b.Op("Add", []string{
			b.Op("Mul", []string{sum(away), b.scalar(b.job.Weights.Of("alpha1"))}),
			b.Op("Mul", []string{b.Op("Abs", []string{cost}), b.scalar(b.job.Weights.Of("alpha2"))}),
		})
	}}
}

// slope appends a copy of the network that looks at people's points, rows x inputs, and returns the gradient by these
// of the cross-entropy with the target class.
func (b *stepBuilder) slope(points string, n int) string {
	input := b.t.Graph.Graph.DataInputs()[0].Name
	at := points
	if dims := b.dims(input); len(dims) > 2 {
		dims[0] = int64(b.job.Batch)
		at = b.reshape(points, dims...)
	}
	names := map[string]string{input: at}
	types := graph.Types{}
	needed := b.G.Needed(b.t.Margin, b.t.Logits)
	for _, node := range slices.Clone(b.G.Nodes) {
		c := *node
		c.Inputs, c.Outputs = slices.Clone(node.Inputs), slices.Clone(node.Outputs)
		for i, v := range c.Inputs {
			c.Inputs[i] = cmp.Or(names[v], v)
		}
		if !needed[node] || slices.Equal(c.Inputs, node.Inputs) {
			continue
		}
		c.Name = b.Name("at")
		for i, v := range c.Outputs {
			if v == "" {
				continue
			}
			c.Outputs[i] = fmt.Sprintf("qat.at%d.%s", n, v)
			names[v] = c.Outputs[i]
			if t, ok := b.whole[v]; ok {
				types[c.Outputs[i]] = t
			}
		}
		b.Append(&c)
	}
	fixBatch(types, b.whole[input].Shape[0], b.job.Batch)
	maps.Copy(b.t.Types, types)
	return b.lossGradient(points, names[b.t.Margin], names[b.t.Logits], fmt.Sprintf("qat.d%d.", n))
}

// lossGradient appends the gradient by x of the cross-entropy with the target class. For two classes it is the
// margin's times -sigmoid(-margin), which takes fewer nodes.
func (b *stepBuilder) lossGradient(x, margin, logits, prefix string) string {
	y, o := margin, autodiff.Options{Prefix: prefix, Policy: b.policy}
	if b.job.classes > 2 {
		y = b.targetLosses(logits)
	} else {
		o.Seed = b.Op("Neg", []string{b.Op("Sigmoid", []string{b.Op("Neg", []string{margin})})})
	}
	grads, err := autodiff.Gradients(b.G, b.t.Types, y, []string{x}, o)
	if err != nil {
		b.err = errors.Join(b.err, fmt.Errorf("gradient by the inputs: %w", err))
		return x
	}
	return grads[0]
}

// openStudent opens the session of the network's gradient by its inputs, of a graph that computes with the
// parameters, for any number of rows.
func (s *trainStep) openStudent(b *stepBuilder) (*ort.Session, error) {
	m := b.t.Graph.Clone()
	t := *b.t
	t.Graph, t.Types = m, graph.Types{}
	for v, typ := range b.t.Types {
		if whole, ok := b.whole[v]; ok {
			typ = whole
		}
		t.Types[v] = typ
	}
	c := &stepBuilder{Builder: graph.NewBuilder(m.Graph, "qat.s."), t: &t, policy: b.policy, job: b.job}
	grad := c.lossGradient(s.job.net.Model.Input().Name, t.Margin, t.Logits, "qat.ds.")
	for from, to := range map[string]string{t.Margin: marginOut, grad: gradOut} {
		c.Append(&graph.Node{Op: "Identity", Name: to, Inputs: []string{from}, Outputs: []string{to}})
	}
	m.Graph.Inputs = slices.DeleteFunc(m.Graph.Inputs, func(v graph.Value) bool { return v.Name == lambdaName })
	m.Graph.Outputs = floatValues(marginOut, gradOut)
	if c.err != nil {
		return nil, c.err
	}
	return ort.Open(m, s.job.net.Model.Engine())
}

func (t *trainer) match(ctx context.Context) error {
	dim, batch := t.Dim(), t.job.Batch
	// Of those who have a teacher point, in the order of these.
	slots := lists.Where(len(t.pairs.taught), func(k int) bool { return t.pairs.taught[k] >= 0 })
	people := lists.RowsAt(t.pairs.people, 1, slots)
	x, taught := t.next.x[:batch*dim], t.next.x[batch*dim:]
	from, steps := &t.job.source, recourse.Trace{}
	o := from.Teacher
	o.Progress, o.Workers, o.Sample, o.Noise, o.Trace = nil, 1, 0, 0, &steps
	persons := lists.RowsAt(t.pools[Factual].X, dim, people)
	if _, err := recourse.Teacher(ctx, t, from.Set.Select(people), persons, o); err != nil {
		return fmt.Errorf("the student's recourse: %w", err)
	}
	column := func(name string, width int) []float32 {
		v := t.next.columns[name]
		if len(v) != batch*width {
			v = make([]float32, batch*width)
		}
		clear(v)
		t.next.columns[name] = v
		return v
	}
	action, want, price := column(actionName, dim), column(wantedName, dim), column(priceName, dim)
	dearer := column(dearerName, 1)
	var before []float32
	for k := range o.Steps {
		point, size, active := column(fmt.Sprint(pointName, k), dim), column(fmt.Sprint(sizeName, k), 1),
			column(fmt.Sprint(activeName, k), dim)
		copy(point, x)
		after := steps.Actions[k]
		for i, at := range slots {
			size[at] = steps.Sizes[k][i]
			for j := range dim {
				if before != nil {
					point[at*dim+j] += before[i*dim+j]
				}
				if after[i*dim+j] != 0 {
					active[at*dim+j] = 1
				}
			}
		}
		before = after
	}
	for i, at := range slots {
		person, set := persons[i*dim:(i+1)*dim], from.Set.Person(people[i])
		own, theirs := before[i*dim:(i+1)*dim], want[at*dim:(at+1)*dim]
		copy(action[at*dim:], own)
		for j := range theirs { // where both end at the same point, rounding must not make a difference that counts
			if theirs[j] = taught[i*dim+j] - person[j]; person[j]+own[j] == taught[i*dim+j] {
				theirs[j] = own[j]
			}
		}
		slope := price[at*dim : (at+1)*dim]
		set.Slope(person, own, slope)
		more := set.Cost(person, own) - set.Cost(person, theirs)
		for j, p := range slope {
			more -= float64(p) * float64(own[j])
		}
		dearer[at] = float32(more)
	}
	return nil
}
