package recourse_test

import (
	"context"
	"fmt"
	"log"

	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

type lender struct{ recourse.Model } // LossGrads is for Teacher and FirstValid; Solve does not call it

func (lender) Dim() int { return 2 }

func (lender) Margins(_ context.Context, x []float32) ([]float32, error) {
	m := make([]float32, len(x)/2)
	for i := range m {
		m[i] = 2*x[2*i] - x[2*i+1] - 1
	}
	return m, nil
}

func (l lender) MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	m, err = l.Margins(ctx, x)
	for range m {
		g = append(g, 2, -1)
	}
	return m, g, err
}

func ExampleSolve() {
	t, err := task.Parse("loan.yaml", []byte(`
version: 1
data: {label: decision, favourable: approved}
target: {class: favourable}
features:
  - {name: income, kind: numeric, mean: 30000, std: 10000, direction: increase, max_increase: 5000, step: 100}
  - {name: debt, kind: numeric, mean: 5000, std: 5000, direction: decrease, bounds: [0, 100000], step: 100}
cost: {norm: l1, weights: inverse_std}
`))
	if err != nil {
		log.Fatal(err)
	}
	set, err := constraint.Compile(t)
	if err != nil {
		log.Fatal(err)
	}
	income, debt := &t.Features[0], &t.Features[1]
	people := []float32{
		income.ToInput(32000), debt.ToInput(5000),
		income.ToInput(28000), debt.ToInput(6000),
		income.ToInput(40000), debt.ToInput(1000),
		income.ToInput(10000), debt.ToInput(5000),
	}
	actions, err := recourse.Solve(context.Background(), lender{}, set, people, recourse.SolveOptions{Margin: 0.1})
	if err != nil {
		log.Fatal(err)
	}
	for i, a := range actions {
		fmt.Print(a.Status)
		if a.Status == recourse.Found {
			fmt.Printf(" at cost %.2f:", a.Cost)
		}
		for _, c := range set.Changes(people[2*i:2*i+2], a.Point) {
			fmt.Printf(" %s %s -> %s", c.Feature, c.From, c.To)
		}
		fmt.Println()
	}
	// Output:
	// found at cost 0.36: income 32000 -> 35600
	// found at cost 1.22: income 28000 -> 33000 debt 6000 -> 2400
	// already favourable
	// none found
}
