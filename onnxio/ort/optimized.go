package ort

import (
	"fmt"
	"os"
	"path/filepath"

	ort "github.com/yalue/onnxruntime_go"

	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

// Optimized returns the graph that ONNX Runtime makes of the model in onnx and
// runs: fusions, integer kernels and all. It may hold operators of ONNX
// Runtime's own domains and depend on the processor.
func Optimized(onnx []byte, o Options) (_ *graph.Model, err error) {
	if _, err := load(o.Lib); err != nil {
		return nil, err
	}
	declared, err := codec.Read(onnx, "")
	if err != nil {
		return nil, fmt.Errorf("reading the model: %w", err)
	}
	dir, err := os.MkdirTemp("", "cfq-optimized-")
	if err != nil {
		return nil, fmt.Errorf("making a place for the optimized model: %w", err)
	}
	defer os.RemoveAll(dir)
	so, err := o.native()
	if err != nil {
		return nil, err
	}
	defer so.Destroy()
	path := filepath.Join(dir, "model.onnx")
	if err := so.SetOptimizedModelFilePath(path); err != nil {
		return nil, fmt.Errorf("asking for the optimized model: %w", err)
	}
	ses, err := ort.NewDynamicAdvancedSessionWithONNXData(onnx, names(declared.Graph.DataInputs()), names(declared.Graph.Outputs), so)
	if err != nil {
		return nil, fmt.Errorf("optimizing the model (optimizations: %s): %w", o.Level, err)
	}
	if err := ses.Destroy(); err != nil {
		return nil, fmt.Errorf("optimizing the model: %w", err)
	}
	m, err := codec.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the optimized model: %w", err)
	}
	return m, nil
}
