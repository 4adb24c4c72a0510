package codec

import (
	"bytes"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// diagnose says why data is not an ONNX model.
func diagnose(data []byte) error {
	head := bytes.TrimSpace(bytes.TrimPrefix(data[:min(len(data), 512)], []byte("\xef\xbb\xbf")))
	lower := bytes.ToLower(head)
	switch {
	case len(data) == 0:
		return errors.New("the file is empty")
	case bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")):
		return errors.New("the file is a Git LFS pointer, not the model itself: fetch it with \"git lfs pull\"")
	case bytes.HasPrefix(lower, []byte("<!doctype html")) || bytes.HasPrefix(lower, []byte("<html")):
		return errors.New("the file is an HTML page, not an ONNX model: the download went wrong")
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return errors.New("the file is a zip archive (perhaps a PyTorch checkpoint), not an ONNX model")
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return errors.New("the file is compressed with gzip: unpack it first")
	case len(data) >= 8 && string(data[4:8]) == "ORTM":
		return errors.New("the file is in ONNX Runtime's own format (.ort), not an ONNX model")
	case isText(head):
		return errors.New("the file is text, not an ONNX model")
	}
	return malformed(data)
}

// malformed walks the fields of the outermost message and says where they stop
// making sense.
func malformed(data []byte) error {
	for rest := data; len(rest) > 0; {
		at := len(data) - len(rest)
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fmt.Errorf("the file is not an ONNX model, or is damaged: no protobuf field at byte %d", at)
		}
		rest = rest[n:]
		if typ == protowire.BytesType {
			if size, k := protowire.ConsumeVarint(rest); k > 0 && size > uint64(len(rest)-k) {
				return fmt.Errorf("the file is truncated, or not an ONNX model: field %d at byte %d has %d bytes, of which %d "+
					"are there", num, at, size, len(rest)-k)
			}
		}
		n = protowire.ConsumeFieldValue(num, typ, rest)
		if n < 0 {
			return fmt.Errorf("the file is truncated, or not an ONNX model: field %d at byte %d is not complete", num, at)
		}
		rest = rest[n:]
		if num == 7 && len(rest) == 0 {
			return fmt.Errorf("the file is damaged: the graph at byte %d cannot be decoded", at)
		}
	}
	return errors.New("the file holds no graph: it is not an ONNX model, or is damaged")
}

func isText(head []byte) bool {
	if len(head) == 0 {
		return true
	}
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && len(head) >= utf8.UTFMax || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
		head = head[n:]
	}
	return true
}
