// Package ort runs ONNX models in ONNX Runtime.
//
// In: a model (a graph or the bytes of a file) and named tensors. Out: named tensors, and on request the graph that
// ONNX Runtime made of the model and really runs. The invariant: what is measured is what ONNX Runtime computes from
// the bytes that are shipped, at a stated optimization level; nothing is simulated. All numerical work of the project
// goes through here: logits, gradients (which are ONNX graphs too) and quantized models.
//
// ONNX Runtime is a shared library that is found and loaded at run time, see [Find]; a process loads one.
package ort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"

	"cfq/internal/lists"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

// ErrClosed is wrapped by the error of a Run after Close.
var ErrClosed = errors.New("session is closed")

// Session is a model loaded into ONNX Runtime. All methods may be called from several goroutines at once.
type Session struct {
	inputs  []graph.Value
	outputs []graph.Value

	mu     sync.RWMutex // read-locked by runs, so that Close waits for them
	native *ort.DynamicAdvancedSession

	scalarMu sync.Mutex
	scalars  map[int]graph.DType // outputs known to have rank 0, see Session.run
}

// Open loads m, without the nodes that no output of m depends on. Errors of ONNX
// Runtime name the node at fault where they can.
func Open(m *graph.Model, o Options) (*Session, error) {
	if _, err := Find(o.Lib); err != nil {
		return nil, err
	}
	onnx, err := codec.Marshal(needed(m))
	if err != nil {
		return nil, fmt.Errorf("serializing the model for ONNX Runtime: %w", err)
	}
	return openSession(onnx, m, o)
}

// OpenValues loads m with the values as its outputs, in their order.
func OpenValues(m *graph.Model, o Options, values ...string) (*Session, error) {
	c := m.Clone()
	c.Graph.Outputs = lists.Map(values, func(v string) graph.Value { return graph.Value{Name: v} })
	s, err := Open(c, o)
	if err != nil {
		return nil, fmt.Errorf("the model does not load: %w", err)
	}
	return s, nil
}

// OpenBytes loads the ONNX file in onnx as it is. Weights in other files (external data)
// are refused: read the file with onnxio and use Open.
func OpenBytes(onnx []byte, o Options) (*Session, error) {
	if _, err := Find(o.Lib); err != nil {
		return nil, err
	}
	m, err := codec.Read(onnx, "")
	if err != nil {
		return nil, fmt.Errorf("reading the model's inputs and outputs: %w", err)
	}
	return openSession(onnx, m, o)
}

// largeModel is the size in bytes from which on ONNX Runtime gives the memory of values back after each run, in place
// of keeping twice the most that was ever needed in every session: what runs on so many weights does not notice.
const largeModel = 1 << 22

func openSession(onnx []byte, m *graph.Model, o Options) (*Session, error) {
	s := &Session{inputs: m.Graph.DataInputs(), outputs: slices.Clone(m.Graph.Outputs), scalars: map[int]graph.DType{}}
	if len(s.inputs) == 0 || len(s.outputs) == 0 {
		return nil, fmt.Errorf("a model with %d inputs and %d outputs cannot be run", len(s.inputs), len(s.outputs))
	}
	declared := graph.Types{}
	for _, v := range s.outputs {
		declared[v.Name] = graph.Type{DType: v.DType, Shape: v.Shape}
	}
	s.Expect(declared)
	so, err := o.native(len(onnx) > largeModel, len(onnx) > largeModel || len(m.Graph.Nodes) >= LargeGraph)
	if err != nil {
		return nil, err
	}
	defer so.Destroy()
	s.native, err = ort.NewDynamicAdvancedSessionWithONNXData(onnx, graph.Names(s.inputs), graph.Names(s.outputs), so)
	if err != nil {
		if why := unloaded(err, m); why != nil {
			return nil, why
		}
		return nil, fmt.Errorf("loading the model into ONNX Runtime (optimizations: %s): %s", o.Level,
			place.ReplaceAllString(err.Error(), ""))
	}
	return s, nil
}

// Close frees the model. It waits for runs that are under way; later ones fail with ErrClosed. Closing twice is fine.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.native == nil {
		return nil
	}
	err := s.native.Destroy()
	s.native = nil
	if err != nil {
		return fmt.Errorf("closing the session: %w", err)
	}
	return nil
}

// Run runs the model on in, one tensor for each input in any order, and returns the outputs asked for in that order, or
// all in the model's order. Outputs that are not asked for are computed all the same: drop them from the graph before
// Open to save the time.
//
// Inputs are only read. Cancelling ctx stops the run at the next operator; the error then wraps ctx.Err(). Inputs and
// outputs of fixed-size number types, bool and texts are supported, 16-bit floats as inputs only.
func (s *Session) Run(ctx context.Context, in []*graph.Tensor, outputs ...string) ([]*graph.Tensor, error) {
	return s.RunInto(ctx, in, nil, outputs...)
}

// RunInto is Run that writes the outputs to the tensors of into, in the order of the results, as far as they are there:
// of the output's type and shape, in memory that is none of the inputs'. A result is then that memory.
func (s *Session) RunInto(ctx context.Context, in, into []*graph.Tensor, outputs ...string) ([]*graph.Tensor, error) {
	if len(outputs) == 0 {
		outputs = graph.Names(s.outputs)
	}
	want, at := make([]int, len(outputs)), map[string]int{}
	for i, v := range s.outputs {
		at[v.Name] = i
	}
	for k, name := range outputs {
		i, ok := at[name]
		if want[k] = i; !ok {
			return nil, fmt.Errorf("the model has no output %q; its outputs are %q", name, graph.Names(s.outputs))
		}
	}
	ordered, err := s.arrange(in)
	if err != nil {
		return nil, err
	}
	given := map[int]*graph.Tensor{}
	for k, t := range into {
		if t != nil {
			given[want[k]] = t
		}
	}
	return s.run(ctx, ordered, want, given)
}

// Tensors returns the names of the outputs that are tensors, as far as the model declares them: others, such as lists
// of dictionaries, cannot be read.
func (s *Session) Tensors() []string {
	return graph.Names(lists.Filter(s.outputs, func(v graph.Value) bool {
		return v.DType != graph.Undefined || v.Extra == nil
	}))
}

func (s *Session) arrange(in []*graph.Tensor) ([]*graph.Tensor, error) {
	ordered := make([]*graph.Tensor, len(s.inputs))
	given := lists.Map(in, func(t *graph.Tensor) string { return t.Name })
	var errs []error
	for _, t := range in {
		if i := slices.Index(graph.Names(s.inputs), t.Name); i >= 0 {
			if ordered[i] = t; t.Check() != nil { // ONNX Runtime checks types and shapes, and trusts the memory
				errs = append(errs, fmt.Errorf("input %w", t.Check()))
			}
		}
	}
	if len(in) != len(s.inputs) || slices.Contains(ordered, nil) {
		errs = append(errs, fmt.Errorf("the model's inputs are %q, not %q", graph.Names(s.inputs), given))
	}
	return ordered, errors.Join(errs...)
}

// Options says how models are run. The zero value is what production uses: every optimization, one thread.
type Options struct {
	Lib     string // path of the ONNX Runtime library; "" finds it, see Find
	Threads int    // threads inside one operator; 0 means 1
	Level   Level  // graph optimizations; the zero value is All

	optimized string // path to write the optimized graph to, see Optimized
}

// Level says how far ONNX Runtime rewrites the graph before it runs it.
type Level int

// The levels of ONNX Runtime that are used.
const (
	All      Level = iota // what ONNX Runtime does by default: fusions to integer kernels, layouts
	Disabled              // the graph as it is in the file
)

// String returns the name of the level: "all" or "disabled".
func (l Level) String() string { return [...]string{"all", "disabled"}[l] }

func (o Options) native(withoutArena, withoutPlan bool) (*ort.SessionOptions, error) {
	level := ort.GraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll)
	if o.Level == Disabled {
		level = ort.GraphOptimizationLevelDisableAll
	}
	so, err := ort.NewSessionOptions()
	if err != nil {
		return nil, fmt.Errorf("making session options: %w", err)
	}
	err = errors.Join(
		so.SetGraphOptimizationLevel(level), so.SetIntraOpNumThreads(max(1, o.Threads)), so.SetInterOpNumThreads(1),
		// Errors come back as errors; the library's copies of them on stderr are noise.
		so.SetLogSeverityLevel(ort.LoggingLevelFatal),
		// Waiting threads would spin and so keep the cores from the other sessions.
		so.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
		so.AddSessionConfigEntry("session.inter_op.allow_spinning", "0"))
	if o.optimized != "" {
		err = errors.Join(err, so.SetOptimizedModelFilePath(o.optimized))
	}
	if withoutArena {
		err = errors.Join(err, so.SetCpuMemArena(false))
	}
	if withoutPlan {
		err = errors.Join(err, so.SetMemPattern(false))
	}
	if err != nil {
		so.Destroy()
		return nil, fmt.Errorf("setting session options: %w", err)
	}
	return so, nil
}

// needed returns m without the nodes and initializers that no output depends on, which ONNX Runtime would compute all
// the same. A model with control flow is returned as it is, since subgraphs use values that are not listed as inputs.
func needed(m *graph.Model) *graph.Model {
	if slices.ContainsFunc(m.Graph.Nodes, (*graph.Node).HasGraphs) {
		return m
	}
	c := m.Clone()
	c.Graph.Prune()
	if len(c.Graph.Nodes) >= LargeGraph {
		c.Graph.Schedule()
	}
	return c
}

// LargeGraph is the number of nodes from which on those are put in order, and memory is planned as they run. Each pass
// of ONNX Runtime takes time by the number of nodes times that of those that are ready, but have not had their turn: a
// gradient of 40,000 nodes opens in 5 s, and in 74 s where its nodes stand behind those of the model.
const LargeGraph = 2000

// Optimized returns the graph that ONNX Runtime makes of the model in onnx and runs: fusions, integer kernels and all.
// It may hold operators of ONNX Runtime's own domains and depend on the processor.
func Optimized(onnx []byte, o Options) (*graph.Model, error) {
	dir, err := os.MkdirTemp("", "cfq-optimized-")
	if err != nil {
		return nil, fmt.Errorf("making a place for the optimized model: %w", err)
	}
	defer os.RemoveAll(dir)
	o.optimized = filepath.Join(dir, "model.onnx")
	s, err := OpenBytes(onnx, o)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	m, err := codec.ReadFile(o.optimized)
	if err != nil {
		return nil, fmt.Errorf("reading the optimized model: %w", err)
	}
	return m, nil
}

// Types returns the types of all values of m, as far as ONNX Runtime knows them before a run.
func Types(m *graph.Model, o Options) (graph.Types, error) {
	if _, err := Find(o.Lib); err != nil {
		return nil, err
	}
	c, types := m.Clone(), graph.Types{}
	made := lists.Filter(lists.Join(c.Graph.Nodes, func(n *graph.Node) []string { return n.Outputs }),
		func(name string) bool { return name != "" })
	c.Graph.Outputs = lists.Map(made, func(v string) graph.Value { return graph.Value{Name: v} })
	onnx, err := codec.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("serializing the model for ONNX Runtime: %w", err)
	}
	inputs, outputs, err := ort.GetInputOutputInfoWithONNXData(onnx)
	if err != nil {
		plain := errors.New(place.ReplaceAllString(err.Error(), ""))
		return nil, fmt.Errorf("the model does not load: %w", cmp.Or(unloaded(err, c), plain))
	}
	for _, t := range c.Graph.Inits {
		types[t.Name] = graph.Type{DType: t.DType, Shape: graph.Fixed(t.Dims...)}
	}
	for _, v := range slices.Concat(inputs, outputs) {
		types[v.Name] = graph.Type{DType: graph.DType(v.DataType), Shape: graph.Fixed(v.Dimensions...)}
	}
	return types, nil
}

// run runs the model on inputs in the model's order and returns the outputs
// with the indices in want, those in into in the memory that is given.
//
// The binding cannot take over an output of rank 0 that ONNX Runtime allocated. Such outputs are allocated here, which
// requires to know them: from the file, or from the failure of a first attempt. (That attempt loses the buffers of the
// outputs behind the scalar, once per scalar and session.)
func (s *Session) run(ctx context.Context, inputs []*graph.Tensor, want []int, into map[int]*graph.Tensor) (
	[]*graph.Tensor, error,
) {
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
		v, err := overMemory(t, &pin)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", t.Name, err)
		}
		in[i] = v
	}
	for {
		out, err := s.attempt(ctx, in, into, &pin)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, fmt.Errorf("running the model: %w", ctx.Err())
		case errors.Is(err, ort.ZeroShapeLengthError) && s.learnScalar(out):
			continue
		default:
			if i := slices.IndexFunc(out, unreadable); i >= 0 {
				err = fmt.Errorf("output %q holds 16-bit floats, which are not supported: export the model in float32",
					s.outputs[i].Name)
			}
			return nil, fmt.Errorf("running the model: %w", err)
		}
		defer destroy(out)
		res := make([]*graph.Tensor, len(want))
		for k, i := range want {
			if t := into[i]; t != nil {
				res[k] = &graph.Tensor{DType: t.DType, Dims: t.Dims, Raw: t.Raw}
			} else if res[k], err = fromValue(out[i]); err != nil {
				return nil, fmt.Errorf("output %q: %w", s.outputs[i].Name, err)
			}
			res[k].Name = s.outputs[i].Name
		}
		return res, nil
	}
}

// attempt calls ONNX Runtime once. After an error the values are freed, but the
// slice says how far it came, for learnScalar.
func (s *Session) attempt(ctx context.Context, in []ort.Value, into map[int]*graph.Tensor, pin *runtime.Pinner) (
	out []ort.Value, err error,
) {
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
		if out[i], err = smallValue(&graph.Tensor{DType: t}); err != nil {
			return nil, err
		}
	}
	for i, t := range into {
		if out[i], err = overMemory(t, pin); err != nil {
			return nil, fmt.Errorf("output %q: %w", s.outputs[i].Name, err)
		}
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

// Expect says which outputs have rank 0. Each that is not known costs a run.
func (s *Session) Expect(types graph.Types) {
	s.scalarMu.Lock()
	defer s.scalarMu.Unlock()
	for i, v := range s.outputs {
		if t, ok := types[v.Name]; ok && t.Shape != nil && len(t.Shape) == 0 && t.DType != graph.Undefined {
			s.scalars[i] = t.DType
		}
	}
}

// learnScalar notes the output at which the binding gave up, a nil tensor of a
// known type, and reports whether there was one.
func (s *Session) learnScalar(out []ort.Value) bool {
	s.scalarMu.Lock()
	defer s.scalarMu.Unlock()
	for i, v := range out {
		if !isNil(v) || unreadable(v) {
			continue
		}
		if _, known := s.scalars[i]; !known {
			s.scalars[i] = graph.DType(v.DataType())
			return true
		}
	}
	return false
}

// tensorKind is what the engine does for one element type, in the binding's generic types.
type tensorKind struct {
	dtype  graph.DType
	scalar func(raw []byte) (ort.Value, error) // raw nil: zero
	empty  func(dims []int64) (ort.Value, error)
	read   func(v ort.Value) *graph.Tensor // the contents of v, nil if v is not of this kind
}

// kindFor returns the zero kind for element types that are not supported both ways.
func kindFor(d graph.DType) tensorKind {
	kinds := [...]func(graph.DType) tensorKind{
		graph.Float: kindOf[float32], graph.Double: kindOf[float64], graph.Bool: kindOf[bool],
		graph.Int8: kindOf[int8], graph.Int16: kindOf[int16], graph.Int32: kindOf[int32], graph.Int64: kindOf[int64],
		graph.Uint8: kindOf[uint8], graph.Uint16: kindOf[uint16], graph.Uint32: kindOf[uint32], graph.Uint64: kindOf[uint64],
	}
	if d < 0 || int(d) >= len(kinds) || kinds[d] == nil {
		return tensorKind{}
	}
	return kinds[d](d)
}

func kindOf[T ort.TensorData](dtype graph.DType) tensorKind {
	return tensorKind{
		dtype: dtype,
		scalar: func(raw []byte) (ort.Value, error) {
			one := make([]T, 1)
			copy(bytesOf(one), raw)
			return ort.NewScalar(one[0])
		},
		empty: func(dims []int64) (ort.Value, error) { return ort.NewEmptyTensor[T](dims) },
		read: func(v ort.Value) *graph.Tensor {
			switch v := v.(type) {
			case *ort.Tensor[T]:
				return &graph.Tensor{DType: dtype, Dims: v.GetShape(), Raw: bytesOf(v.GetData())}
			case *ort.Scalar[T]:
				return &graph.Tensor{DType: dtype, Dims: []int64{}, Raw: bytesOf([]T{v.GetData()})}
			}
			return nil
		},
	}
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

// overMemory makes a value over the contents of t, which pin keeps in place until the run is over.
func overMemory(t *graph.Tensor, pin *runtime.Pinner) (ort.Value, error) {
	bits := t.DType.Bits()
	switch {
	case t.DType == graph.String:
		v, err := ort.NewStringTensor(t.Dims)
		if err != nil {
			return nil, err
		}
		if err := v.SetContents(lists.Map(t.Strings, func(s []byte) string { return string(s) })); err != nil {
			return nil, errors.Join(err, v.Destroy())
		}
		return v, nil
	case bits < 8:
		return nil, fmt.Errorf("tensors of type %s cannot be fed to a model", t.DType)
	case len(t.Dims) == 0 || len(t.Raw) == 0:
		return smallValue(t)
	}
	raw := t.Raw
	if uintptr(unsafe.Pointer(&raw[0]))%uintptr(bits/8) != 0 {
		raw = append(make([]byte, 0, len(raw)), raw...) // kernels want aligned elements
	}
	pin.Pin(&raw[0])
	// ONNX Runtime numbers the element types as the standard does.
	return ort.NewCustomDataTensor(t.Dims, raw, ort.TensorElementDataType(t.DType))
}

// smallValue makes a scalar or an empty tensor, which the binding cannot make over memory.
func smallValue(t *graph.Tensor) (ort.Value, error) {
	k := kindFor(t.DType)
	switch {
	case k.dtype == graph.Undefined:
		return nil, fmt.Errorf("scalars and empty tensors of type %s are not supported", t.DType)
	case len(t.Dims) == 0:
		return k.scalar(t.Raw)
	}
	return k.empty(t.Dims)
}

// fromValue makes a tensor of an output. It shares memory with v that is Go's own and stays when v is destroyed.
func fromValue(v ort.Value) (*graph.Tensor, error) {
	if k := kindFor(graph.DType(v.DataType())); k.dtype != graph.Undefined {
		if t := k.read(v); t != nil {
			return t, nil
		}
	}
	switch v := v.(type) {
	case *ort.StringTensor:
		list, err := v.GetContents()
		if err != nil {
			return nil, err
		}
		texts := lists.Map(list, func(s string) []byte { return []byte(s) })
		return &graph.Tensor{DType: graph.String, Dims: v.GetShape(), Strings: texts}, nil
	case *ort.CustomDataTensor:
		return nil, fmt.Errorf("has type %s, which cannot be read back; Cast it in the model", graph.DType(v.DataType()))
	}
	return nil, fmt.Errorf("is not a tensor but %s", v.GetONNXType())
}

// isNil reports whether v is the nil tensor that the binding returns with an error: not to be freed.
func isNil(v ort.Value) bool { return v != nil && reflect.ValueOf(v).IsNil() }

// unreadable reports whether v is a tensor of a type that the binding cannot hand over.
func unreadable(v ort.Value) bool {
	_, ok := v.(*ort.CustomDataTensor)
	return ok && isNil(v)
}

func destroy(values []ort.Value) {
	for _, v := range values {
		if v != nil && !isNil(v) {
			v.Destroy() //nolint:errcheck // fails only on sequences and maps, and leaves nothing to do
		}
	}
}

// Evaluate opens a model, runs it once on in, and returns values of its graph.
func Evaluate(ctx context.Context, m *graph.Model, o Options, in []*graph.Tensor, values ...string) ([]*graph.Tensor,
	error,
) {
	if len(in) == 0 { // a session needs one
		unused := graph.FromFloats("no input", []float32{0}, 1)
		in, m = []*graph.Tensor{unused}, m.Clone()
		m.Graph.Inputs = []graph.Value{{Name: unused.Name, DType: unused.DType, Shape: graph.Fixed(unused.Dims...)}}
	}
	s, err := OpenValues(m, o, values...)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	return s.Run(ctx, in)
}
