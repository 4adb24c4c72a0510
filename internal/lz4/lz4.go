// Package lz4 is what parquet-go needs of github.com/pierrec/lz4, whose module is 34 MB of test data to download and
// 36 MB to keep: blocks, which columns of the codec LZ4_RAW consist of. Blocks are read as the specification says
// (lz4_Block_format.md of lz4.org) and written without matches, for nothing in cfq writes them.
package lz4

import (
	"encoding/binary"
	"errors"
	"slices"
)

// CompressionLevel has no effect.
type CompressionLevel uint32

// The levels that parquet-go names.
const (
	Fast CompressionLevel = iota
	Level1
	Level2
	Level3
	Level4
	Level5
	Level6
	Level7
	Level8
	Level9
)

// Compressor writes blocks.
type Compressor struct{}

// CompressorHC writes blocks.
type CompressorHC struct {
	Compressor
	Level CompressionLevel
}

// CompressBlockBound returns the size of the largest block for n bytes.
func CompressBlockBound(n int) int { return n + n/255 + 16 }

// CompressBlock writes src to dst, which has CompressBlockBound(len(src)) bytes, and returns the length of the block.
func (Compressor) CompressBlock(src, dst []byte) (int, error) {
	out := append(dst[:0], byte(min(len(src), 15))<<4)
	if left := len(src) - 15; left >= 0 {
		out = append(out, slices.Repeat([]byte{255}, left/255)...)
		out = append(out, byte(left%255))
	}
	return len(append(out, src...)), nil
}

// UncompressBlock reads a block and returns its length. The only error is a dst that is too short, for parquet-go then
// tries twice the length, without end. A damaged block has length 0, so that its column lacks values.
func UncompressBlock(src, dst []byte) (int, error) {
	out := dst[:0]
	for len(src) > 0 {
		token := src[0]
		src = src[1:]
		literals, ok := length(token>>4, &src)
		if !ok || literals > len(src) {
			return 0, nil
		}
		if len(out)+literals > len(dst) {
			return 0, errors.New("lz4: the block is longer than its destination")
		}
		out = append(out, src[:literals]...)
		if src = src[literals:]; len(src) == 0 { // the last sequence has no match
			return len(out), nil
		}
		if len(src) < 2 {
			return 0, nil
		}
		offset := int(binary.LittleEndian.Uint16(src))
		src = src[2:]
		match, ok := length(token&15, &src)
		if match += 4; !ok || offset == 0 || offset > len(out) {
			return 0, nil
		}
		if len(out)+match > len(dst) {
			return 0, errors.New("lz4: the block is longer than its destination")
		}
		for ; match > 0; match-- { // a match may overlap what it makes
			out = append(out, out[len(out)-offset])
		}
	}
	return 0, nil
}

// length adds the bytes behind a token to a length of 15, up to the first that is not 255.
func length(first byte, src *[]byte) (n int, ok bool) {
	n = int(first)
	for b := byte(255); first == 15 && b == 255; *src = (*src)[1:] {
		if len(*src) == 0 {
			return 0, false
		}
		b = (*src)[0]
		n += int(b)
	}
	return n, true
}
