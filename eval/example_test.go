package eval_test

import (
	"context"
	"fmt"

	"cfq/eval"
	"cfq/recourse/constraint"
	"cfq/task"
)

type linear struct {
	w []float32
	b float32
}

func (m linear) Dim() int { return len(m.w) }

func (m linear) Margins(_ context.Context, x []float32) ([]float32, error) {
	var out []float32
	for ; len(x) > 0; x = x[len(m.w):] {
		s := m.b
		for j, w := range m.w {
			s += w * x[j]
		}
		out = append(out, s)
	}
	return out, nil
}

func (m linear) MarginGrads(ctx context.Context, x []float32) (margins, grads []float32, err error) {
	margins, err = m.Margins(ctx, x)
	for range margins {
		grads = append(grads, m.w...)
	}
	return margins, grads, err
}

// LossGrads needs the direction of the gradient only: the loss falls where the margin rises.
func (m linear) LossGrads(ctx context.Context, x []float32) (margins, grads []float32, err error) {
	margins, grads, err = m.MarginGrads(ctx, x)
	for i := range grads {
		grads[i] = -grads[i]
	}
	return margins, grads, err
}

// The quantized model is a little stricter than the original. The people that the original refuses are told
// how to reach margin 0 or 0.5; the quantized model approves only those with the larger margin.
func Example() {
	full, quantized := linear{[]float32{1, 0.5}, 0}, linear{[]float32{1, 0.5}, -0.25}
	people := &task.People{Dim: 2, N: 4, Reading: task.Reading{Total: 4}, X: []float32{-1, 0, -2, 1, 1, 1, -0.5, -1}}
	number := task.Feature{Encoding: &task.Standardized{Std: 1}, Action: task.Free(), Width: 1}
	number.Bounds, number.MaxChange = [2]float64{-10, 10}, 10
	income, savings := number, number
	income.Name, savings.Name, savings.Offset = "income", "savings", 1
	set, err := constraint.Compile(&task.Task{
		Version: 1, Target: task.Target{Class: "favourable", Index: 1},
		Cost:     task.Cost{Norm: task.L1, Weights: "uniform"},
		Features: []task.Feature{income, savings},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	result, err := eval.Compare(ctx, full, quantized, &eval.Batch{People: people, Set: set},
		eval.Options{Margins: []float64{0, 0.5}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, at := range result.Margins {
		fmt.Printf("margin %g: %d of %d promises break\n", at.Margin, at.Rate("vd").Num, at.Rate("vd").Den)
	}
	fmt.Printf("%d of %d people are refused\n", result.Population.Refused, result.Population.Read)
	// Output:
	// margin 0: 3 of 3 promises break
	// margin 0.5: 0 of 3 promises break
	// 3 of 4 people are refused
}
