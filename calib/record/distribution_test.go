package record

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"cfq/task"
)

func distributed(t *testing.T, tk *task.Task, ages ...float64) []Distribution {
	t.Helper()
	var text strings.Builder
	text.WriteString("age,job,ok\n")
	for _, a := range ages {
		fmt.Fprintf(&text, "%v,cook,yes\n", a)
	}
	return Distributions(tk, read(t, tk, text.String()))
}

// Numbers are cut at deciles, beside the values that many people have; categories go by name.
func TestDistributions(t *testing.T) {
	tk := taskOf(t, "")
	var hundred, zeros, ones, few []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
		zeros = append(zeros, float64(max(0, i-79))) // 80 zeros, then 1 to 20
		ones = append(ones, float64(min(1, i/5)))    // 5 zeros, 95 ones
		few = append(few, []float64{1.5, 2, 8}[i%3]) // 34, 33, 33
	}
	for _, c := range []struct {
		name   string
		ages   []float64
		cuts   []float64
		counts []int
	}{
		{
			"evenly", hundred,
			[]float64{10.5, 20.5, 30.5, 40.5, 50.5, 60.5, 70.5, 80.5, 90.5},
			[]int{10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 0, 0},
		},
		{"mostly 0", zeros, []float64{0.5, 10.5}, []int{80, 10, 10, 0, 0}},
		{"mostly 1", ones, []float64{0.5}, []int{5, 95, 0, 0}},
		{"three values", few, []float64{1.8, 5}, []int{34, 33, 33, 0, 0}},
		{"one value", []float64{3, 3, 3}, []float64{3 - 3e-6, 3 + 3e-6}, []int{0, 3, 0, 0, 0}},
		{"one person", []float64{0}, []float64{-1e-6, 1e-6}, []int{0, 1, 0, 0, 0}},
	} {
		got := distributed(t, tk, c.ages...)[0]
		if fmt.Sprint(got.Cuts) != fmt.Sprint(c.cuts) || !reflect.DeepEqual(got.Counts, c.counts) {
			t.Errorf("%s: %v %v, want %v %v", c.name, got.Cuts, got.Counts, c.cuts, c.counts)
		}
	}
	coded, err := task.Parse("task.yaml", []byte(strings.Replace(someTask, "mean: 40", "missing: [-9], mean: 40", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if d := distributed(t, coded, -9, 20, -9, 30)[0]; fmt.Sprint(d.Cuts, d.Counts) != "[25] [1 1 2 0]" {
		t.Errorf("with codes for missing numbers: %v %v", d.Cuts, d.Counts)
	}
	withID := taskOf(t, ", id: who")
	got := Distributions(withID, read(t, withID, "who,age,job,ok\n1,30,cook,yes\n1,90,cook,yes\n2,40,,no\n3,50,clerk,\n"))
	want := []Distribution{
		{"age", []float64{35, 45}, nil, []int{1, 1, 1, 0, 0}},
		{"job", nil, []string{"cook", "clerk"}, []int{1, 1, 1, 0}}, // the third has none
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// People go into the bins of the calibration data, whatever the encoding of their task file.
func TestPairs(t *testing.T) {
	tk := taskOf(t, "")
	people := read(t, tk, "age,job,ok\n10,cook,yes\n20,clerk,yes\n20,clerk,yes\n30,,yes\n")
	r := New(sum, Data{"train.csv", sum}, []uint64{1}, Distributions(tk, people))
	other, err := task.Parse("task.yaml", []byte(strings.NewReplacer("mean: 40, std: 10", "mean: 13.7, std: 0.3",
		"[cook, clerk]", "[clerk, pilot, cook]").Replace(someTask)+"  - {name: rooms, kind: numeric}\n"))
	if err != nil {
		t.Fatal(err)
	}
	others := read(t, other, "age,job,ok,rooms\n20,pilot,yes,1\n10,cook,yes,2\n10,cook,yes,3\n99,,yes,4\n")
	got, err := r.Pairs(other, others)
	want := []Pair{
		{"age", []int{1, 2, 1, 0, 0}, []int{2, 1, 1, 0, 0}},
		{"job", []int{1, 2, 1, 0}, []int{2, 0, 1, 1}},
		{Feature: "rooms"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	r.Distributions = nil
	if _, err := r.Pairs(tk, people); err == nil || !strings.Contains(err.Error(), "earlier version") {
		t.Errorf("without distributions: %v", err)
	}
}

// A record reveals no person's own number.
func TestCutsAreNobodysValue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tk := taskOf(t, "")
	for range 200 {
		ages := make([]float64, 1+rng.IntN(60))
		own := map[float64]bool{}
		for i := range ages {
			ages[i] = float64(rng.IntN(100000)) / 100
			own[ages[i]] = true
		}
		d := distributed(t, tk, ages...)[0]
		for _, c := range d.Cuts {
			if own[c] {
				t.Fatalf("the cut %v is a value of %v", c, ages)
			}
		}
		if d.check() != nil {
			t.Fatal(d.check())
		}
	}
}
