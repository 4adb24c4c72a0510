package ptq

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"cfq/calib"
	"cfq/internal/cache"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/recourse"
	"cfq/task"
)

// TeacherCache returns the folder in which the command keeps teacher actions, for
// Options.Cache: teacher in the project's cache directory.
func TeacherCache() (string, error) {
	dir, err := ort.CacheDir()
	return filepath.Join(dir, "teacher"), err
}

// cacheBytes bounds the folder; the least recently used files go.
const cacheBytes = 256 << 20

// worthKeeping is the number of multiplications, rows x weights x steps, from which on the actions are kept.
// Reading them back takes about a tenth of the time at any size (BenchmarkTeacherCache: 16 instead of
// about 150 ms for Adult's training rows, in 0.7 MB); below this number, some 20 ms, nobody
// would notice.
const worthKeeping = 1 << 27

// counterfactual is calib.Counterfactual through the cache.
func (q *job) counterfactual(ctx context.Context, t *task.Task, x []float32, o recourse.TeacherOptions) (*calib.Set, error) {
	weights := 0
	for _, l := range q.found {
		weights += l.Params()
	}
	work := float64(len(x)/q.full.Dim()) * float64(weights) * float64(max(o.Steps, 1))
	if q.o.Cache == "" || work < worthKeeping {
		return calib.Counterfactual(ctx, q.full, q.set, x, o)
	}
	key, err := q.teacherKey(t, x, o)
	if err != nil {
		return nil, err
	}
	c := cache.Dir{Path: q.o.Cache, Limit: cacheBytes}
	if kept, ok := c.Get(key); ok {
		if s, err := unpackSet(kept, x, q.full.Dim()); err == nil {
			q.tell("teacher recourse from the cache", s.Recourse, s.Recourse)
			return s, nil
		}
	}
	s, err := calib.Counterfactual(ctx, q.full, q.set, x, o)
	if err == nil {
		c.Put(key, packSet(s))
	}
	return s, err
}

// teacherKey names everything that the teacher's actions depend on: the program,
// the library and how it is run, the model, the task, what single people can change
// otherwise, the rows and the settings.
func (q *job) teacherKey(t *task.Task, x []float32, o recourse.TeacherOptions) (cache.Key, error) {
	h := sha256.New()
	by, err := computedBy(q.o.Engine)
	if err != nil {
		return cache.Key{}, err
	}
	model, err := codec.Marshal(q.canonical)
	if err != nil {
		return cache.Key{}, err
	}
	o.Workers, o.Progress = 0, nil
	settings := fmt.Sprintf("%+v", o)
	// The task with all of its fields, as resolved: what is written otherwise but means the same is the same.
	fmt.Fprintf(h, "%s %q %d %d\n%+v\n%+v\n", by, settings, len(model), len(x), *t, q.own)
	h.Write(model)
	writeFloats(h, x)
	return cache.Key(h.Sum(nil)), nil
}

// computedBy names what computes: this program, ONNX Runtime and how it is run.
func computedBy(e ort.Options) (string, error) {
	program, err := programVersion()
	if err != nil {
		return "", err
	}
	lib, err := ort.Find(e.Lib)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%q %q %q %v %d", program, runtime.GOARCH, lib.Version, e.Level, e.Threads), nil
}

// programVersion tells builds of this program apart: the module versions and, since those stay the
// same while it is worked on, the program file's size and time.
func programVersion() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the program: %w", err)
	}
	file, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("finding the program: %w", err)
	}
	build, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("%v %d %v", build, file.Size(), file.ModTime().UnixNano()), nil
}

// writeFloats writes x, four bytes each.
func writeFloats(w io.Writer, x []float32) {
	buf := make([]byte, 0, 1<<16)
	for len(x) > 0 {
		part := x[:min(len(x), cap(buf)/4)]
		buf = buf[:0]
		for _, v := range part {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
		w.Write(buf) //nolint:errcheck // a hash takes everything
		x = x[len(part):]
	}
}

// packSet writes what Counterfactual adds to the rows: for each recourse point its row, whether it was
// reached, and the inputs that differ from the row.
func packSet(s *calib.Set) []byte {
	out := binary.AppendUvarint(nil, uint64(s.Recourse))
	for i, r := range s.Source {
		reached := byte(0)
		if s.Reached[i] {
			reached = 1
		}
		out = append(binary.AppendUvarint(out, uint64(r)), reached)
		x, p := s.X[r*s.Dim:(r+1)*s.Dim], s.Points()[i*s.Dim:(i+1)*s.Dim]
		changed := 0
		for j := range p {
			if math.Float32bits(p[j]) != math.Float32bits(x[j]) {
				changed++
			}
		}
		out = binary.AppendUvarint(out, uint64(changed))
		for j := range p {
			if math.Float32bits(p[j]) != math.Float32bits(x[j]) {
				out = binary.LittleEndian.AppendUint32(binary.AppendUvarint(out, uint64(j)), math.Float32bits(p[j]))
			}
		}
	}
	return out
}

var errNoSet = errors.New("this is not a set of recourse points of these rows")

// unpackSet is the inverse of packSet.
func unpackSet(b []byte, x []float32, dim int) (*calib.Set, error) {
	number := func(limit int) int {
		v, n := binary.Uvarint(b)
		if n <= 0 || v >= uint64(limit) {
			b = nil
			return -1
		}
		b = b[n:]
		return int(v)
	}
	rows := len(x) / dim
	s := &calib.Set{Dim: dim, Factual: rows, Recourse: number(rows + 1)}
	if s.Recourse < 0 {
		return nil, errNoSet
	}
	s.X = append(make([]float32, 0, len(x)+s.Recourse*dim), x...)
	s.Source, s.Reached = make([]int, s.Recourse), make([]bool, s.Recourse)
	for i := range s.Recourse {
		r := number(rows)
		if r < 0 || len(b) == 0 {
			return nil, errNoSet
		}
		s.Source[i], s.Reached[i] = r, b[0] == 1
		b = b[1:]
		s.X = append(s.X, x[r*dim:(r+1)*dim]...)
		point := s.X[len(s.X)-dim:]
		changed := number(dim + 1)
		if changed < 0 {
			return nil, errNoSet
		}
		for range changed {
			j := number(dim)
			if j < 0 || len(b) < 4 {
				return nil, errNoSet
			}
			point[j] = math.Float32frombits(binary.LittleEndian.Uint32(b))
			b = b[4:]
		}
	}
	if len(b) > 0 {
		return nil, errNoSet
	}
	return s, nil
}
