package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
)

// external is TensorProto.DataLocation.EXTERNAL.
const externalLocation = 1

// tensor turns p into a tensor whose elements are in Raw (or Strings), wherever
// p has them. Typed data of an element type that package graph does not know
// stays in Extra.
func (d *decoder) tensor(p *onnxpb.TensorProto) *graph.Tensor {
	t := &graph.Tensor{Name: p.GetName(), DType: graph.DType(p.GetDataType()), Dims: p.Dims, Doc: p.GetDocString()}
	if err := d.contents(t, p); err != nil {
		d.bad(err)
		t.Raw, t.Dims = nil, []int64{0} // one mistake is one error: without elements, t has nothing else to object to
	}
	p.Name, p.DataType, p.Dims, p.DocString, p.RawData = nil, nil, nil, nil, nil
	t.Extra = leftover(p)
	return t
}

func (d *decoder) contents(t *graph.Tensor, p *onnxpb.TensorProto) error {
	lists := 0
	for _, n := range []int{
		len(p.FloatData), len(p.Int32Data), len(p.Int64Data), len(p.DoubleData), len(p.Uint64Data),
		len(p.StringData),
	} {
		if n > 0 {
			lists++
		}
	}
	isExternal := p.GetDataLocation() == externalLocation
	switch {
	case lists > 1 || lists == 1 && (len(p.RawData) > 0 || isExternal) || isExternal && len(p.RawData) > 0:
		return errors.New("has its elements in more than one place")
	case isExternal:
		raw, err := d.external.read(t, p.ExternalData)
		t.Raw, p.ExternalData, p.DataLocation = raw, nil, nil
		return err
	case t.DType == graph.String:
		if len(p.RawData) > 0 || lists == 1 && len(p.StringData) == 0 {
			return errors.New("is a string tensor without string data")
		}
		t.Strings, p.StringData, p.RawData = p.StringData, nil, nil
		return nil
	case p.RawData != nil || t.DType.Bits() == 0:
		t.Raw = p.RawData
		return nil
	}
	return typed(t, p, lists)
}

// typed fills t.Raw from the field of p that the standard prescribes for t's type.
func typed(t *graph.Tensor, p *onnxpb.TensorProto, lists int) (err error) {
	used := 0
	t.Raw = []byte{}
	switch t.DType {
	case graph.Float:
		t.Raw, used = make([]byte, 4*len(p.FloatData)), len(p.FloatData)
		for i, v := range p.FloatData {
			binary.LittleEndian.PutUint32(t.Raw[4*i:], math.Float32bits(v))
		}
		p.FloatData = nil
	case graph.Double:
		t.Raw, used = make([]byte, 8*len(p.DoubleData)), len(p.DoubleData)
		for i, v := range p.DoubleData {
			binary.LittleEndian.PutUint64(t.Raw[8*i:], math.Float64bits(v))
		}
		p.DoubleData = nil
	case graph.Int64:
		t.Raw, used = make([]byte, 8*len(p.Int64Data)), len(p.Int64Data)
		for i, v := range p.Int64Data {
			binary.LittleEndian.PutUint64(t.Raw[8*i:], uint64(v))
		}
		p.Int64Data = nil
	case graph.Uint32, graph.Uint64:
		used = len(p.Uint64Data)
		t.Raw, err = unsigned(t.DType, p.Uint64Data)
		p.Uint64Data = nil
	default:
		used = len(p.Int32Data)
		t.Raw, err = narrow(t.DType, p.Int32Data)
		p.Int32Data = nil
	}
	if err == nil && lists == 1 && used == 0 {
		err = fmt.Errorf("is of type %s but has its elements in a field for another type", t.DType)
	}
	return err
}

func unsigned(t graph.DType, v []uint64) ([]byte, error) {
	size := t.Bits() / 8
	raw := make([]byte, size*len(v))
	for i, x := range v {
		if size == 8 {
			binary.LittleEndian.PutUint64(raw[8*i:], x)
			continue
		}
		if x > math.MaxUint32 {
			return nil, fmt.Errorf("element %d is %d, which is not a %s", i, x, t)
		}
		binary.LittleEndian.PutUint32(raw[4*i:], uint32(x))
	}
	return raw, nil
}

// narrow encodes int32_data, which holds every type of up to 32 bits: integers
// as such, 16-bit floats as their bits, types below a byte as packed bytes.
func narrow(t graph.DType, v []int32) ([]byte, error) {
	lo, hi := int32(math.MinInt32), int32(math.MaxInt32)
	switch t {
	case graph.Int8:
		lo, hi = math.MinInt8, math.MaxInt8
	case graph.Int16:
		lo, hi = math.MinInt16, math.MaxInt16
	case graph.Uint16, graph.Float16, graph.BFloat16:
		lo, hi = 0, math.MaxUint16
	case graph.Bool:
		lo, hi = 0, 1
	case graph.Uint8, graph.Uint4, graph.Int4, graph.Uint2, graph.Int2:
		lo, hi = 0, math.MaxUint8
	}
	size := max(1, t.Bits()/8)
	raw := make([]byte, 0, size*len(v))
	for i, x := range v {
		if x < lo || x > hi {
			return nil, fmt.Errorf("element %d is %d, which is not a %s", i, x, t)
		}
		switch size {
		case 1:
			raw = append(raw, byte(x))
		case 2:
			raw = binary.LittleEndian.AppendUint16(raw, uint16(x))
		default:
			raw = binary.LittleEndian.AppendUint32(raw, uint32(x))
		}
	}
	return raw, nil
}
