package ptq

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/task"
)

// SweepInputs are hashes of all that the points of a sweep depend on, and the first line of its log.
type SweepInputs struct {
	Program     string `json:"program"` // the build of this program
	Runtime     string `json:"onnx_runtime"`
	Model       string `json:"model"`
	Task        string `json:"task"`
	Calibration string `json:"calibration_rows"`
	Test        string `json:"test_rows"`
	Options     string `json:"options"`
}

// NewSweepInputs hashes what Sweep is called with.
func NewSweepInputs(m *onnxio.Model, t *task.Task, people, test *task.People, o SweepOptions) (SweepInputs, error) {
	o, err := o.resolve()
	if err != nil {
		return SweepInputs{}, &InputError{err}
	}
	program, err := programVersion()
	if err != nil {
		return SweepInputs{}, err
	}
	lib, err := ort.Find(m.Engine().Lib)
	if err != nil {
		return SweepInputs{}, err
	}
	model, err := codec.Marshal(m.Graph())
	if err != nil {
		return SweepInputs{}, err
	}
	q, e := o.Quantize, m.Engine()
	// What makes no difference to any point.
	q.Method, q.Budget, q.Workers, q.Progress, q.Cache = "", 0, 0, nil, ""
	q.Teacher.Workers, q.Teacher.Progress, o.Solver.Workers, o.Solver.Progress = 0, nil, 0, nil
	of := func(format string, args ...any) string {
		h := sha256.New()
		fmt.Fprintf(h, format, args...)
		return hexSum(h)
	}
	return SweepInputs{
		Program: of("%s %s", program, runtime.GOARCH), Runtime: of("%s %v %d", lib.Version, e.Level, e.Threads),
		Model: of("%s", model), Task: of("%+v", *t),
		Calibration: peopleHash(people), Test: peopleHash(test),
		Options: of("%q %v %+v %v %d %d %+v", o.Methods, o.Budgets, q, o.Margins, o.Sample, o.Seed, o.Solver),
	}, nil
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func peopleHash(p *task.People) string {
	h := sha256.New()
	fmt.Fprintln(h, p.N, p.Dim, p.Total, p.Failed, p.Filtered, p.Excluded, p.Labels)
	for _, list := range [][]int{p.Rows, p.Lines} {
		for _, v := range list {
			binary.Write(h, binary.LittleEndian, int64(v)) //nolint:errcheck // a hash takes everything
		}
	}
	writeFloats(h, p.X)
	return hexSum(h)
}

// differences names the fields in which two inputs differ.
func (in SweepInputs) differences(other SweepInputs) []string {
	var out []string
	for _, f := range []struct{ what, a, b string }{
		{"another build of cfq", in.Program, other.Program},
		{"another ONNX Runtime", in.Runtime, other.Runtime},
		{"another model", in.Model, other.Model},
		{"another task", in.Task, other.Task},
		{"other calibration rows", in.Calibration, other.Calibration},
		{"other test rows", in.Test, other.Test},
		{"other options", in.Options, other.Options},
	} {
		if f.a != f.b {
			out = append(out, f.what)
		}
	}
	return out
}

// SweepLog keeps the points of a sweep in a file of JSON lines while it runs: the inputs, and then
// each point as it is finished. A point is on the disk when Append returns; a line that a crash cut
// short counts as none.
type SweepLog struct {
	Points []SweepPoint // that were in the file when it was opened
	file   *os.File
}

// OpenSweepLog opens the log of a sweep with these inputs, or begins one. It is an error when the
// file is something else or has other inputs, unless anew is set: then what was there is gone.
func OpenSweepLog(path string, in SweepInputs, anew bool) (_ *SweepLog, err error) {
	var have []byte
	if !anew {
		if have, err = os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("points of the sweep: %w", err)
		}
	}
	points, size, err := parseSweepLog(have, in)
	if err != nil {
		return nil, &InputError{fmt.Errorf("%s: %w", path, err)}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("points of the sweep: %w", err)
	}
	l := &SweepLog{Points: points, file: f}
	if err = f.Truncate(int64(size)); err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil && size == 0 {
		err = l.line(in)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("points of the sweep: %w", err), f.Close())
	}
	return l, nil
}

// parseSweepLog reads the whole lines of a log and says how many bytes those are.
func parseSweepLog(b []byte, in SweepInputs) (points []SweepPoint, size int, err error) {
	size = bytes.LastIndexByte(b, '\n') + 1
	if size == 0 {
		if len(b) > 0 && !bytes.HasPrefix(b, []byte("{")) {
			return nil, 0, errors.New("it is not the log of a sweep")
		}
		return nil, 0, nil
	}
	for n, line := range bytes.Split(b[:size-1], []byte{'\n'}) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if n == 0 {
			var have SweepInputs
			if d.Decode(&have) != nil || d.More() {
				return nil, 0, errors.New("it is not the log of a sweep")
			}
			if diff := have.differences(in); diff != nil {
				return nil, 0, fmt.Errorf("it is the log of a sweep with %s", strings.Join(diff, ", "))
			}
			continue
		}
		var p SweepPoint
		if err := d.Decode(&p); err != nil || d.More() || p.Method == "" {
			return nil, 0, fmt.Errorf("line %d is not a point of a sweep", n+1)
		}
		points = append(points, p)
	}
	return points, size, nil
}

// Append adds a point.
func (l *SweepLog) Append(p SweepPoint) error {
	if err := l.line(p); err != nil {
		return fmt.Errorf("points of the sweep: %w", err)
	}
	return nil
}

// line writes one line at once and waits until the disk has it.
func (l *SweepLog) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(b, '\n')); err != nil {
		return err
	}
	return l.file.Sync()
}

// Close closes the file.
func (l *SweepLog) Close() error { return l.file.Close() }

// WriteSweepLog writes the log of a finished sweep: its points in the order of the result.
func WriteSweepLog(w io.Writer, in SweepInputs, r *SweepResult) error {
	enc := json.NewEncoder(w)
	if err := enc.Encode(in); err != nil {
		return err
	}
	for _, p := range r.Points {
		if p.Same != 0 {
			p.Measured = nil
		}
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	return nil
}
