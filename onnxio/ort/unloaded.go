package ort

import (
	"fmt"
	"regexp"

	"cfq/onnxio/graph"
)

// Unloaded is why ONNX Runtime does not load a file, where that is known: no file with this model can be run.
type Unloaded struct {
	Reason  string
	Instead string // what to export instead, "" when that is not known
}

// Error says why, and what to do.
func (u *Unloaded) Error() string {
	if u.Instead == "" {
		return u.Reason
	}
	return u.Reason + ": " + u.Instead
}

const oldest = 7

var (
	noKernel = regexp.MustCompile(`Could not find an implementation for (\w+)\((\d+)\) node with name '([^']*)'`)
	newIR    = regexp.MustCompile(`Unsupported model IR version: (\d+), max supported IR version: (\d+)`)
	newOpset = regexp.MustCompile(`Opset (\d+) is under development.* domain (\S+) is till opset (\d+)`)
	place    = regexp.MustCompile(`\S+\.(?:cc|h):\d+ [^(]*\((?:[^()]|\([^()]*\))*\)(?: const)? `)
)

func unloaded(err error, m *graph.Model) error {
	text := err.Error()
	if f := newIR.FindStringSubmatch(text); f != nil {
		return &Unloaded{
			fmt.Sprintf("the file has IR version %s, and this ONNX Runtime reads versions up to %s", f[1], f[2]),
			fmt.Sprintf("export it with an older onnx package, or set model.ir_version = %s and save it again", f[2]),
		}
	}
	if f := newOpset.FindStringSubmatch(text); f != nil {
		return &Unloaded{
			fmt.Sprintf("the file has operator set %s of %s, and this ONNX Runtime knows sets up to %s", f[1], f[2], f[3]),
			fmt.Sprintf("export it with operator set %s or an older one", f[3]),
		}
	}
	f := noKernel.FindStringSubmatch(text)
	if f == nil {
		return nil
	}
	if v := m.Opset(""); v < oldest {
		return &Unloaded{
			fmt.Sprintf("the file has operator set %d, and ONNX Runtime has operators from set %d on", v, oldest),
			"export it with operator set 17, or convert it with onnx.version_converter",
		}
	}
	u := &Unloaded{Reason: fmt.Sprintf(
		"ONNX Runtime does not implement an operator for the types it has here: %s (version %s), node %q", f[1], f[2], f[3])}
	for _, v := range m.Graph.DataInputs() {
		if v.DType == graph.Double {
			u.Reason += fmt.Sprintf("; input %q is double", v.Name)
			u.Instead = "export the model with float inputs"
		}
	}
	return u
}

func withoutPlace(err error) string { return place.ReplaceAllString(err.Error(), "") }
