package autodiff

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

func products() []Operator {
	return []Operator{
		{Name: "Einsum", infer: func(c *Call) []graph.Type {
			_, out, sizes := c.equation()
			return single(c.types[0].DType, shapeFor(out, sizes))
		}, expand: func(c *Call) string {
			in, out, sizes := c.equation()
			t := einsumTerm{c.in(0), in[0]}
			for i := 1; i < len(in); i++ {
				later := out + strings.Join(in[i+1:], "")
				t = c.contract(t, einsumTerm{c.in(i), in[i]}, later, sizes)
			}
			return c.arranged(c.summed(t, out), out)
		}},
		{Name: "Attention", need: 3, infer: func(c *Call) []graph.Type {
			q, v := c.types[0], c.types[2]
			at := len(q.Shape) - 1
			c.failIf(at < 2 || at > 3 || len(v.Shape) != at+1, "queries %v and values %v", q, v)
			numbers := v.Shape[at]
			if at == 2 {
				heads, shared := c.Node.Int("q_num_heads", 0), c.Node.Int("kv_num_heads", 0)
				c.failIf(heads < 1 || shared < 1 || numbers.Size < 0, "%d and %d heads of values %v", heads, shared, v)
				numbers.Size = numbers.Size / shared * heads
			}
			return single(q.DType, replaced(q.Shape, int64(at), numbers))
		}, expand: attention},
		{Name: "RotaryEmbedding", need: 3, expand: rotary},
	}
}

type einsumTerm struct {
	value   string
	letters string
}

func (c *Call) equation() (in []string, out string, sizes map[rune]graph.Dim) {
	ranks := lists.Map(c.types, func(t graph.Type) int { return len(t.Shape) })
	in, out, err := Equation(c.Node, ranks...)
	if err != nil {
		panic(failure{err})
	}
	sizes = map[rune]graph.Dim{}
	for i, letters := range in {
		for k, l := range letters {
			d := c.types[i].Shape[k]
			if have, known := sizes[l]; !known || have.Size < 0 && d.Size >= 0 {
				sizes[l] = d
			}
		}
	}
	return in, out, sizes
}

// Equation returns the letters of the operands, of the given ranks, and of the output of the Einsum n. The axes that an
// ellipsis stands for get capital letters from the back of the alphabet, the last axis always the same.
func Equation(n *graph.Node, ranks ...int) (in []string, out string, err error) {
	text := strings.ReplaceAll(n.Text("equation", ""), " ", "")
	left, out, explicit := strings.Cut(text, "->")
	in = strings.Split(left, ",")
	if len(in) != len(n.Inputs) || len(in) != len(ranks) {
		return nil, "", fmt.Errorf("equation %q for %d operands", text, len(n.Inputs))
	}
	const rest = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	most := 0
	for i, letters := range in {
		named := strings.Replace(letters, "...", "", 1)
		n := ranks[i] - len(named) // axes that the ellipsis stands for
		other := func(l rune) bool { return !strings.ContainsRune(rest+strings.ToLower(rest), l) }
		if n < 0 || n > len(rest) || n > 0 && named == letters || strings.ContainsFunc(named, other) {
			return nil, "", fmt.Errorf("equation %q for operand %d of rank %d", text, i, ranks[i])
		}
		most = max(most, n)
		letters = strings.Replace(letters, "...", rest[len(rest)-n:], 1)
		for _, l := range letters {
			if strings.Count(letters, string(l)) > 1 {
				return nil, "", fmt.Errorf("equation %q takes a diagonal: %q stands twice in operand %d", text, l, i)
			}
		}
		in[i] = letters
	}
	ellipsis := rest[len(rest)-most:]
	if !explicit {
		all := strings.Join(in, "")
		once := []rune(keep(all, func(l rune) bool {
			return strings.Count(all, string(l)) == 1 && !strings.ContainsRune(ellipsis, l)
		}))
		slices.Sort(once)
		out = ellipsis + string(once)
	}
	out = strings.Replace(out, "...", ellipsis, 1)
	for i, l := range out {
		if !strings.ContainsRune(strings.Join(in, ""), l) || strings.ContainsRune(out[:i], l) {
			return nil, "", fmt.Errorf("equation %q: the output has %q", text, l)
		}
	}
	return in, out, nil
}

func shapeFor(letters string, sizes map[rune]graph.Dim) graph.Shape {
	return lists.Map([]rune(letters), func(l rune) graph.Dim { return sizes[l] })
}

func keep(letters string, f func(l rune) bool) string {
	return string(lists.Filter([]rune(letters), f))
}

func (c *Call) summed(t einsumTerm, needed string) einsumTerm {
	var axes []int64
	for i, l := range t.letters {
		if !strings.ContainsRune(needed, l) {
			axes = append(axes, int64(i))
		}
	}
	if axes == nil {
		return t
	}
	kept := keep(t.letters, func(l rune) bool { return strings.ContainsRune(needed, l) })
	return einsumTerm{c.reduce("ReduceSum", t.value, 0, axes...), kept}
}

func (c *Call) arranged(t einsumTerm, letters string) string {
	if t.letters == letters {
		return t.value
	}
	perm := lists.Map([]rune(letters), func(l rune) int64 { return int64(strings.IndexRune(t.letters, l)) })
	return c.transpose(t.value, perm...)
}

// contract is the product of a and b, summed over the letters that are not needed later: those that both
// have and need are the batch of a MatMul, those that both have and do not need its inner axis.
func (c *Call) contract(a, b einsumTerm, later string, sizes map[rune]graph.Dim) einsumTerm {
	a, b = c.summed(a, b.letters+later), c.summed(b, a.letters+later)
	both := func(l rune) bool { return strings.ContainsRune(a.letters, l) && strings.ContainsRune(b.letters, l) }
	needed := func(l rune) bool { return strings.ContainsRune(later, l) }
	batch := keep(a.letters, func(l rune) bool { return both(l) && needed(l) })
	inner := keep(a.letters, func(l rune) bool { return both(l) && !needed(l) })
	rows := keep(a.letters, func(l rune) bool { return !both(l) })
	cols := keep(b.letters, func(l rune) bool { return !both(l) })
	result := batch + rows + cols
	if inner == "" && rows == "" && cols == "" {
		return einsumTerm{c.mul(c.arranged(a, batch), c.arranged(b, batch)), batch}
	}
	size := func(letters string) graph.Dim { return shapeFor(letters, sizes).Elements() }
	stack := shapeFor(batch, sizes)
	left := c.shaped(c.arranged(a, batch+rows+inner), slices.Concat(stack, graph.Shape{size(rows), size(inner)}))
	right := c.shaped(c.arranged(b, batch+inner+cols), slices.Concat(stack, graph.Shape{size(inner), size(cols)}))
	return einsumTerm{c.shaped(c.op("MatMul", left, right), shapeFor(result, sizes)), result}
}

// shaped gives a the shape to, of which at most one size may be variable.
func (c *Call) shaped(a string, to graph.Shape) string {
	if sameShape(c.Type(a).Shape, to) {
		return a
	}
	v := sizes(to)
	free := 0
	for i, d := range to {
		switch {
		case d.Size >= 0:
		case i < len(c.Type(a).Shape) && slices.EqualFunc(c.Type(a).Shape[:i+1], to[:i+1], sameDim) && d.Param != "":
			v[i] = 0 // copied
		default:
			free++
		}
	}
	c.failIf(free > 1, "more than one axis of %v is of a variable size", to)
	return c.op("Reshape", a, c.b.vector(v...))
}

// heads returns Q, K and V as rows x heads x sequence x numbers, and whether they came without heads.
func (c *Call) heads() (q, k, v string, flat bool) {
	split := func(i int, attr string) string {
		if len(c.types[i].Shape) == 4 {
			return c.in(i)
		}
		flat = true
		return c.transpose(c.withHeads(c.in(i), attr), 0, 2, 1, 3)
	}
	return split(0, "q_num_heads"), split(1, "kv_num_heads"), split(2, "kv_num_heads"), flat
}

// withHeads turns rows x sequence x numbers into rows x sequence x heads x numbers.
func (c *Call) withHeads(x, attr string) string {
	s, n := c.Type(x).Shape, c.Node.Int(attr, 0)
	c.failIf(len(s) != 3 || n < 1 || s[2].Size < 0 || s[2].Size%n != 0, "%s %d for %v", attr, n, c.Type(x))
	return c.shaped(x, graph.Shape{s[0], s[1], {Size: n}, {Size: s[2].Size / n}})
}

func attention(c *Call) string {
	for _, i := range []int{4, 5, 6} {
		c.failIf(c.in(i) != "", "it has a cache of keys (input %d): export the model without one", i)
	}
	c.failIf(slices.ContainsFunc(c.Node.Outputs[1:], func(o string) bool { return o != "" }),
		"outputs other than the first are used")
	q, k, v, flat := c.heads()
	sq, sk := c.Type(q).Shape, c.Type(k).Shape
	if len(sq) != 4 || len(sk) != 4 || sq[3].Size < 1 || sq[1].Size < 1 || sk[1].Size < 1 || sq[1].Size%sk[1].Size != 0 {
		return c.Fail("queries %v and keys %v", c.Type(q), c.Type(k))
	}
	if n := sq[1].Size / sk[1].Size; n > 1 { // several heads of queries share one of keys
		k, v = c.repeated(k, n), c.repeated(v, n)
	}
	scale := c.float("scale", float32(1/math.Sqrt(float64(sq[3].Size))))
	z := c.masked(c.op("MatMul", c.scale(q, scale), c.transposed(k)))
	y := c.Op("MatMul", []string{c.Op("Softmax", []string{z}, graph.IntAttr("axis", -1)), v})
	if flat {
		s := c.Type(y).Shape
		y = c.transpose(y, 0, 2, 1, 3)
		y = c.shaped(y, graph.Shape{s[0], s[2], graph.Shape{s[1], s[3]}.Elements()})
	}
	return y
}

func (c *Call) repeated(a string, n int64) string {
	s := c.Type(a).Shape
	a = c.op("Unsqueeze", a, c.b.vector(2))
	a = c.op("Expand", a, c.b.vector(1, 1, n, 1, 1))
	return c.shaped(a, graph.Shape{s[0], {Size: s[1].Size * n}, s[2], s[3]})
}

func (c *Call) masked(z string) string {
	mask := c.in(3)
	if limit := c.float("softcap", 0); limit != 0 {
		c.failIf(mask != "" || c.Node.Int("is_causal", 0) != 0,
			"softcap together with a mask: the order of the two differs between operator sets")
		z = c.scale(c.op("Tanh", c.scale(z, 1/limit)), limit)
	}
	if c.Node.Int("is_causal", 0) != 0 {
		s := c.Type(z).Shape
		rows, cols := s[2].Size, s[3].Size
		c.failIf(rows < 0 || cols < 0 || rows*cols > largestConstant,
			"is_causal with the scores %v: the sequence must be of constant length", c.Type(z))
		seen := &graph.Tensor{DType: graph.Bool, Dims: []int64{rows, cols}, Raw: make([]byte, rows*cols)}
		for i := range rows {
			for k := range min(i+1, cols) {
				seen.Raw[i*cols+k] = 1
			}
		}
		z = c.where(c.b.constant(seen), z, c.Scalar(z, math.Inf(-1)))
	}
	switch {
	case mask == "":
		return z
	case c.Type(mask).DType == graph.Bool:
		return c.where(mask, z, c.Scalar(z, math.Inf(-1)))
	}
	return c.add(z, mask)
}

// rotary turns pairs (a, b) of numbers to (a·cos − b·sin, a·sin + b·cos).
func rotary(c *Call) string {
	x, s := c.x(), c.Type(c.x()).Shape
	heads := len(s) == 4
	if len(s) == 3 {
		x = c.withHeads(x, "num_heads")
	} else if heads {
		x = c.transpose(x, 0, 2, 1, 3)
	}
	t := c.Type(x).Shape // rows, sequence, heads, numbers
	c.failIf(len(t) != 4 || t[3].Size < 2, "%v is neither of rank 3 nor 4", c.Type(c.x()))
	n := c.Node.Int("rotary_embedding_dim", 0)
	if n == 0 {
		n = t[3].Size
	}
	c.failIf(n%2 != 0 || n < 2 || n > t[3].Size, "rotary_embedding_dim %d of %d", n, t[3].Size)
	part := func(from, to int64) string { return c.slice(x, []int64{from}, []int64{to}, []int64{3}) }
	angles := func(i int) string {
		a := c.in(i)
		if p := c.in(3); p != "" {
			a = c.Op("Gather", []string{a, p}, graph.IntAttr("axis", 0))
		}
		return c.op("Unsqueeze", a, c.b.vector(2)) // the same for all heads
	}
	cos, sin := angles(1), angles(2)
	turned := func(a, b string) (string, string) {
		return c.sub(c.mul(a, cos), c.mul(b, sin)), c.add(c.mul(a, sin), c.mul(b, cos))
	}
	join := func(axis int64, parts ...string) string { return c.Op("Concat", parts, graph.IntAttr("axis", axis)) }
	rest := t[3].Size - n
	whole := x
	if rest > 0 {
		whole = part(0, n)
	}
	var y string
	if c.Node.Int("interleaved", 0) != 0 {
		pairs := c.shaped(whole, graph.Shape{t[0], t[1], t[2], {Size: n / 2}, {Size: 2}})
		one := func(i int64) string {
			return c.Op("Gather", []string{pairs, c.b.constant(graph.FromInts("", []int64{i}))}, graph.IntAttr("axis", 4))
		}
		a, b := turned(one(0), one(1))
		last := c.b.vector(4)
		y = join(4, c.op("Unsqueeze", a, last), c.op("Unsqueeze", b, last))
		y = c.shaped(y, graph.Shape{t[0], t[1], t[2], {Size: n}})
	} else {
		a, b := turned(part(0, n/2), part(n/2, n))
		y = join(3, a, b)
	}
	if rest > 0 {
		y = join(3, y, part(n, t[3].Size))
	}
	if heads {
		return c.transpose(y, 0, 2, 1, 3)
	}
	return c.shaped(y, s)
}
