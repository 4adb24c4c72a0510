package mip

import (
	"bufio"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"cfq/internal/must"
)

// The text of a program with every kind of row, bound and variable.
func TestWriteMPS(t *testing.T) {
	t.Parallel()
	p := &Program{}
	a := p.Add(Variable{High: 4, Cost: 1.5, Integer: true})
	b := p.Add(Variable{Low: math.Inf(-1), High: math.Inf(1), Cost: 1})
	p.AtLeast(3.5, Term{a, 2}, Term{b, 1}, Term{a, 1}, Term{b, -1})
	p.AtMost(4, Term{a, 1})
	p.Rows = append(p.Rows, Row{Terms: []Term{{b, 1}}, Low: 1, High: 3}, Row{Terms: []Term{{b, 1}}, Low: 2, High: 2})
	var out strings.Builder
	must.Do(t, p.WriteMPS(&out))
	const want = `NAME recourse FREE
ROWS
 N cost
 G r0
 L r1
 G r2
 E r3
COLUMNS
 MARKER 'MARKER' 'INTORG'
 x0 cost 1.5
 x0 r0 3
 x0 r1 1
 MARKER 'MARKER' 'INTEND'
 x1 cost 1
 x1 r2 1
 x1 r3 1
RHS
 rhs r0 3.5
 rhs r1 4
 rhs r2 1
 rhs r3 2
RANGES
 range r2 2
BOUNDS
 LO bound x0 0
 UP bound x0 4
 MI bound x1
 PL bound x1
ENDATA
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Answers of both solvers, as they wrote them.
func TestRead(t *testing.T) {
	t.Parallel()
	optimal := Solution{Status: Optimal, X: []float64{2, 0.5}}
	for name, c := range map[string]struct {
		read func(*bufio.Scanner, *Solution) error
		text string
		want Solution
		bad  bool
	}{
		"highs": {readHighs, "Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 3\n# Columns 2\nx0 2\n" +
			"x1 0.5\n# Rows 1\nr0 4\n\n# Dual solution values\nNone\n", optimal, false},
		"highs, infeasible": {
			readHighs, "Model status\nInfeasible\n\n# Primal solution values\nNone\n",
			Solution{Status: Infeasible, X: []float64{0, 0}},
			false,
		},
		"highs, time over": {readHighs, "Model status\nTime limit reached\n\n# Primal solution values\nFeasible\n" +
			"Objective 3\n# Columns 2\nx0 2\nx1 0\n", Solution{X: []float64{0, 0}}, false},
		"cbc": {readCBC, "Optimal - objective value 3.00000000\n      0 x0                     2                     1.5\n" +
			"**      1 x1                   0.5                       1\n", optimal, false},
		"cbc, infeasible": {
			readCBC, "Infeasible - objective value 348.00000000\n      0 x0  4  0\n",
			Solution{Status: Infeasible, X: []float64{0, 0}},
			false,
		},
		"cbc, no integers": {
			readCBC, "Integer infeasible - objective value 0.00000000\n",
			Solution{Status: Infeasible, X: []float64{0, 0}},
			false,
		},
		"cbc, time over": {
			readCBC, "Stopped on time - objective value 8.00000000\n      0 x0  4  0\n",
			Solution{X: []float64{0, 0}},
			false,
		},
		"empty":            {readCBC, "", Solution{X: []float64{0, 0}}, true},
		"unknown variable": {readCBC, "Optimal - objective value 3\n 0 x2 2 1.5\n", Solution{}, true},
		"no number":        {readHighs, "Model status\nOptimal\n# Columns 1\nx0 two\n", Solution{}, true},
	} {
		s := Solution{X: make([]float64, 2)}
		err := c.read(bufio.NewScanner(strings.NewReader(c.text)), &s)
		if (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
		if !c.bad && (s.Status != c.want.Status || s.X[0] != c.want.X[0] || s.X[1] != c.want.X[1]) {
			t.Errorf("%s: %+v, want %+v", name, s, c.want)
		}
	}
}

// Random programs of few integers, against all of their values.
func TestSolveAgainstEnumeration(t *testing.T) {
	t.Parallel()
	solver, err := Find("")
	if err != nil {
		t.Skipf("not tested here: %v", err)
	}
	infeasible := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := &Program{}
		for range 4 {
			p.Add(Variable{Low: -1, High: 2, Cost: rng.NormFloat64(), Integer: true})
		}
		for range 3 {
			var terms []Term
			for k := range 4 {
				terms = append(terms, Term{k, rng.NormFloat64()})
			}
			p.AtLeast(1+rng.NormFloat64(), terms...)
		}
		least := math.Inf(1)
		for code := range 256 {
			x := [4]float64{float64(code%4) - 1, float64(code/4%4) - 1, float64(code/16%4) - 1, float64(code/64) - 1}
			cost, ok := 0.0, true
			for k, v := range p.Variables {
				cost += v.Cost * x[k]
			}
			for _, r := range p.Rows {
				sum := 0.0
				for _, term := range r.Terms {
					sum += term.Coef * x[term.Variable]
				}
				ok = ok && sum >= r.Low
			}
			if ok {
				least = min(least, cost)
			}
		}
		s, err := solver.Solve(t.Context(), p, time.Minute)
		cost := 0.0
		for k, v := range p.Variables {
			cost += v.Cost * s.X[k]
		}
		switch {
		case err != nil:
			t.Fatal(err)
		case math.IsInf(least, 1):
			if infeasible++; s.Status != Infeasible {
				t.Errorf("seed %d: %+v, and there is no solution", seed, s)
			}
		case s.Status != Optimal || math.Abs(cost-least) > 1e-6:
			t.Errorf("seed %d: %+v, the least cost is %v", seed, s, least)
		}
	}
	if infeasible < 3 || infeasible > 17 {
		t.Errorf("%d of 20 are infeasible", infeasible)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := solver.Solve(ctx, &Program{}, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := *solver
	broken.Path = "/bin/false"
	if _, err := broken.Solve(t.Context(), &Program{}, time.Minute); err == nil {
		t.Error("a solver that fails")
	}
}

// HiGHS exits with 1 when its time is over, and with an answer; a program that hangs is stopped.
func TestSolverExits(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("not tested here: the solver is a shell script")
	}
	run := func(name, script string, limit time.Duration) (*Solution, error) {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		s := must.Get(Find(path))(t)
		return s.Solve(t.Context(), &Program{Variables: make([]Variable, 1)}, limit)
	}
	late, err := run("highs", `printf 'Model status\nTime limit reached\n' > answer.txt; exit 1`, time.Second)
	if err != nil || late.Status != Unknown {
		t.Errorf("time over: %+v, %v", late, err)
	}
	if _, err := run("cbc", "echo no licence; exit 3", time.Second); err == nil ||
		!strings.Contains(err.Error(), "no licence") {
		t.Errorf("no answer: %v", err)
	}
	hangs, err := run("cbc", "sleep 60", 10*time.Millisecond-grace)
	if err != nil || hangs.Status != Unknown {
		t.Errorf("hangs: %+v, %v", hangs, err)
	}
}
