package ptq

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"

	"cfq/calib"
	"cfq/internal/cache"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
)

// TeacherCache returns the folder in which the command keeps teacher actions and statistics of layers, for
// Options.Cache: teacher in the project's cache directory.
func TeacherCache() (string, error) {
	dir, err := ort.CacheDir()
	return filepath.Join(dir, "teacher"), err
}

// cacheBytes bounds the folder; the least recently used files are removed.
const cacheBytes = 256 << 20

// minTeacherWork is the number of multiplications, rows x weights x steps, from which on teacher actions are kept.
// Reading them back takes about a tenth of the time at any size (BenchmarkTeacherCache: 16 instead of
// about 150 ms for Adult's training rows, in 0.7 MB); below this number, some 20 ms, it would not be
// noticed.
const minTeacherWork = 1 << 27

// minStatsWork is the number of products, rows x squares of the layers' inputs,
// from which on statistics are kept; below it, some 20 ms, it would not be noticed.
// Reading them back takes less than a tenth of the time (BenchmarkStatsCache: 85 ms
// instead of 1000, with gradients 1700, for Adult's training rows on a busy machine,
// most of them the hash of the rows, in 0.15 and 0.28 MB).
const minStatsWork = 1 << 25

// entry is how one kind of result is kept.
type entry[T any] struct {
	stage   string                  // told when it is read back
	inputs  func(h hash.Hash) error // everything that it depends on, besides the program, the library and the model
	compute func() (T, error)
	pack    func(T) []byte
	unpack  func([]byte) (T, error)
	count   func(T) int
}

// kept returns a result from the cache, or computes and keeps it.
func kept[T any](p *prepared, e entry[T]) (result T, err error) {
	h := sha256.New()
	by, err := computedBy(p.engine)
	if err != nil {
		return result, err
	}
	model, err := codec.Marshal(p.canonical)
	if err != nil {
		return result, err
	}
	fmt.Fprintf(h, "%s %s %d\n", e.stage, by, len(model))
	h.Write(model)
	if err := e.inputs(h); err != nil {
		return result, err
	}
	key, c := cache.Key(h.Sum(nil)), cache.Dir{Path: p.o.Cache, Limit: cacheBytes}
	if b, ok := c.Get(key); ok {
		if v, err := e.unpack(b); err == nil {
			p.tell(e.stage+" from the cache", e.count(v), e.count(v))
			return v, nil
		}
	}
	if result, err = e.compute(); err == nil {
		c.Put(key, e.pack(result))
	}
	return result, err
}

// counterfactual is calib.Counterfactual of a cohort through the cache.
func (p *prepared) counterfactual(ctx context.Context, c *cohort) (*calib.Set, error) {
	x, o := c.people.X, p.teacher()
	compute := func() (*calib.Set, error) { return calib.Counterfactual(ctx, p.full, c.set, x, o) }
	weights := 0
	for _, l := range p.found {
		weights += l.Params()
	}
	work := float64(len(x)/p.full.Dim()) * float64(weights) * float64(max(o.Steps, 1))
	if p.o.Cache == "" || work < minTeacherWork {
		return compute()
	}
	settings := o
	settings.Workers, settings.Progress = 0, nil
	return kept(p, entry[*calib.Set]{
		stage: "teacher recourse",
		inputs: func(h hash.Hash) error {
			// The task with all of its fields, as resolved: two spellings of the same task are the same.
			fmt.Fprintf(h, "%q %d\n%+v\n%+v\n", fmt.Sprintf("%+v", settings), len(x), *p.task, c.own)
			writeFloats(h, x)
			return nil
		},
		compute: compute,
		pack:    packSet,
		unpack:  func(b []byte) (*calib.Set, error) { return unpackSet(b, x, p.full.Dim()) },
		count:   func(s *calib.Set) int { return s.Recourse },
	})
}

// statistics is calib.Collect of the calibration set, kept from so much work on.
func (c *calibrated) statistics(ctx context.Context, minWork float64) ([]calib.Stats, error) {
	o := c.collects()
	compute := func() ([]calib.Stats, error) {
		return calib.Collect(ctx, c.full, c.grid.wide, c.cal, c.grid.input, o)
	}
	work := 0.0
	for _, l := range c.grid.wide {
		work += float64(c.cal.Rows()) * float64(l.In) * float64(l.In)
	}
	if c.o.Cache == "" || work < minWork {
		return compute()
	}
	return kept(c.prepared, entry[[]calib.Stats]{
		stage: "statistics of the layers",
		inputs: func(h hash.Hash) error {
			input, err := json.Marshal(c.grid.input)
			if err != nil {
				return fmt.Errorf("the input's grid: %w", err)
			}
			fmt.Fprintf(h, "%+v %d %d %d %q\n", o, c.full.Target(), len(c.cal.X), len(c.cal.Weights), input)
			for _, l := range c.grid.wide {
				fmt.Fprintf(h, "%q %q %q %d %d\n", l.Node, l.Input, l.Output, l.In, l.Out)
			}
			writeFloats(h, c.cal.X)
			for _, w := range c.cal.Weights {
				fmt.Fprintf(h, "%x ", w) // exact
			}
			return nil
		},
		compute: compute,
		pack:    packed[[]calib.Stats],
		unpack: func(b []byte) ([]calib.Stats, error) {
			s, err := unpacked[[]calib.Stats](b)
			if err == nil && len(s) != len(c.grid.wide) {
				err = errors.New("statistics of other layers")
			}
			return s, err
		},
		count: func(s []calib.Stats) int { return len(s) },
	})
}

// collects says what statistics the ranges need.
func (p *prepared) collects() calib.CollectOptions {
	return calib.CollectOptions{Logits: p.o.WeightRange == calib.Logits || p.o.ActRange == calib.Logits}
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

// keptSet is what Counterfactual adds to the rows.
type keptSet struct {
	Source  []int // ascending
	Reached []bool
	Points  []float32
}

func packSet(s *calib.Set) []byte { return packed(keptSet{s.Source, s.Reached, s.Points()}) }

func packed[T any](v T) []byte {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		panic(err) // memory takes everything
	}
	return b.Bytes()
}

// unpacked is the inverse of packed.
func unpacked[T any](b []byte) (v T, err error) {
	r := bytes.NewReader(b)
	if err = gob.NewDecoder(r).Decode(&v); err == nil && r.Len() > 0 {
		err = errors.New("there is more behind")
	}
	return v, err
}

var errNoSet = errors.New("this is not a set of recourse points of these rows")

// unpackSet is the inverse of packSet.
func unpackSet(b []byte, x []float32, dim int) (*calib.Set, error) {
	k, err := unpacked[keptSet](b)
	n, rows := len(k.Source), len(x)/dim
	outside := func(row int) bool { return row < 0 || row >= rows }
	if err != nil || len(k.Reached) != n || len(k.Points) != n*dim || slices.ContainsFunc(k.Source, outside) {
		return nil, errNoSet
	}
	s := &calib.Set{
		Dim: dim, Factual: rows, Recourse: n, X: slices.Concat(x, k.Points), Source: k.Source,
		Reached: k.Reached,
	}
	if n == 0 { // gob leaves out what is empty
		s.Source, s.Reached = []int{}, []bool{}
	}
	return s, nil
}
