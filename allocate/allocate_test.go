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
