package recourse

import (
	"math"
	"strings"
	"testing"

	"cfq/task"
)

func TestCost(t *testing.T) {
	age := feature("age", task.Numeric)
	age.Std, age.Weight = 12, 2
	phone := feature("phone", task.Binary)
	phone.Shares = []float64{0.2}
	job := oneHot("job", "a", "b", "c")
	job.Shares = []float64{0.5, 0.1, 0.4}
	home := oneHot("home", "own", "rent")
	d := []float32{-1.5, 1, -1, 1, 0, 1, 0} // home was missing
	const eps = 1e-3
	inverse := func(p float64) float64 { return 1 / (math.Sqrt(p*(1-p)) + eps) }
	w := []float64{2 / (1 + eps), inverse(0.2), inverse(0.5), inverse(0.1), inverse(0.4), inverse(0.5), inverse(0.5)}
	tests := []struct {
		norm    task.Norm
		weights string
		want    float64
	}{
		{"l1", "inverse_std", 1.5*w[0] + w[1] + (w[2]+w[3])/2 + w[5]},
		{"l2", "inverse_std", math.Sqrt(2.25*w[0]*w[0] + w[1]*w[1] + (w[2]+w[3])*(w[2]+w[3])/4 + w[5]*w[5])},
		{"l1", "uniform", 4.5},
		{"l1", "given", 6},
		{"l2", "given", math.Sqrt(9 + 3)},
	}
	for _, tt := range tests {
		tk := taskOf(0, age, phone, job, home)
		tk.Cost = task.Cost{Norm: tt.norm, Weights: tt.weights, Eps: eps}
		if got := compile(t, tk).Cost(make([]float32, len(d)), d); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s %s: cost %g, want %g", tt.norm, tt.weights, got, tt.want)
		}
	}
}

func TestCompileNamesWhatIsWrong(t *testing.T) {
	age := feature("age", task.Numeric)
	age.Std = 0
	hours := feature("hours", task.Numeric)
	hours.Bounds = [2]float64{3, 1}
	job := oneHot("job", "a", "b")
	job.Transitions = map[string][]string{"a": {"x"}, "y": {"b"}}
	_, err := Compile(taskOf(0, age, hours, job))
	if err == nil {
		t.Fatal("impossible task compiled")
	}
	for _, want := range []string{`"age": std`, `"hours": lower bound 3 above`, `"a" to unknown value "x"`, `unknown value "y"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %s:\n%v", want, err)
		}
	}
}

func TestProjectAllocatesNothing(t *testing.T) {
	tk, a := adultTask(t)
	x, d := make([]float32, tk.Dim()), make([]float32, tk.Dim())
	n := testing.AllocsPerRun(100, func() {
		for j := range d {
			d[j] = float32(j%7) - 3
		}
		a.Project(x, d)
	})
	if n != 0 {
		t.Errorf("%g allocations", n)
	}
}
