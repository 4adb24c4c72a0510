package proof

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// Network is a network of Relu units: values max(0, v), each v affine in the inputs and in earlier units. The margin is
// the least of what the rows behind those of the units give. See the method Network of a model.
type Network struct {
	Rows  [][]float64 // of units, then of margins: weights of inputs, then of units
	Bias  []float64
	Units int
}

// Pair is what proofs are about: a network and, for statements about two of them, the other one. It is immutable.
type Pair struct {
	inputs, units, margins int
	of, other              side
	difference             side // other less of
}

// side is a network by rows, each with the range of the units that it reads.
type side struct {
	input  [][]float64 // nil for a row that reads no inputs
	weight [][]float64 // of the units from first on
	first  []int
	bias   []float64
}

// NewPair prepares proofs about one network or, unless other is nil, about two of the same structure. An error says
// what differs.
func NewPair(of, other *Network) (*Pair, error) {
	p := &Pair{inputs: len(of.Rows[0]) - of.Units, units: of.Units, margins: len(of.Rows) - of.Units}
	p.of = p.side(of.Rows, of.Bias)
	if other == nil {
		return p, nil
	}
	if other.Units != of.Units || len(other.Rows) != len(of.Rows) || len(other.Rows[0]) != len(of.Rows[0]) {
		return nil, fmt.Errorf("the two networks have %d and %d Relu units, %d and %d inputs: proofs compare unit by unit",
			of.Units, other.Units, p.inputs, len(other.Rows[0])-other.Units)
	}
	rows, bias := p.scaled(of, other)
	apart, offsets := make([][]float64, len(rows)), make([]float64, len(rows))
	for r := range rows {
		apart[r] = floats.SubTo(make([]float64, len(rows[r])), rows[r], of.Rows[r])
		offsets[r] = bias[r] - of.Bias[r]
	}
	p.other, p.difference = p.side(rows, bias), p.side(apart, offsets)
	return p, nil
}

// Alone returns the network without the other one.
func (k *Pair) Alone() *Pair {
	alone := *k
	alone.other, alone.difference = side{}, side{}
	return &alone
}

// Affine says whether the network's margin is affine.
func (k *Pair) Affine() bool { return k.units == 0 && k.margins == 1 }

// scaled returns the other network with units as large as their twins. Equalization multiplies a unit's row and divides
// what reads it, which changes no margin.
func (k *Pair) scaled(of, other *Network) (rows [][]float64, bias []float64) {
	rows, bias = make([][]float64, len(other.Rows)), append([]float64(nil), other.Bias...)
	for r := range rows {
		rows[r] = append([]float64(nil), other.Rows[r]...)
	}
	for u := range k.units {
		ratio := floats.Norm(of.Rows[u], 2) / floats.Norm(rows[u], 2)
		if !(ratio > 0) || math.IsInf(ratio, 0) || ratio > 0.7 && ratio < 1.4 {
			continue
		}
		ratio = math.Exp2(math.Round(math.Log2(ratio)))
		floats.Scale(ratio, rows[u])
		bias[u] *= ratio
		for r := u + 1; r < len(rows); r++ {
			rows[r][k.inputs+u] /= ratio
		}
	}
	return rows, bias
}

func (k *Pair) side(rows [][]float64, bias []float64) side {
	s := side{bias: bias}
	for _, row := range rows {
		in, units := row[:k.inputs], row[k.inputs:]
		first, last := 0, len(units)
		for first < last && units[first] == 0 {
			first++
		}
		for last > first && units[last-1] == 0 {
			last--
		}
		if floats.Norm(in, 1) == 0 {
			in = nil
		}
		s.input, s.weight = append(s.input, in), append(s.weight, units[first:last])
		s.first = append(s.first, first)
	}
	return s
}
