package allocate

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

func drawLayers(t *rapid.T) ([][]Choice, int64) {
	widths := []int{2, 3, 4, 8}
	layers := make([][]Choice, rapid.IntRange(1, 5).Draw(t, "layers"))
	var most int64
	for i := range layers {
		params := rapid.Int64Range(1, 50).Draw(t, "params")
		for _, b := range widths {
			layers[i] = append(layers[i],
				Choice{Bits: b, Cost: params * int64(b), Error: float64(rapid.IntRange(0, 40).Draw(t, "error"))})
		}
		most += params * 8
	}
	return layers, rapid.Int64Range(0, most+5).Draw(t, "budget")
}

func bruteForce(layers [][]Choice, budget int64) (loss float64, cost int64, ok bool) {
	pick := make([]int, len(layers))
	for {
		var c int64
		var d float64
		for i, p := range pick {
			c += layers[i][p].Cost
			d += layers[i][p].Error
		}
		if c <= budget && (!ok || d < loss || (d == loss && c < cost)) {
			loss, cost, ok = d, c, true
		}
		i := 0
		for ; i < len(pick); i++ {
			if pick[i]++; pick[i] < len(layers[i]) {
				break
			}
			pick[i] = 0
		}
		if i == len(pick) {
			return loss, cost, ok
		}
	}
}

func total(layers [][]Choice, pick []int) (loss float64, cost int64) {
	for i, p := range pick {
		loss += layers[i][p].Error
		cost += layers[i][p].Cost
	}
	return loss, cost
}

func TestExactEqualsBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		layers, budget := drawLayers(t)
		wantD, wantC, ok := bruteForce(layers, budget)
		pick, err := Exact(layers, budget)
		if !ok {
			if !errors.Is(err, ErrBudget) {
				t.Fatalf("no assignment fits, but got %v, %v", pick, err)
			}
			return
		}
		must.Do(t, err)
		if d, c := total(layers, pick); d != wantD || c != wantC {
			t.Fatalf("got error %v at cost %d, want %v at %d", d, c, wantD, wantC)
		}
	})
}

func TestBudgetIsNeverExceeded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		layers, budget := drawLayers(t)
		scores := rapid.SliceOfN(rapid.Float64Range(0, 9), len(layers), len(layers)).Draw(t, "scores")
		for name, f := range map[string]func() ([]int, error){
			"paper":   func() ([]int, error) { return Paper(layers, scores, budget) },
			"uniform": func() ([]int, error) { return Uniform(layers, budget) },
			"exact":   func() ([]int, error) { return Exact(layers, budget) },
		} {
			pick, err := f()
			if err != nil {
				if !errors.Is(err, ErrBudget) {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			if _, c := total(layers, pick); c > budget {
				t.Fatalf("%s spends %d of %d", name, c, budget)
			}
		}
	})
}

// The paper's rule on the shape of an Adult network (104-64-32-2) at 4 bits:
// the small layers are saturated and the large one is left with two bits.
func TestPaperIsDegenerateOnAdult(t *testing.T) {
	t.Parallel()
	params := []int64{104 * 64, 64 * 32, 32 * 2}
	layers := make([][]Choice, len(params))
	var all int64
	for i, n := range params {
		for _, b := range []int{2, 3, 4, 8} {
			layers[i] = append(layers[i], Choice{Bits: b, Cost: n * int64(b)})
		}
		all += n
	}
	pick, err := Paper(layers, []float64{.1, .2, .3}, 4*all)
	must.Do(t, err)
	must.Same(t, []int{0, 3, 3}, pick)
	pick, err = Uniform(layers, 4*all)
	if want := []int{2, 2, 2}; err != nil || !slices.Equal(pick, want) {
		t.Errorf("uniform: %v, %v, want %v", pick, err, want)
	}
}

// With hundreds of rows of unlike sizes the fronts are thinned: the budget still holds, and
// the error is within a thousandth of the bound that fractions of choices give.
func TestExactOfManyRows(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	layers := make([][]Choice, 400)
	var all int64
	for i := range layers {
		n := 500 + r.Int64N(9000)
		all += n
		scale := math.Exp(2 * r.NormFloat64())
		for _, b := range []int{2, 3, 4, 8} {
			layers[i] = append(layers[i],
				Choice{Bits: b, Cost: n * int64(b), Error: scale * math.Pow(4, -float64(b)) * (0.7 + 0.6*r.Float64())})
		}
	}
	budget := 7 * all / 2
	pick := must.Get(Exact(layers, budget))(t)
	loss, cost := total(layers, pick)
	if cost > budget {
		t.Errorf("cost %d of %d", cost, budget)
	}
	// For every price per unit of cost, the sum of the least error + price x cost, less price x budget, is a lower bound.
	bound := 0.0
	for e := -14.0; e < 0; e += 0.002 {
		price := math.Exp(e) / 1000
		sum := -price * float64(budget)
		for _, choices := range layers {
			least := math.Inf(1)
			for _, c := range choices {
				least = min(least, c.Error+price*float64(c.Cost))
			}
			sum += least
		}
		bound = max(bound, sum)
	}
	if loss > 1.001*bound {
		t.Errorf("error %v, no assignment has less than %v", loss, bound)
	}
}

// The relaxation's assignment is within the budget and off the optimum by one step of one layer at most.
func TestSteepest(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(15, 4))
	layers := make([][]Choice, 100)
	var most int64
	var step float64
	for i := range layers {
		cost, scale := 1+rng.Int64N(8), math.Exp(2*rng.NormFloat64())
		for k, b := range []int{2, 3, 4, 8} {
			layers[i] = append(layers[i], Choice{b, cost * int64(b), scale * rng.Float64() / math.Pow(4, float64(k))})
		}
		most += 8 * cost
		for _, c := range layers[i] {
			step = max(step, layers[i][0].Error-c.Error)
		}
	}
	for budget := most / 4; budget <= most; budget += most / 40 {
		exact := must.Get(Exact(layers, budget))(t)
		want, _ := total(layers, exact)
		if got, cost := total(layers, steepest(layers, budget)); cost > budget || got > want+step {
			t.Errorf("error %v at cost %d of %d, the least is %v", got, cost, budget, want)
		}
	}
}

// The containers of small layers against all assignments, and those of many rows against their bound: what is not
// spent is less than a row could use.
func TestContainers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		layers := make([]Packing, rapid.IntRange(1, 2).Draw(t, "layers"))
		for i := range layers {
			layers[i] = drawPacking(t, rapid.IntRange(1, 3).Draw(t, "rows"))
		}
		shared, budget := rapid.Int64Range(0, 40).Draw(t, "shared"), rapid.Int64Range(0, 300).Draw(t, "budget")
		var flat [][]Choice
		for _, l := range layers {
			flat = append(flat, l.Rows...)
		}
		want := math.Inf(1)
		for n := range 1 << (2 * len(flat)) {
			pick := make([]int, len(flat))
			for i := range pick {
				pick[i] = n >> (2 * i) & 3
			}
			if e, cost := packed(layers, pick, shared); cost <= budget {
				want = min(want, e)
			}
		}
		picks, err := Containers(layers, shared, budget)
		if math.IsInf(want, 1) {
			if !errors.Is(err, ErrBudget) {
				t.Fatalf("no assignment fits, but got %v, %v", picks, err)
			}
			return
		}
		must.Do(t, err)
		if e, cost := packed(layers, slices.Concat(picks...), shared); e != want || cost > budget {
			t.Fatalf("got error %v at cost %d of %d, want %v", e, cost, budget, want)
		}
	})
}

// drawPacking draws a layer whose containers cost 1 to 30 each; that of the second width is shared.
func drawPacking(t *rapid.T, rows int) (l Packing) {
	in := rapid.Int64Range(1, 9).Draw(t, "in")
	for range rows {
		var row []Choice
		for _, b := range []int{2, 3, 4, 8} {
			row = append(row, Choice{b, in * int64(b), float64(rapid.IntRange(0, 40).Draw(t, "error"))})
		}
		l.Rows = append(l.Rows, row)
	}
	costs := rapid.SliceOfN(rapid.Int64Range(1, 30), 4, 4).Draw(t, "costs")
	for set := 1; set < 16; set++ {
		s := Set{Shared: set>>1&1 > 0}
		for c, cost := range costs {
			if set>>c&1 > 0 {
				s.Choices, s.Cost = append(s.Choices, c), s.Cost+cost
			}
		}
		l.Sets = append(l.Sets, s)
	}
	return l
}

// packed is what an assignment of all rows errs and costs, in the containers that it uses.
func packed(layers []Packing, pick []int, shared int64) (e float64, cost int64) {
	share := false
	for _, l := range layers {
		used := 0
		for r, row := range l.Rows {
			e, cost = e+row[pick[r]].Error, cost+row[pick[r]].Cost
			used |= 1 << pick[r]
		}
		pick = pick[len(l.Rows):]
		s := l.Sets[used-1]
		cost += s.Cost
		share = share || s.Shared
	}
	if share {
		cost += shared
	}
	return e, cost
}

// With hundreds of rows the error is within a hundredth of the best bound of any price.
func TestManyContainers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 1))
	const shared = 5600
	for range 3 {
		layers := make([]Packing, 4)
		for i := range layers {
			rows := make([][]Choice, 20<<i)
			for r := range rows {
				e := math.Exp(2 * rng.NormFloat64())
				for _, b := range []int{2, 3, 4, 8} {
					err := e * math.Exp2(-2*float64(b)) * (.8 + .4*rng.Float64())
					rows[r] = append(rows[r], Choice{b, int64(b) << (6 - i), err})
				}
			}
			for set := 1; set < 16; set++ {
				s := Set{Shared: set&2 > 0}
				for c := range 4 {
					if set>>c&1 > 0 {
						s.Choices, s.Cost = append(s.Choices, c), s.Cost+300
					}
				}
				layers[i].Sets = append(layers[i].Sets, s)
			}
			layers[i].Rows = rows
		}
		budget := int64(16000 + rng.IntN(20000))
		picks := must.Get(Containers(layers, shared, budget))(t)
		got, cost := packed(layers, slices.Concat(picks...), shared)
		bound := 0.0
		for price := 1e-8; price < 1; price *= 1.3 {
			value := -price * float64(budget)
			for i := range layers {
				least := math.Inf(1)
				for s := range layers[i].Sets {
					v, _ := layers[i].at(s, price)
					if layers[i].Sets[s].Shared {
						v += price * shared / 4 // its part
					}
					least = min(least, v)
				}
				value += least
			}
			bound = max(bound, value)
		}
		if cost > budget || got > 1.05*bound {
			t.Errorf("error %.5g at %d of %d, bound %.5g", got, cost, budget, bound)
		}
	}
}
