package ort

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"

	"cfq/onnxio/graph"
)

// run runs the model on inputs in the model's order and returns the outputs
// with the indices in want.
//
// The binding cannot take over an output of rank 0 that ONNX Runtime allocated.
// Such outputs are allocated here, which requires to know them: from the file,
// or from the failure of a first attempt. (That attempt loses the buffers of
// the outputs behind the scalar, once per scalar and session.)
func (s *Session) run(ctx context.Context, inputs []*graph.Tensor, want []int) ([]*graph.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("running the model: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.native == nil {
		return nil, fmt.Errorf("running the model: %w", ErrClosed)
	}
	var pin runtime.Pinner // ONNX Runtime reads the inputs where they are
	defer pin.Unpin()
	in := make([]ort.Value, len(inputs))
	defer func() { destroy(in) }()
	for i, t := range inputs {
		v, err := newInput(t, &pin)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", t.Name, err)
		}
		in[i] = v
	}
	for {
		out, err := s.attempt(ctx, in)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, fmt.Errorf("running the model: %w", ctx.Err())
		case errors.Is(err, ort.ZeroShapeLengthError) && s.learnScalar(out):
			continue
		default:
			return nil, fmt.Errorf("running the model: %w", err)
		}
		defer destroy(out)
		res := make([]*graph.Tensor, len(want))
		for k, i := range want {
			if res[k], err = fromValue(out[i]); err != nil {
				return nil, fmt.Errorf("output %q: %w", s.outputs[i].Name, err)
			}
			res[k].Name = s.outputs[i].Name
		}
		return res, nil
	}
}

// attempt calls ONNX Runtime once. After an error the values are freed, but the
// slice says how far it came, for learnScalar.
func (s *Session) attempt(ctx context.Context, in []ort.Value) (out []ort.Value, err error) {
	out = make([]ort.Value, len(s.outputs))
	defer func() {
		if err != nil {
			destroy(out)
		}
	}()
	s.scalarMu.Lock()
	scalars := maps.Clone(s.scalars)
	s.scalarMu.Unlock()
	for i, t := range scalars {
		if out[i], err = newScalar(t, nil); err != nil {
			return nil, err
		}
	}
	if ctx.Done() == nil {
		return out, s.native.RunWithOptions(in, out, nil)
	}
	ro, err := ort.NewRunOptions()
	if err != nil {
		return nil, err
	}
	defer ro.Destroy()
	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(terminated)
		ro.Terminate() //nolint:errcheck // fails only on nil
	})
	err = s.native.RunWithOptions(in, out, ro)
	if !stop() {
		<-terminated // it still uses ro
	}
	return out, err
}

// learnScalar notes the output at which the binding gave up, a nil tensor of a
// known type, and reports whether there was one.
func (s *Session) learnScalar(out []ort.Value) bool {
	s.scalarMu.Lock()
	defer s.scalarMu.Unlock()
	for i, v := range out {
		t, ok := nilTensor(v)
		if _, known := s.scalars[i]; ok && !known {
			s.scalars[i] = t
			return true
		}
	}
	return false
}

// kind is what the engine does for one element type, in the binding's generic types.
type kind interface {
	scalar(raw []byte) (ort.Value, error) // raw nil: zero
	empty(dims []int64) (ort.Value, error)
	read(v ort.Value) *graph.Tensor // the contents of v without the type, nil if v is not of this kind
	failed(v ort.Value) bool        // v is a nil tensor of this kind, which the binding returns with an error
}

type typedKind struct {
	kind
	dtype graph.DType
}

// kinds is the table of element types that are supported both ways.
func kinds() [11]typedKind {
	return [...]typedKind{
		{of[float32]{}, graph.Float},
		{of[float64]{}, graph.Double},
		{of[int8]{}, graph.Int8},
		{of[uint8]{}, graph.Uint8},
		{of[int16]{}, graph.Int16},
		{of[uint16]{}, graph.Uint16},
		{of[int32]{}, graph.Int32},
		{of[uint32]{}, graph.Uint32},
		{of[int64]{}, graph.Int64},
		{of[uint64]{}, graph.Uint64},
		{of[bool]{}, graph.Bool},
	}
}

// of is the kind of the Go type T.
type of[T ort.TensorData] struct{}

func (of[T]) scalar(raw []byte) (ort.Value, error) {
	one := make([]T, 1)
	copy(bytesOf(one), raw)
	return ort.NewScalar(one[0])
}

func (of[T]) empty(dims []int64) (ort.Value, error) { return ort.NewEmptyTensor[T](dims) }

func (of[T]) read(v ort.Value) *graph.Tensor {
	switch v := v.(type) {
	case *ort.Tensor[T]:
		return &graph.Tensor{Dims: v.GetShape(), Raw: bytesOf(v.GetData())}
	case *ort.Scalar[T]:
		return &graph.Tensor{Dims: []int64{}, Raw: bytesOf([]T{v.GetData()})}
	}
	return nil
}

func (of[T]) failed(v ort.Value) bool {
	tensor, mine := v.(*ort.Tensor[T])
	return mine && tensor == nil
}

// bytesOf returns the memory of v. ONNX Runtime has the machine's byte order and
// graph.Tensor little endian; no machine that ONNX Runtime is built for differs.
func bytesOf[T ort.TensorData](v []T) []byte {
	if len(v) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}

// ViewFloats makes a float32 tensor over the memory of v, for feeding rows without
// copying them: v must not change while the tensor is in use.
func ViewFloats(name string, v []float32, dims ...int64) *graph.Tensor {
	return &graph.Tensor{Name: name, DType: graph.Float, Dims: dims, Raw: bytesOf(v)}
}

// FloatsOf returns the elements of a float32 tensor that Run returned, without copying
// them, and of any other as Tensor.Floats does.
func FloatsOf(t *graph.Tensor) ([]float32, error) {
	if t.DType != graph.Float || len(t.Raw) == 0 || uintptr(unsafe.Pointer(&t.Raw[0]))%unsafe.Alignof(float32(0)) != 0 {
		return t.Floats()
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&t.Raw[0])), len(t.Raw)/4), nil
}

// newInput makes a value over the contents of t, which pin keeps in place until
// the run is over.
func newInput(t *graph.Tensor, pin *runtime.Pinner) (ort.Value, error) {
	bits := t.DType.Bits()
	switch {
	case bits < 8:
		return nil, fmt.Errorf("tensors of type %s cannot be fed to a model", t.DType)
	case len(t.Dims) == 0:
		return newScalar(t.DType, t.Raw)
	case len(t.Raw) == 0:
		return newEmpty(t.DType, t.Dims)
	}
	raw := t.Raw
	if uintptr(unsafe.Pointer(&raw[0]))%uintptr(bits/8) != 0 {
		raw = append(make([]byte, 0, len(raw)), raw...) // kernels want aligned elements
	}
	pin.Pin(&raw[0])
	// ONNX Runtime numbers the element types as the standard does.
	return ort.NewCustomDataTensor(t.Dims, raw, ort.TensorElementDataType(t.DType))
}

func newScalar(t graph.DType, raw []byte) (ort.Value, error) {
	for _, k := range kinds() {
		if k.dtype == t {
			return k.scalar(raw)
		}
	}
	return nil, fmt.Errorf("scalars of type %s are not supported", t)
}

func newEmpty(t graph.DType, dims []int64) (ort.Value, error) {
	for _, k := range kinds() {
		if k.dtype == t {
			return k.empty(dims)
		}
	}
	return nil, fmt.Errorf("empty tensors of type %s are not supported", t)
}

// fromValue makes a tensor of an output. It shares memory with v that is Go's
// own and stays when v is destroyed.
func fromValue(v ort.Value) (*graph.Tensor, error) {
	for _, k := range kinds() {
		if t := k.read(v); t != nil {
			t.DType = k.dtype
			return t, nil
		}
	}
	switch v := v.(type) {
	case *ort.StringTensor:
		list, err := v.GetContents()
		if err != nil {
			return nil, err
		}
		t := &graph.Tensor{DType: graph.String, Dims: v.GetShape()}
		for _, s := range list {
			t.Strings = append(t.Strings, []byte(s))
		}
		return t, nil
	case *ort.CustomDataTensor:
		return nil, fmt.Errorf("has type %s, which cannot be read back; Cast it in the model", graph.DType(v.DataType()))
	}
	return nil, fmt.Errorf("is not a tensor but %s", v.GetONNXType())
}

// nilTensor returns the element type of a nil tensor inside v, see kind.failed.
func nilTensor(v ort.Value) (graph.DType, bool) {
	for _, k := range kinds() {
		if k.failed(v) {
			return k.dtype, true
		}
	}
	return graph.Undefined, false
}

// destroy frees values, skipping those that were never made.
func destroy(values []ort.Value) {
	for _, v := range values {
		if v == nil {
			continue
		}
		if _, isNil := nilTensor(v); !isNil {
			v.Destroy() //nolint:errcheck // fails only on sequences and maps, and leaves nothing to do
		}
	}
}
