package qdq_test

import (
	"fmt"
	"testing"

	"cfq/quant"
	"cfq/quant/qdq"
)

func TestIntegers(t *testing.T) {
	t.Parallel()
	chain := func(widths ...int) (layers []quant.LayerInfo) {
		for i, out := range widths[1:] {
			layers = append(layers, quant.LayerInfo{Input: fmt.Sprint("v", i), In: widths[i], Out: out})
		}
		return layers
	}
	both := chain(100, 400, 2)
	both[1].Input, both[1].In, both[1].Out = both[0].Input, 100, 400 // two layers read the input
	conv := chain(9, 9000, 900, 2)
	conv[0].Conv = &quant.Conv{}
	for name, c := range map[string]struct {
		layers []quant.LayerInfo
		want   string
	}{
		"small":            {chain(104, 64, 32, 2), "[false false false]"},
		"256 wide":         {chain(104, 256, 256, 2), "[false true true]"},
		"narrower":         {chain(104, 255, 256, 2), "[false false false]"},
		"wide input":       {chain(784, 128, 10), "[true true]"},
		"narrow behind":    {chain(20, 300, 300, 8, 8, 2), "[false true true true true]"},
		"two of one input": {both, "[true true]"},
		"convolution":      {conv, "[false true true]"},
	} {
		if got := fmt.Sprint(qdq.Integers(c.layers)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
