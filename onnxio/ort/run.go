package ort

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"

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
