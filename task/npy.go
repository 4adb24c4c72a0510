package task

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
)

// npyMagic starts every .npy file.
const npyMagic = "\x93NUMPY"

// npy reads a two-dimensional .npy matrix of model inputs: float32 or float64, little-endian, C order, header version 1, 2 or 3.
func (rd *reader) npy(in *bufio.Reader) error {
	size, rows, err := npyHeader(in, rd.people.Dim)
	if err != nil {
		return fmt.Errorf(".npy: %w", err)
	}
	rd.note("a .npy matrix has no label column: outcomes are not known")
	p := rd.people
	buf := make([]byte, size*p.Dim)
	x := make([]float32, p.Dim)
	for n := range rows {
		if n%1024 == 0 && rd.ctx.Err() != nil {
			return rd.ctx.Err()
		}
		if _, err := io.ReadFull(in, buf); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return fmt.Errorf(".npy: the header promises %d rows and the file ends in row %d", rows, n)
			}
			return fmt.Errorf(".npy: %w", err)
		}
		for i := range x {
			if size == 4 {
				x[i] = math.Float32frombits(binary.LittleEndian.Uint32(buf[4*i:]))
			} else {
				x[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(buf[8*i:])))
			}
		}
		if rd.take() {
			if prob := rd.task.checkInputs(x); prob != nil {
				prob.Line = n + 1
				rd.problem(prob)
			} else {
				p.X = append(p.X, x...)
				p.N++
				p.Lines, p.Rows, p.Labels = append(p.Lines, n+1), append(p.Rows, rd.pick.row), append(p.Labels, -1)
				if rd.hash != nil {
					p.Hashes = append(p.Hashes, rd.hash.numbers(x))
				}
				if rd.texts != nil {
					p.Kept = append(p.Kept, make([]string, len(rd.texts)))
				}
				rd.sample()
			}
		}
		if err := rd.flush(false); err != nil {
			return err
		}
		if rd.pick.full() {
			return nil
		}
	}
	return rd.pick.end()
}

// npyHeader returns the bytes per number and the rows of a matrix with dim columns.
func npyHeader(in *bufio.Reader, dim int) (size, rows int, err error) {
	pre := make([]byte, len(npyMagic)+4)
	if _, err := io.ReadFull(in, pre); err != nil {
		return 0, 0, errors.New("the header is cut off")
	}
	length := int(binary.LittleEndian.Uint16(pre[8:]))
	if pre[6] >= 2 { // version 2 and 3 have a four-byte length
		more := make([]byte, 2)
		if _, err := io.ReadFull(in, more); err != nil {
			return 0, 0, errors.New("the header is cut off")
		}
		length |= int(binary.LittleEndian.Uint16(more)) << 16
	}
	if pre[6] < 1 || pre[6] > 3 || length > 1<<16 {
		return 0, 0, fmt.Errorf("header version %d with %d bytes is not known", pre[6], length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(in, text); err != nil {
		return 0, 0, errors.New("the header is cut off")
	}
	descr := regexp.MustCompile(`'descr':\s*'([^']*)'`).FindSubmatch(text)
	order := regexp.MustCompile(`'fortran_order':\s*(True|False)`).FindSubmatch(text)
	shape := regexp.MustCompile(`'shape':\s*\(\s*(\d+)\s*,\s*(\d+)\s*,?\s*\)`).FindSubmatch(text)
	switch {
	case descr == nil || order == nil:
		return 0, 0, fmt.Errorf("the header %.100q has no descr or fortran_order", text)
	case string(descr[1]) != "<f4" && string(descr[1]) != "<f8":
		return 0, 0, fmt.Errorf("the numbers are %s; save the matrix as float32 (<f4) or float64 (<f8)", descr[1])
	case string(order[1]) == "True":
		return 0, 0, errors.New("the matrix is in Fortran order; save numpy.ascontiguousarray of it")
	case shape == nil:
		return 0, 0, errors.New("the array does not have two dimensions; the shape must be (people, model inputs)")
	}
	cols, colErr := strconv.Atoi(string(shape[2]))
	rows, rowErr := strconv.Atoi(string(shape[1]))
	if colErr != nil || rowErr != nil || cols != dim {
		return 0, 0, fmt.Errorf("the matrix is %s x %s; the task has %d model inputs", shape[1], shape[2], dim)
	}
	size = 4
	if string(descr[1]) == "<f8" {
		size = 8
	}
	return size, rows, nil
}
