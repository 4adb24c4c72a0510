package classifier

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// Placed is a row in a batch, and the model's margin of it there.
type Placed struct {
	Batch  []float32 // rows x Dim
	At     int       // the row
	Margin float32
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
func (c *Model) Diverging(ctx context.Context, pairs [][2]Placed) ([]Divergence, error) {
	s, err := c.Exposed()
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	out := make([]Divergence, len(pairs))
	producers := c.Graph().Graph.Producers()
	for k, pair := range pairs {
		d := divergence{c: c, pair: pair, producers: producers, seen: map[string]bool{}}
		for i, p := range pair {
			all, err := s.Run(ctx, []*graph.Tensor{c.feed(p.Batch)})
			if err != nil {
				return nil, fmt.Errorf("a batch of %d rows: %w", len(p.Batch)/c.Dim(), err)
			}
			d.values[i] = map[string]*graph.Tensor{}
			for _, t := range all {
				d.values[i][t.Name] = t
			}
		}
		if out[k].Same = d.apart(c.logits) == 0; !out[k].Same {
			d.trace(c.logits)
			out[k].Nodes = d.nodes
		}
	}
	return out, nil
}

type divergence struct {
	c         *Model
	pair      [2]Placed
	values    [2]map[string]*graph.Tensor
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
	var own [2][]float64
	for i, p := range d.pair {
		t := d.values[i][value]
		if t == nil {
			return 0
		}
		v, err := t.Numbers()
		if err != nil {
			return 0
		}
		own[i] = d.part(t, v, p)
	}
	x, y := own[0], own[1]
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
	if t := d.values[0][value].DType; (t == graph.Float || t == graph.Double) && apart <= agreement*largest {
		return 0
	}
	return apart
}

func (d *divergence) part(t *graph.Tensor, v []float64, p Placed) []float64 {
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
	return fmt.Sprintf("the outcome of a row depends on the other rows of its batch, %s (in a batch of %d, margins "+
		"differ by up to %.3g from those of rows alone): a person is scored alone, so export a model that leaves axis 0, "+
		"that of the batch, alone", FromNodes(x.Nodes), x.Rows, x.Apart)
}

// FromNodes says from where values depend on the batch.
func FromNodes(nodes []string) string {
	if len(nodes) == 0 {
		return "no single node of the graph shows where"
	}
	return "from " + strings.Join(nodes, ", ") + " on"
}

// Mixes says how outcomes depend on the batch, as far as SeparateRows found it; nil when they do not.
func (c *Model) Mixes() *Mixing { return c.mixing }

// InBatch runs rows as one batch, where the model takes so many, also of a model that Mixes.
func (c *Model) InBatch(ctx context.Context, x []float32) (rows []Placed, err error) {
	s, err := c.session("forward", c.forward)
	if err != nil {
		return nil, err
	}
	for batch := range slices.Chunk(x, cmp.Or(c.Fixed()*c.Dim(), len(x), 1)) {
		out := make([][]float32, 1)
		if err := c.runBatch(ctx, s, batch, []want{{name: c.logits, size: c.classes}}, out); err != nil {
			return nil, err
		}
		for at, margin := range c.marginsOf(out[0], c.classes) {
			rows = append(rows, Placed{batch, at, margin})
		}
	}
	return rows, nil
}

const (
	smallBatch, largeBatch = 64, 2048
	smallBatches           = 8
	mixedNumbers           = 1 << 22 // of the largest value of a batch
	fewSingles             = 8       // in large graphs, where the rows of a run hardly add to its time
)

// SeparateRows compares margins of random rows alone with those in batches of 1 to 64 rows, by a fixed seed, and in one
// of 2,048. A model in which they differ runs row by row from then on, see Mixes. It must not be in use.
func (c *Model) SeparateRows(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(2, 0xba7c4))
	most := cmp.Or(c.Fixed(), largeBatch)
	largest, _ := c.RowSizes()
	t := &mixingTest{c: c, rng: rng, rows: min(max(mixedNumbers/largest, 2), largeBatch, most)}
	if t.singles = smallBatch; c.Large() {
		t.singles = fewSingles
	}
	if _, err := c.session("forward", c.forward); err != nil {
		return nil //nolint:nilerr // whoever runs it is told
	}
	for i, number := range []func() float32{
		func() float32 { return float32(rng.NormFloat64()) },
		func() float32 { return float32(rng.NormFloat64() * math.Exp(2*rng.NormFloat64())) }, // columns as they are
		rng.Float32, // numbers that are indices are all 0
	} {
		if c.mixing != nil || t.rows < 2 || (i == 2 || t.singles < smallBatch) && t.ran {
			break
		}
		if t.ran { // what a size or a place in it does was seen; the other numbers need other rows to each of a small batch
			t.rows = min(t.rows, 2*smallBatch)
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
	c.apart = -1 // these were no people
	return nil
}

type mixingTest struct {
	c    *Model
	rng  *rand.Rand
	rows int
	x    []float32

	singles int      // how many rows are run alone
	alone   []Placed // these, the first ones
	scale   float64  // the largest margin of them
	ran     bool     // on some numbers
}

// run returns nil, too, where the model takes no such numbers.
func (t *mixingTest) run(ctx context.Context, number func() float32) (*Mixing, error) {
	t.x = lists.Make(t.rows*t.c.Dim(), func(int) float32 { return number() })
	t.alone, t.scale = nil, 0
	some := min(t.rows, smallBatch)
	for k := range min(some, t.singles) {
		one, err := t.c.InBatch(ctx, t.of(k))
		if err != nil {
			return t.fails(ctx, 1, err), nil
		}
		t.alone = append(t.alone, one...)
		if v := math.Abs(float64(one[0].Margin)); !math.IsInf(v, 0) {
			t.scale = max(t.scale, v) // not for NaN
		}
	}
	for i := range smallBatches + 1 {
		batch := t.rng.Perm(some)[:1+t.rng.IntN(some)]
		if i == smallBatches {
			batch = t.rng.Perm(t.rows)
		}
		rows, err := t.c.InBatch(ctx, t.of(batch...))
		if err != nil {
			return t.fails(ctx, len(batch), err), nil
		}
		worst, apart := -1, 0.0
		for at, k := range batch {
			if k < len(t.alone) && t.differ(rows[at], t.alone[k], 1e-4) {
				if x := math.Abs(float64(rows[at].Margin - t.alone[k].Margin)); worst < 0 || x > apart {
					worst, apart = at, x
				}
			}
		}
		if worst >= 0 {
			if x, err := t.confirm(ctx, batch, rows[worst]); x != nil || err != nil {
				return x, err
			}
		}
	}
	t.ran = true
	return nil, nil
}

func (t *mixingTest) of(rows ...int) []float32 { return lists.RowsAt(t.x, t.c.Dim(), rows) }

func (t *mixingTest) differ(a, b Placed, relative float64) bool {
	x, y := float64(a.Margin), float64(b.Margin)
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
func (t *mixingTest) confirm(ctx context.Context, batch []int, row Placed) (*Mixing, error) {
	k := batch[row.At]
	others := slices.Clone(batch)
	for i := range others {
		if others[i] = (batch[i] + t.rows/2) % t.rows; i == row.At {
			others[i] = k
		}
	}
	again, err := t.c.InBatch(ctx, t.of(others...))
	if err != nil {
		return nil, err
	}
	pair := [2]Placed{row, again[row.At]}
	company := t.differ(pair[0], pair[1], 0)
	if !company {
		pair[1] = t.alone[k]
	}
	found, err := t.c.Diverging(ctx, [][2]Placed{pair})
	if err != nil || !company && (len(found[0].Nodes) == 0 || !t.differ(row, t.alone[k], 1e-2)) {
		return nil, err
	}
	return &Mixing{found[0].Nodes, math.Abs(float64(row.Margin - t.alone[k].Margin)), len(batch), nil}, nil
}
