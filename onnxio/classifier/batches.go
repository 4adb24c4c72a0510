package classifier

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"cfq/onnxio/graph"
)

// Place is a row in a batch.
type Place struct {
	Batch []float32 // rows x Dim
	At    int       // the row
}

// agreement is how far, relative to the largest number of a value, float32 may round it differently.
const agreement = 1e-5

// Divergence is how one row's outputs in two batches part.
type Divergence struct {
	// Nodes are those from which the logits begin to differ: a node whose outputs differ by more than rounding although
	// its inputs do not. A quantizer whose code is another by one does so by rounding and is not among them.
	Nodes []string
	// Same says that the logits agree, so that the graph as it is written does not depend on the batch.
	Same bool
}

// Diverging compares rows, each in two batches, with every value of the graph exposed and nothing fused.
func (c *Model) Diverging(ctx context.Context, pairs [][2]Place) ([]Divergence, error) {
	s, err := c.Exposed()
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	out := make([]Divergence, len(pairs))
	producers := c.Graph().Graph.Producers()
	for k, pair := range pairs {
		var values [2]map[string]*graph.Tensor
		for i, p := range pair {
			all, err := s.Run(ctx, []*graph.Tensor{c.feed(p.Batch)})
			if err != nil {
				return nil, fmt.Errorf("a batch of %d rows: %w", len(p.Batch)/c.Dim(), err)
			}
			values[i] = map[string]*graph.Tensor{}
			for _, t := range all {
				values[i][t.Name] = t
			}
		}
		d := divergence{c: c, a: pair[0], b: pair[1], in: values, seen: map[string]bool{}, producers: producers}
		if out[k].Same = d.apart(c.logits) == 0; !out[k].Same {
			d.trace(c.logits)
			out[k].Nodes = d.nodes
		}
	}
	return out, nil
}

type divergence struct {
	c         *Model
	a, b      Place
	in        [2]map[string]*graph.Tensor
	producers map[string]*graph.Node
	seen      map[string]bool
	nodes     []string
}

func (d *divergence) trace(value string) {
	n := d.producers[value]
	if d.seen[value] || n == nil {
		return
	}
	d.seen[value] = true
	from := slices.DeleteFunc(slices.Clone(n.Inputs), func(in string) bool { return d.apart(in) == 0 })
	for _, in := range from {
		d.trace(in)
	}
	jumps := n.Is("QuantizeLinear") && d.apart(value) <= 1 // at the middle between two codes
	if label := n.Label(); len(from) == 0 && !jumps && !slices.Contains(d.nodes, label) {
		d.nodes = append(d.nodes, label)
	}
}

// apart returns by how much the row's part of a value differs, 0 when by rounding only. Values that no node makes do
// not differ.
func (d *divergence) apart(value string) float64 {
	a, b := d.in[0][value], d.in[1][value]
	if a == nil || b == nil {
		return 0
	}
	x, errX := a.Numbers()
	y, errY := b.Numbers()
	if errX != nil || errY != nil {
		return 0
	}
	x, y = d.part(a, x, d.a), d.part(b, y, d.b)
	if len(x) != len(y) {
		return math.Inf(1)
	}
	var largest, apart float64
	for i := range x {
		if math.IsNaN(x[i]) != math.IsNaN(y[i]) {
			return math.Inf(1)
		}
		largest, apart = max(largest, math.Abs(x[i])), max(apart, math.Abs(x[i]-y[i]))
	}
	if float := a.DType == graph.Float || a.DType == graph.Double; float && apart <= agreement*largest {
		return 0
	}
	return apart
}

func (d *divergence) part(t *graph.Tensor, v []float64, p Place) []float64 {
	rows := max(len(p.Batch)/d.c.Dim(), d.c.Fixed())
	inner := len(v)
	for k, size := range d.c.Types()[t.Name].Shape {
		have := int(t.Dims[k])
		if inner /= max(have, 1); size.Size >= 0 && d.c.Fixed() != have || have%rows != 0 {
			continue
		}
		each := have / rows * inner // numbers of one row in each of the outer parts
		var own []float64
		for from := p.At * each; from < len(v); from += have * inner {
			own = append(own, v[from:from+each]...)
		}
		return own
	}
	return v
}

// Mixing is why a model's margins are not those of its rows alone.
type Mixing struct {
	Nodes  []string // from which values depend on the batch, as far as the graph shows it
	Apart  float64  // the difference that was seen, in logits
	Rows   int      // of the batch
	failed error    // the model does not run on so many rows
}

func (x *Mixing) Error() string {
	if x.failed != nil {
		return fmt.Sprintf("the model does not run in a batch of %d: %v", x.Rows, x.failed)
	}
	where := "no single node of the graph shows where"
	if len(x.Nodes) > 0 {
		where = "from " + strings.Join(x.Nodes, ", ") + " on"
	}
	return fmt.Sprintf("the outcome of a row depends on the other rows of its batch, %s (in a batch of %d, margins "+
		"differ by up to %.3g from those of rows alone): a person is scored alone, so export a model that leaves axis 0, "+
		"that of the batch, alone", where, x.Rows, x.Apart)
}

// Mixes says how outcomes depend on the batch, as far as SeparateRows found it; nil when they do not.
func (c *Model) Mixes() *Mixing { return c.mixing }

// InBatch is Margins of rows that run as one batch, where the model takes so many, also of a model that Mixes.
func (c *Model) InBatch(ctx context.Context, x []float32) ([]float32, error) {
	s, err := c.session("forward", c.forward)
	if err != nil {
		return nil, err
	}
	var margins []float32
	for batch := range slices.Chunk(x, cmp.Or(c.Fixed()*c.Dim(), len(x), 1)) {
		out := make([][]float32, 1)
		if err := c.runBatch(ctx, s, batch, []want{{name: c.logits, size: c.classes}}, out); err != nil {
			return nil, err
		}
		margins = append(margins, c.marginsOf(out[0], c.classes)...)
	}
	return margins, nil
}

const (
	smallBatch, largeBatch = 64, 2048
	smallBatches           = 8
	mixedNumbers           = 1 << 22 // of the largest value of a batch
)

// SeparateRows compares margins of random rows alone with those in batches of 1 to 64 rows, by a fixed seed, and in one
// of 2,048. A model in which they differ runs row by row from then on, see Mixes. It must not be in use.
func (c *Model) SeparateRows(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(2, 0xba7c4))
	most := cmp.Or(c.Fixed(), largeBatch)
	t := &mixingTest{c: c, rng: rng, rows: min(max(mixedNumbers/largestValue(c.Model), 2), largeBatch, most)}
	if _, err := c.session("forward", c.forward); err != nil {
		return nil //nolint:nilerr // whoever runs it is told
	}
	for i, number := range []func() float32{
		func() float32 { return float32(rng.NormFloat64()) },
		func() float32 { return float32(rng.NormFloat64() * math.Exp(2*rng.NormFloat64())) }, // columns as they are
		rng.Float32, // numbers that are indices are all 0
	} {
		if c.mixing != nil || t.rows < 2 || i == 2 && t.ran {
			break
		}
		x, err := t.run(ctx, number)
		if ctx.Err() != nil || err != nil {
			return fmt.Errorf("rows in other batches: %w", cmp.Or(ctx.Err(), err))
		}
		c.mixing = x
	}
	if c.mixing != nil {
		c.o.Batch = 1
	}
	return nil
}

type mixingTest struct {
	c     *Model
	rng   *rand.Rand
	rows  int
	x     []float32
	alone []float32 // margins of the first rows
	scale float64   // the largest of them
	ran   bool      // on some numbers
}

// run returns nil, too, where the model takes no such numbers.
func (t *mixingTest) run(ctx context.Context, number func() float32) (*Mixing, error) {
	t.x = make([]float32, t.rows*t.c.Dim())
	for i := range t.x {
		t.x[i] = number()
	}
	t.alone, t.scale = nil, 0
	some := min(t.rows, smallBatch)
	for k := range some {
		m, err := t.c.InBatch(ctx, t.of([]int{k}))
		if err != nil {
			return t.fails(ctx, 1, err), nil
		}
		t.alone = append(t.alone, m[0])
		if v := math.Abs(float64(m[0])); !math.IsInf(v, 0) {
			t.scale = max(t.scale, v) // not for NaN
		}
	}
	for i := range smallBatches + 1 {
		batch := t.rng.Perm(some)[:1+t.rng.IntN(some)]
		if i == smallBatches {
			batch = t.rng.Perm(t.rows)
		}
		m, err := t.c.InBatch(ctx, t.of(batch))
		if err != nil {
			return t.fails(ctx, len(batch), err), nil
		}
		worst, apart := -1, 0.0
		for at, k := range batch {
			if k < some && t.differ(m[at], t.alone[k], 1e-4) {
				if x := math.Abs(float64(m[at] - t.alone[k])); worst < 0 || x > apart {
					worst, apart = at, x
				}
			}
		}
		if worst >= 0 {
			if x, err := t.confirm(ctx, batch, worst, m[worst]); x != nil || err != nil {
				return x, err
			}
		}
	}
	t.ran = true
	return nil, nil
}

func (t *mixingTest) of(rows []int) (x []float32) {
	for _, k := range rows {
		x = append(x, t.x[k*t.c.Dim():(k+1)*t.c.Dim()]...)
	}
	return x
}

func (t *mixingTest) differ(a, b float32, relative float64) bool {
	x, y := float64(a), float64(b)
	return math.IsNaN(x) != math.IsNaN(y) || x != y && !(math.Abs(x-y) <= relative*t.scale) && !math.IsNaN(x)
}

// fails says whether the size of a batch made it fail, and not its numbers.
func (t *mixingTest) fails(ctx context.Context, rows int, err error) *Mixing {
	if _, again := t.c.InBatch(ctx, make([]float32, rows*t.c.Dim())); again == nil || ctx.Err() != nil {
		return nil
	}
	return &Mixing{Rows: rows, failed: err}
}

// confirm looks whether a margin of a batch differs by more than rounding. In batches of one size a row rounds alike,
// whatever the others are; one that the size alone changes must do so at a node, and by more.
func (t *mixingTest) confirm(ctx context.Context, batch []int, at int, margin float32) (*Mixing, error) {
	k := batch[at]
	others := slices.Clone(batch)
	for i := range others {
		if others[i] = (batch[i] + t.rows/2) % t.rows; i == at {
			others[i] = k
		}
	}
	m, err := t.c.InBatch(ctx, t.of(others))
	if err != nil {
		return nil, err
	}
	pair := [2]Place{{t.of(batch), at}, {t.of(others), at}}
	company := t.differ(m[at], margin, 0)
	if !company {
		pair[1] = Place{Batch: t.of([]int{k})}
	}
	found, err := t.c.Diverging(ctx, [][2]Place{pair})
	if err != nil || !company && (len(found[0].Nodes) == 0 || !t.differ(margin, t.alone[k], 1e-2)) {
		return nil, err
	}
	return &Mixing{found[0].Nodes, math.Abs(float64(margin - t.alone[k])), len(batch), nil}, nil
}
