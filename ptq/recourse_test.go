package ptq

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/recourse/constraint"
)

// In ONNX Runtime too, what a person is told depends neither on who else is asked about, nor on the
// order, nor on the workers.
func TestSolveCompany(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "test.csv")
	people = few(people, 500)
	ctx := context.Background()
	c := must.Get(OpenFor(loaded(t, m), tk, 2))(t)
	t.Cleanup(func() { _ = c.Close() })
	set := must.Get(constraint.Compile(tk))(t)
	all := must.Get(recourse.Solve(ctx, c, set, people.X, recourse.SolveOptions{Margin: 0.1, Workers: 1}))(t)
	order := rand.New(rand.NewPCG(1, 1)).Perm(people.N)
	for _, size := range []int{people.N, 101} {
		for lo := 0; lo < people.N; lo += size {
			rows := order[lo:min(lo+size, people.N)]
			some := must.Get(recourse.Solve(ctx, c, set.Select(rows), people.Subset(rows).X, recourse.SolveOptions{
				Margin:  0.1,
				Workers: 2,
			}))(t)
			for i, row := range rows {
				// The last bit of a margin may depend on the batch; the promise may not.
				a, b := all[row], some[i]
				a.Margin, b.Margin = 0, 0
				if d := cmp.Diff(a, b); d != "" {
					t.Fatalf("row %d in company of %d: %s", row, len(rows), d)
				}
			}
		}
	}
}
