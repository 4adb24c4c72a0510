package ptq

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"cfq/calib"
	"cfq/internal/cache"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/qat"
	"cfq/recourse"
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

// kept returns a result from the cache, or computes and keeps it. It depends on the settings and rows, on the program,
// the library, the model, and what makes the model's inputs of codes.
func kept[T any](p *prepared, stage, settings string, rows []float32, compute func() (T, error)) (result T, err error) {
	by, err := computedBy(p.engine)
	if err != nil {
		return result, err
	}
	model, err := codec.Marshal(p.canonical)
	if err != nil {
		return result, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %d %d %d %v\n%s%s", stage, by, len(model), len(settings), len(rows), p.task.Latent, settings,
		model)
	if err := binary.Write(h, binary.LittleEndian, rows); err != nil {
		return result, err
	}
	key, c := cache.Key(h.Sum(nil)), cache.Dir{Path: p.o.Cache, Limit: cacheBytes}
	if b, ok := c.Get(key); ok {
		if gob.NewDecoder(bytes.NewReader(b)).Decode(&result) == nil {
			p.tell(stage+" from the cache", 1, 1)
			return result, nil
		}
	}
	if result, err = compute(); err != nil {
		return result, err
	}
	var b bytes.Buffer
	if err = gob.NewEncoder(&b).Encode(result); err == nil {
		c.Put(key, b.Bytes())
	}
	return result, err
}

// counterfactual is calib.Counterfactual of a cohort through the cache.
func (p *prepared) counterfactual(ctx context.Context, c *cohort, o recourse.TeacherOptions) (*calib.Set, error) {
	x := c.people.X
	weights := 0
	for _, l := range p.found {
		weights += l.Params()
	}
	rows := len(x) / p.full.Dim()
	if p.o.Cache == "" || float64(rows)*float64(weights)*float64(max(o.Steps, 1)) < minTeacherWork {
		return calib.Counterfactual(ctx, p.full, c.set, x, o)
	}
	settings := o
	settings.Workers, settings.Progress = 0, nil
	// Two spellings of the same task are the same.
	text := fmt.Sprintf("%q\n%s\n%v\n", fmt.Sprintf("%+v", settings), p.task.JSON(), c.own)
	k, err := kept(p, "teacher recourse", text, x, func() (recoursePoints, error) {
		s, err := calib.Counterfactual(ctx, p.full, c.set, x, o)
		if err != nil {
			return recoursePoints{}, err
		}
		return recoursePoints{s.Source, s.Reached, s.Points()}, nil
	})
	if err != nil {
		return nil, err
	}
	return &calib.Set{
		Dim: p.full.Dim(), Factual: rows, Recourse: len(k.Source), X: slices.Concat(x, k.Points), Source: k.Source,
		Reached: k.Reached,
	}, nil
}

// recoursePoints are what Counterfactual adds to the rows.
type recoursePoints struct {
	Source  []int // ascending
	Reached []bool
	Points  []float32
}

// statistics is calib.Collect of the calibration set, kept from so much work on.
func (c *calibrated) statistics(ctx context.Context, minWork float64) ([]calib.Stats, error) {
	o := c.logits()
	compute := func() ([]calib.Stats, error) {
		stats, err := calib.Collect(ctx, c.full, c.grid.wide, c.cal, c.grid.input, o)
		if err == nil {
			c.join(stats)
		}
		return stats, err
	}
	work := 0.0
	var text strings.Builder
	for _, l := range c.grid.wide {
		work += float64(c.cal.Rows()) * float64(l.In) * float64(l.In)
		fmt.Fprintf(&text, "%q %q %q %d %d\n", l.Node, l.Input, l.Output, l.In, l.Out)
	}
	if c.o.Cache == "" || work < minWork {
		return compute()
	}
	input, err := json.Marshal(c.grid.input)
	if err != nil {
		return nil, fmt.Errorf("the input's grid: %w", err)
	}
	fmt.Fprintf(&text, "%+v %d %s %x", o, c.full.Target(), input, c.cal.Weights)
	return kept(c.prepared, "statistics of the layers", text.String(), c.cal.X, compute)
}

// logits reports whether the ranges need statistics that weigh by gradients.
func (p *prepared) logits() bool {
	return p.o.WeightRange == calib.Logits || p.o.ActRange == calib.Logits
}

// computedBy names what computes: this program's file, ONNX Runtime and how it is run.
func computedBy(e ort.Options) (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the program: %w", err)
	}
	program, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("finding the program: %w", err)
	}
	lib, err := ort.Find(e.Lib)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d %q %q %v %d", program.Size(), program.ModTime().UnixNano(), runtime.GOARCH, lib.Version,
		e.Level, e.Threads), nil
}

// KeptTraining returns where the state of a training is kept in a folder, by the hash of what it depends on besides the
// program and the library.
func KeptTraining(dir string, e ort.Options, sum [sha256.Size]byte) (qat.Checkpoint, error) {
	by, err := computedBy(e)
	if err != nil {
		return nil, err
	}
	h := sha256.Sum256(append([]byte("training "+by), sum[:]...))
	return checkpoint{cache.Dir{Path: dir, Limit: cacheBytes}, cache.Key(h)}, nil
}
