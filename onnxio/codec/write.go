package codec

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cfq/onnxio/graph"
)

// Marshal encodes m with all tensors inline. The same model gives the same bytes.
func Marshal(m *graph.Model) ([]byte, error) {
	var e encoder
	p := e.model(m)
	if e.err != nil {
		return nil, fmt.Errorf("encode model: %w", e.err)
	}
	if n := proto.Size(p); n > maxSize {
		return nil, fmt.Errorf("encode model: %d bytes are more than the 2 GB that an ONNX file can have", n)
	}
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode model: %w", err)
	}
	return b, nil
}
