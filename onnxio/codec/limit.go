package codec

import "google.golang.org/protobuf/encoding/protowire"

// maxMessages bounds the messages (nodes, attributes, tensors, values ...) of a
// file. An empty one takes two bytes in the file and hundreds in memory; without
// a bound, a hostile file could fill the memory. Real models have thousands.
const maxMessages = 1 << 21

// parts is the tree of a message's fields that are messages themselves.
type parts map[protowire.Number]parts

// modelParts is that of ModelProto, as far as onnx.proto describes it.
func modelParts() parts {
	entry := parts{}
	tensor := parts{13: entry}
	node := parts{5: {5: tensor}}
	value := parts{2: {1: {2: {1: entry}}}}
	return parts{
		7:  {1: node, 5: tensor, 11: value, 12: value, 13: value},
		8:  entry,
		14: entry,
		25: {7: node, 9: entry},
	}
}

// count returns the number of messages in data, which is not decoded for it. It
// stops at what is malformed, which the decoder then reports.
func (p parts) count(data []byte) int {
	total := 0
	for len(data) > 0 && total <= maxMessages {
		field, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(field, typ, data[n:])
		if size < 0 {
			break
		}
		if inner, ok := p[field]; ok && typ == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(data[n:])
			total += 1 + inner.count(body)
		}
		data = data[n+size:]
	}
	return total
}
