package ort

import (
	"fmt"

	ort "github.com/yalue/onnxruntime_go"
)

// Options says how models are run. The zero value is what production uses:
// every optimization, one thread.
type Options struct {
	Lib     string // path of the ONNX Runtime library; "" finds it, see Find
	Threads int    // threads inside one operator; 0 means 1
	Level   Level  // graph optimizations; the zero value is All
}

// Level says how far ONNX Runtime rewrites the graph before it runs it.
type Level int

// The levels of ONNX Runtime, from the most to the least rewriting.
const (
	All      Level = iota // Extended and layout changes: what ONNX Runtime does by default
	Extended              // Basic and fusions to kernels of the CPU, integer kernels among them
	Basic                 // constant folding and the like
	Disabled              // the graph as it is in the file
)

// String returns the name of the level: "all", "extended", "basic" or "disabled".
func (l Level) String() string {
	switch l {
	case All:
		return "all"
	case Extended:
		return "extended"
	case Basic:
		return "basic"
	case Disabled:
		return "disabled"
	}
	return fmt.Sprintf("level %d", int(l))
}

func (l Level) native() (ort.GraphOptimizationLevel, error) {
	switch l {
	case All:
		return ort.GraphOptimizationLevelEnableAll, nil
	case Extended:
		return ort.GraphOptimizationLevelEnableExtended, nil
	case Basic:
		return ort.GraphOptimizationLevelEnableBasic, nil
	case Disabled:
		return ort.GraphOptimizationLevelDisableAll, nil
	}
	return 0, fmt.Errorf("unknown optimization %s", l)
}

// native makes the session options; the caller destroys them.
func (o Options) native() (_ *ort.SessionOptions, err error) {
	if o.Threads < 0 {
		return nil, fmt.Errorf("threads must be 0 or more, not %d", o.Threads)
	}
	level, err := o.Level.native()
	if err != nil {
		return nil, err
	}
	so, err := ort.NewSessionOptions()
	if err != nil {
		return nil, fmt.Errorf("making session options: %w", err)
	}
	defer func() {
		if err != nil {
			so.Destroy()
		}
	}()
	steps := []func() error{
		func() error { return so.SetGraphOptimizationLevel(level) },
		func() error { return so.SetIntraOpNumThreads(max(1, o.Threads)) },
		func() error { return so.SetInterOpNumThreads(1) },
		// Errors come back as errors; the library's copies of them on stderr are noise.
		func() error { return so.SetLogSeverityLevel(ort.LoggingLevelFatal) },
		// Waiting threads would spin and so keep the cores from the other sessions.
		func() error { return so.AddSessionConfigEntry("session.intra_op.allow_spinning", "0") },
		func() error { return so.AddSessionConfigEntry("session.inter_op.allow_spinning", "0") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("setting session options: %w", err)
		}
	}
	return so, nil
}
