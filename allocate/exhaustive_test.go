package allocate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Where damages add up, trying everything is the exact knapsack: the same damage,
// the same cost, and by brute force the least.
func TestExhaustiveEqualsExactWhenDamagesAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers, budget := drawLayers(t)
		tried := map[string]bool{}
		pick, err := Exhaustive(layers, budget, func(pick []int) (float64, error) {
			d, cost := total(layers, pick)
			key := fmt.Sprint(pick)
			if cost > budget || tried[key] {
				t.Fatalf("%v tried at cost %d of %d, before: %v", pick, cost, budget, tried[key])
			}
			tried[key] = true
			return d, nil
		}, nil)
		wantD, wantC, ok := bruteForce(layers, budget)
		if !ok {
			if !errors.Is(err, ErrBudget) {
				t.Fatalf("no assignment fits, but got %v, %v", pick, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		exact, err := Exact(layers, budget)
		if err != nil {
			t.Fatal(err)
		}
		d, c := total(layers, pick)
		if de, ce := total(layers, exact); d != wantD || c != wantC || d != de || c != ce {
			t.Fatalf("damage %v at cost %d, brute force %v at %d, knapsack %v at %d", d, c, wantD, wantC, de, ce)
		}
	})
}

// Where layers make up for each other, the sum over single layers misleads and trying
// everything does not: errors +3 and -3 of two layers cancel.
func TestExhaustiveSeesLayersTogether(t *testing.T) {
	errs := [][]float64{{3, 0.5}, {-3, 0.5}}
	layers := make([][]Choice, 2)
	for i := range layers {
		for c, bits := range []int{2, 4} {
			layers[i] = append(layers[i], Choice{Bits: bits, Cost: int64(bits), Damage: errs[i][c] * errs[i][c]})
		}
	}
	joint := func(pick []int) (float64, error) {
		return math.Pow(errs[0][pick[0]]+errs[1][pick[1]], 2), nil
	}
	var steps []int
	pick, err := Exhaustive(layers, 8, joint, func(done, total int) { steps = append(steps, done, total) })
	if err != nil || !slices.Equal(pick, []int{0, 0}) {
		t.Errorf("pick %v, %v, want the lowest widths, whose errors cancel", pick, err)
	}
	if want := []int{1, 4, 2, 4, 3, 4, 4, 4}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	if pick, err := Exact(layers, 8); err != nil || !slices.Equal(pick, []int{1, 1}) {
		t.Errorf("the knapsack picks %v, %v, want the highest widths", pick, err)
	}
}

func TestExhaustiveTies(t *testing.T) {
	layers := [][]Choice{{{Bits: 2, Cost: 2}, {Bits: 4, Cost: 4}}, {{Bits: 2, Cost: 2}, {Bits: 4, Cost: 4}}}
	for _, tt := range []struct {
		name   string
		damage func(pick []int) float64
		want   []int
	}{
		{"all equal: the cheapest", func([]int) float64 { return 1 }, []int{0, 0}},
		{"equal costs: few bits first", func(p []int) float64 { return math.Abs(float64(p[0] + p[1] - 1)) }, []int{0, 1}},
	} {
		pick, err := Exhaustive(layers, 8, func(p []int) (float64, error) { return tt.damage(p), nil }, nil)
		if err != nil || !slices.Equal(pick, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, pick, err, tt.want)
		}
	}
}

func TestExhaustiveIsBounded(t *testing.T) {
	layer := []Choice{{Bits: 2, Cost: 2}, {Bits: 3, Cost: 3}, {Bits: 4, Cost: 4}, {Bits: 8, Cost: 8}}
	calls := 0
	count := func([]int) (float64, error) { calls++; return float64(calls), nil }
	six, seven := slices.Repeat([][]Choice{layer}, 6), slices.Repeat([][]Choice{layer}, 7)
	if _, err := Exhaustive(six, 48, count, nil); err != nil || calls != mostAssignments {
		t.Errorf("six layers: %d tried, %v", calls, err)
	}
	calls = 0
	_, err := Exhaustive(seven, 56, count, nil)
	if err == nil || calls > 0 || !strings.Contains(err.Error(), "use the exact knapsack") {
		t.Errorf("seven layers: %d tried, %v", calls, err)
	}
	// A tight budget leaves few, however many layers there are.
	calls = 0
	many := slices.Repeat([][]Choice{layer}, 40)
	if pick, err := Exhaustive(many, 81, count, nil); err != nil || calls != 41 || pick[39] != 0 {
		t.Errorf("forty layers: %d tried, %v, %v", calls, pick, err)
	}
}

func TestExhaustiveErrors(t *testing.T) {
	layers := [][]Choice{{{Bits: 2, Cost: 2}, {Bits: 4, Cost: 4}}}
	boom := errors.New("boom")
	if _, err := Exhaustive(layers, 4, func([]int) (float64, error) { return 0, boom }, nil); !errors.Is(err, boom) || !strings.Contains(err.Error(), "widths [2]") {
		t.Errorf("error %v", err)
	}
	if pick, err := Exhaustive(layers, 4, func([]int) (float64, error) { return math.NaN(), nil }, nil); err == nil {
		t.Errorf("a damage that is no number: %v", pick)
	}
	if _, err := Exhaustive(layers, 1, func([]int) (float64, error) { return 0, nil }, nil); !errors.Is(err, ErrBudget) {
		t.Errorf("error %v", err)
	}
}
