package graph

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
)

// DType is TensorProto.DataType; values are the standard's.
type DType int32

// The element types of ONNX tensors.
const (
	Undefined DType = 0
	Float     DType = 1
	Uint8     DType = 2
	Int8      DType = 3
	Uint16    DType = 4
	Int16     DType = 5
	Int32     DType = 6
	Int64     DType = 7
	String    DType = 8
	Bool      DType = 9
	Float16   DType = 10
	Double    DType = 11
	Uint32    DType = 12
	Uint64    DType = 13
	BFloat16  DType = 16
	Uint4     DType = 21
	Int4      DType = 22
	Uint2     DType = 25
	Int2      DType = 26
)

type elementType struct {
	name string
	bits int // of an element, 0 for strings
}

func (t DType) element() elementType {
	all := [...]elementType{
		Float: {"float", 32}, Double: {"double", 64}, Float16: {"float16", 16}, BFloat16: {"bfloat16", 16},
		Int64: {"int64", 64}, Int32: {"int32", 32}, Int16: {"int16", 16}, Int8: {"int8", 8}, Int4: {"int4", 4},
		Uint64: {"uint64", 64}, Uint32: {"uint32", 32}, Uint16: {"uint16", 16}, Uint8: {"uint8", 8}, Uint4: {"uint4", 4},
		Int2: {"int2", 2}, Uint2: {"uint2", 2}, Bool: {"bool", 8}, String: {"string", 0},
	}
	if t < 0 || int(t) >= len(all) {
		return elementType{}
	}
	return all[t]
}

// String returns the standard's name of the type, such as "float" or "int4".
func (t DType) String() string {
	if name := t.element().name; name != "" {
		return name
	}
	return fmt.Sprintf("type%d", int32(t))
}

// Bits returns the size of one element in bits, 0 for strings and unknown types.
func (t DType) Bits() int { return t.element().bits }

// IsFloat reports whether t is a floating-point type.
func (t DType) IsFloat() bool {
	return t == Float || t == Double || t == Float16 || t == BFloat16
}

// IsCode reports whether quantized weights may be of type t.
func (t DType) IsCode() bool { return !t.IsFloat() && t != Bool && t != String && t.Bits() <= 16 }

// Tensor is a constant. Raw holds the elements in row-major order, little endian, sub-byte types packed with the first
// element in the low bits and no padding between rows: the layout of TensorProto.raw_data.
type Tensor struct {
	Name  string
	DType DType
	Dims  []int64
	Raw   []byte
	// Strings holds the elements of a String tensor, in place of Raw.
	Strings [][]byte
	Doc     string
	Extra   []byte
}

// Len returns the number of elements. Readers have checked that it fits an int.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Dims {
		n *= int(d)
	}
	return n
}

// RawSize returns the bytes that n elements of type t occupy in Raw.
func (t DType) RawSize(n int) int { return (n*t.Bits() + 7) / 8 }

// FromNumbers makes a tensor of the element type t, one of floating-point numbers; nil for other types. No dims and one
// value make a scalar.
func FromNumbers[T float32 | float64](name string, t DType, v []T, dims ...int64) *Tensor {
	switch t {
	case Float:
		return encoded(name, t, convert[float32](v), dims)
	case Double:
		return encoded(name, t, convert[float64](v), dims)
	case Float16, BFloat16:
		return &Tensor{Name: name, DType: t, Dims: dims, Raw: toHalves(t, convert[float64](v))}
	}
	return nil
}

// FromValues makes a tensor of any type of floats, integers of 8 bits or more, and booleans; nil for other types.
// Numbers that the type does not have are cut off.
func FromValues(name string, t DType, v []float64, dims ...int64) *Tensor {
	integers := map[DType]func(string, DType, []float64, []int64) *Tensor{
		Int64: fromDoubles[int64], Int32: fromDoubles[int32], Int16: fromDoubles[int16], Int8: fromDoubles[int8],
		Uint64: fromDoubles[uint64], Uint32: fromDoubles[uint32], Uint16: fromDoubles[uint16], Uint8: fromDoubles[uint8],
	}
	switch of := integers[t]; {
	case of != nil:
		return of(name, t, v, dims)
	case t == Bool:
		set := make([]uint8, len(v))
		for i, x := range v {
			if x != 0 {
				set[i] = 1
			}
		}
		return encoded(name, t, set, dims)
	}
	return FromNumbers(name, t, v, dims...)
}

func fromDoubles[T tensorElement](name string, t DType, v []float64, dims []int64) *Tensor {
	return encoded(name, t, convert[T](v), dims)
}

// FromFloats makes a float32 tensor; no dims and one value make a scalar.
func FromFloats(name string, v []float32, dims ...int64) *Tensor {
	return FromNumbers(name, Float, v, dims...)
}

// FromInts makes an int64 tensor.
func FromInts(name string, v []int64, dims ...int64) *Tensor { return encoded(name, Int64, v, dims) }

// FromInt32s makes an int32 tensor.
func FromInt32s(name string, v []int32, dims ...int64) *Tensor { return encoded(name, Int32, v, dims) }

type tensorElement interface {
	float32 | float64 | int64 | int32 | int16 | int8 | uint64 | uint32 | uint16 | uint8
}

func encoded[T tensorElement](name string, t DType, v []T, dims []int64) *Tensor {
	raw, err := binary.Append(make([]byte, 0, t.RawSize(len(v))), binary.LittleEndian, v)
	if err != nil {
		panic(err) // a slice of numbers has a size
	}
	return &Tensor{Name: name, DType: t, Dims: dims, Raw: raw}
}

func convert[T, S tensorElement](v []S) []T {
	if same, ok := any(v).([]T); ok {
		return same
	}
	out := make([]T, len(v))
	for i, x := range v {
		out[i] = T(x)
	}
	return out
}

func decoded[T, S tensorElement](raw []byte) []T {
	v := make([]S, len(raw)/binary.Size(S(0)))
	if _, err := binary.Decode(raw, binary.LittleEndian, v); err != nil {
		panic(err) // v has no more elements than raw
	}
	return convert[T](v)
}

// Floats returns the elements as float32, converting from other floating-point numbers if need be.
func (t *Tensor) Floats() ([]float32, error) { return floats[float32](t) }

// Doubles returns the elements as float64, converting from other floating-point numbers if need be.
func (t *Tensor) Doubles() ([]float64, error) { return floats[float64](t) }

func floats[T tensorElement](t *Tensor) ([]T, error) {
	switch t.DType {
	case Float:
		return decoded[T, float32](t.Raw), nil
	case Double:
		return decoded[T, float64](t.Raw), nil
	case Float16, BFloat16:
		return convert[T](halves(t.DType, t.Raw)), nil
	}
	return nil, fmt.Errorf("tensor %q holds %s, not float", t.Name, t.DType)
}

// Ints returns the elements of an int64, int32, int8, uint8 or boolean tensor.
func (t *Tensor) Ints() ([]int64, error) {
	switch t.DType {
	case Int64:
		return decoded[int64, int64](t.Raw), nil
	case Int32:
		return decoded[int64, int32](t.Raw), nil
	case Int8:
		return decoded[int64, int8](t.Raw), nil
	case Uint8, Bool:
		return decoded[int64, uint8](t.Raw), nil
	}
	return nil, fmt.Errorf("tensor %q holds %s, not integers", t.Name, t.DType)
}

// Numbers returns the elements of a tensor that Doubles or Ints reads.
func (t *Tensor) Numbers() ([]float64, error) {
	if t.DType.IsFloat() {
		return t.Doubles()
	}
	v, err := t.Ints()
	return convert[float64](v), err
}

// Shape is a list of dimensions. A nil Shape has unknown rank, an empty one is a scalar.
type Shape []Dim

// Dim is a size: Size >= 0, or -1 with the symbol in Param ("" if it has none).
type Dim struct {
	Size  int64
	Param string
}

// Fixed makes a shape of known sizes.
func Fixed(sizes ...int64) Shape {
	s := make(Shape, len(sizes))
	for i, n := range sizes {
		s[i].Size = n
	}
	return s
}

// Elements is the number of elements of a value of shape s: a size or, where one size is not known but has a name, a
// multiple of that, such as N*8. It is not known where two are not.
func (s Shape) Elements() Dim { return s.Over(nil) }

// Over is the elements of s for each of those of by; names that both have cancel.
func (s Shape) Over(by Shape) Dim {
	n, d := int64(1), int64(1)
	var names []string
	for _, x := range s {
		if x.Size >= 0 {
			n *= x.Size
			continue
		}
		name, times := x.Multiple()
		n, names = n*times, append(names, name)
	}
	for _, x := range by {
		if x.Size >= 0 {
			d *= x.Size
			continue
		}
		name, times := x.Multiple()
		i := slices.Index(names, name)
		if i < 0 || name == "" {
			return Dim{Size: -1}
		}
		d, names = d*times, slices.Delete(names, i, i+1)
	}
	switch {
	case d == 0 || n%d != 0 || len(names) > 1:
		return Dim{Size: -1}
	case len(names) == 0:
		return Dim{Size: n / d}
	case n == d:
		return Dim{Size: -1, Param: names[0]}
	case n == 0 || names[0] == "":
		return Dim{Size: -1}
	}
	return Dim{Size: -1, Param: fmt.Sprintf("%s*%d", names[0], n/d)}
}

// Multiple takes the name of a size that is not known apart: N*8 is 8 times N.
func (d Dim) Multiple() (name string, times int64) {
	if i := strings.LastIndexByte(d.Param, '*'); i > 0 {
		if k, err := strconv.ParseInt(d.Param[i+1:], 10, 32); err == nil && k > 0 {
			return d.Param[:i], k
		}
	}
	return d.Param, 1
}

// String writes s as "[N,3]", and a shape of unknown rank as "*".
func (s Shape) String() string {
	if s == nil {
		return "*"
	}
	return "[" + strings.Join(lists.Map(s, Dim.String), ",") + "]"
}

// String writes d as its size or else its symbol, quoted when it is not plain, and
// an unknown size without a symbol as "?".
func (d Dim) String() string {
	switch {
	case d.Size >= 0:
		return strconv.FormatInt(d.Size, 10)
	case d.Param == "":
		return "?"
	}
	if quoted := strconv.Quote(d.Param); len(quoted) != len(d.Param)+2 || strings.ContainsAny(d.Param, " ,()") {
		return quoted
	}
	return d.Param
}

// Type is the element type and shape of a value. A dimension that the batch decides has Size -1 and a name in Param;
// dimensions of the same name are equal. A dimension of Size -1 without a name is unknown; two of them in the same
// place are taken to be equal.
type Type struct {
	DType DType
	Shape Shape
}

// String returns the type as "float[N,3]".
func (t Type) String() string { return t.DType.String() + t.Shape.String() }

// Types maps the name of a value to its type.
type Types map[string]Type

func halves(t DType, raw []byte) []float64 {
	out := make([]float64, len(raw)/2)
	for i := range out {
		b := binary.LittleEndian.Uint16(raw[2*i:])
		if t == BFloat16 {
			out[i] = float64(math.Float32frombits(uint32(b) << 16))
		} else {
			out[i] = fromHalf(b)
		}
	}
	return out
}

func fromHalf(b uint16) float64 {
	const fraction = 1<<10 - 1
	e, f := int(b>>10&31), float64(b&fraction)
	var v float64
	switch {
	case e == 31 && f > 0:
		v = math.NaN()
	case e == 31:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(f, -24)
	default:
		v = math.Ldexp(f+fraction+1, e-25)
	}
	return math.Copysign(v, 1-2*float64(b>>15))
}

// toHalves encodes numbers, rounded to the nearest, ties to even.
func toHalves(t DType, v []float64) []byte {
	raw := make([]byte, 0, 2*len(v))
	for _, x := range v {
		b := toHalf(x)
		if t == BFloat16 {
			b = toBFloat(float32(x))
		}
		raw = binary.LittleEndian.AppendUint16(raw, b)
	}
	return raw
}

func toHalf(x float64) uint16 {
	var sign uint16
	if math.Signbit(x) {
		sign = 1 << 15
	}
	a := math.Abs(x)
	_, e := math.Frexp(a)
	e = max(e-1, -14)
	switch units := math.RoundToEven(math.Ldexp(a, 10-e)); { // of the last bit
	case a == 0:
		return sign
	case x != x:
		return sign | 31<<10 | 1<<9
	case a >= 65520: // rounds to 2^16
		return sign | 31<<10
	default:
		return sign | (uint16(e+14)<<10 + uint16(units))
	}
}

func toBFloat(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 1<<6
	}
	return uint16((b + 1<<15 - 1 + b>>16&1) >> 16)
}
