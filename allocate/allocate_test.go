package allocate

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawLayers(t *rapid.T) ([][]Choice, int64) {
	widths := []int{2, 3, 4, 8}
	layers := make([][]Choice, rapid.IntRange(1, 5).Draw(t, "layers"))
	var most int64
	for i := range layers {
		params := rapid.Int64Range(1, 50).Draw(t, "params")
		for _, b := range widths {
			layers[i] = append(layers[i], Choice{Bits: b, Cost: params * int64(b), Damage: float64(rapid.IntRange(0, 40).Draw(t, "damage"))})
		}
		most += params * 8
	}
	return layers, rapid.Int64Range(0, most+5).Draw(t, "budget")
}

// bruteForce tries every assignment.
func bruteForce(layers [][]Choice, budget int64) (damage float64, cost int64, ok bool) {
	pick := make([]int, len(layers))
	for {
		var c int64
		var d float64
		for i, p := range pick {
			c += layers[i][p].Cost
			d += layers[i][p].Damage
		}
		if c <= budget && (!ok || d < damage || (d == damage && c < cost)) {
			damage, cost, ok = d, c, true
		}
		i := 0
		for ; i < len(pick); i++ {
			if pick[i]++; pick[i] < len(layers[i]) {
				break
			}
			pick[i] = 0
		}
		if i == len(pick) {
			return damage, cost, ok
		}
	}
}

func total(layers [][]Choice, pick []int) (damage float64, cost int64) {
	for i, p := range pick {
		damage += layers[i][p].Damage
		cost += layers[i][p].Cost
	}
	return damage, cost
}

func TestExactEqualsBruteForce(t *testing.T) {
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
		if err != nil {
			t.Fatal(err)
		}
		if d, c := total(layers, pick); d != wantD || c != wantC {
			t.Fatalf("got damage %v at cost %d, want %v at %d", d, c, wantD, wantC)
		}
	})
}

func TestBudgetIsNeverExceeded(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 3, 3}; !slices.Equal(pick, want) {
		t.Errorf("widths %v, want %v (2, 8, 8 bits)", pick, want)
	}
	pick, err = Uniform(layers, 4*all)
	if want := []int{2, 2, 2}; err != nil || !slices.Equal(pick, want) {
		t.Errorf("uniform: %v, %v, want %v", pick, err, want)
	}
}

func TestBadInput(t *testing.T) {
	if _, err := Exact(nil, 1); err == nil {
		t.Error("no layers: no error")
	}
	if _, err := Exact([][]Choice{{}}, 1); err == nil {
		t.Error("no choices: no error")
	}
	if _, err := Paper([][]Choice{{{Bits: 2, Cost: 1}}}, nil, 1); err == nil {
		t.Error("no scores: no error")
	}
}
