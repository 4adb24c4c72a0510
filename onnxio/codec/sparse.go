package codec

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
)

const sparseAttribute = 22 // AttributeProto.sparse_tensor

// unsparse takes the sparse tensors out of the fields called number, as tensors with all their elements.
func (c *modelCoder) unsparse(extra *[]byte, number protowire.Number) (out []*graph.Tensor) {
	var kept []byte
	for f := range fields(*extra) {
		if f.number != number || f.body == nil {
			kept = append(kept, f.raw...)
			continue
		}
		t, err := c.sparse(f.body)
		if err != nil {
			c.bad(fmt.Errorf("sparse tensor %q: %w", t.Name, err))
			t.DType, t.Raw, t.Dims = graph.Float, nil, []int64{0}
		}
		out = append(out, t)
	}
	*extra = kept
	return out
}

func (c *modelCoder) sparse(body []byte) (*graph.Tensor, error) {
	var values, at, t graph.Tensor
	for f := range fields(body) {
		switch to := map[protowire.Number]*graph.Tensor{1: &values, 2: &at}[f.number]; {
		case to != nil:
			var p onnxpb.TensorProto
			if err := proto.Unmarshal(f.body, &p); err != nil {
				return &t, err
			}
			c.tensor(to, &p)
			if err := to.Check(); err != nil {
				return &t, err
			}
		case f.number == 3: // the sizes, each by itself or in one list
			list := f.body
			if list == nil {
				_, _, n := protowire.ConsumeTag(f.raw)
				list = f.raw[n:]
			}
			for len(list) > 0 {
				v, n := protowire.ConsumeVarint(list)
				if n < 0 {
					return &t, errors.New("its sizes are damaged")
				}
				t.Dims, list = append(t.Dims, int64(v)), list[n:] //nolint:gosec // checked with the others
			}
		}
	}
	t.Name, t.DType = values.Name, values.DType
	return &t, scatter(&t, &values, &at)
}

// scatter puts the values where at says: at the positions in the list of all elements, or at coordinates.
func scatter(t, values, at *graph.Tensor) error {
	size, err := rawSize(t)
	if err != nil {
		return err
	}
	width := t.DType.Bits() / 8
	if width == 0 || size > 1<<16+1000*int64(len(values.Raw)) { // a small file must not fill the memory
		return fmt.Errorf("%s%v, %d bytes with its zeros, is not read: store it densely", t.DType, t.Dims, size)
	}
	places, err := at.Ints()
	n, rank := values.Len(), 1
	if len(at.Dims) > 1 {
		rank = len(t.Dims)
	}
	if err != nil || len(places) != n*rank {
		return fmt.Errorf("it has %d values and %v indices", n, at.Dims)
	}
	t.Raw = make([]byte, size)
	for k := range n {
		place := places[k*rank : (k+1)*rank]
		i := int64(0)
		for axis, v := range place {
			d := size / int64(width)
			if len(at.Dims) > 1 {
				d = t.Dims[axis]
			}
			if v < 0 || v >= d {
				return fmt.Errorf("index %v lies outside of %v", place, t.Dims)
			}
			i = i*d + v
		}
		copy(t.Raw[int(i)*width:], values.Raw[k*width:(k+1)*width])
	}
	return nil
}
