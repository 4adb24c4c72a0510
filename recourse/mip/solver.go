package mip

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Status is what a solver has proved.
type Status int

// The statuses.
const (
	Unknown    Status = iota // the time was over, or the solver stopped without a proof
	Optimal                  // no solution costs less
	Infeasible               // there is no solution
)

// Solution is the answer to a program.
type Solution struct {
	Status Status
	X      []float64 // of an optimum, by variable
}

// ErrNone says that no solver is installed.
var ErrNone = errors.New("no solver of mixed-integer programs is installed: want " + wanted)

const wanted = "highs or cbc on the path (Debian: coinor-cbc)"

// Solver is an installed program that solves mixed-integer programs.
type Solver struct {
	Path string
	// Folder makes a folder for the files of one run, and what removes it.
	Folder func() (dir string, remove func() error, err error)
	kind   *kind
}

// kind is how one solver is called, and how its answer is read.
type kind struct {
	name string
	args func(dir string, limit time.Duration) []string
	// settings is the text of a file of settings; nil for none.
	settings func(limit time.Duration) string
	read     func(r *bufio.Scanner, s *Solution) error
}

// The files of one run.
const (
	programFile  = "program.mps"
	answerFile   = "answer.txt"
	settingsFile = "settings.txt"
)

// kinds are the solvers that are known, the one that is preferred first. All run on one thread, so that they give the
// same answer again, and stop at an optimum without a gap.
func kinds() []kind {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	return []kind{
		{
			name: "highs",
			args: func(dir string, _ time.Duration) []string {
				return []string{
					"--options_file", filepath.Join(dir, settingsFile), "--solution_file", filepath.Join(dir, answerFile),
					filepath.Join(dir, programFile),
				}
			},
			settings: func(limit time.Duration) string {
				return "threads = 1\nmip_rel_gap = 0\nmip_abs_gap = 0\nmip_feasibility_tolerance = 1e-8\n" +
					"primal_feasibility_tolerance = 1e-8\ntime_limit = " + seconds(limit) + "\n"
			},
			read: readHighs,
		},
		{
			name: "cbc",
			args: func(dir string, limit time.Duration) []string {
				return []string{
					filepath.Join(dir, programFile), "-sec", seconds(limit), "-timeMode", "elapsed", "-ratioGap", "0",
					"-allowableGap", "0", "-primalT", "1e-8", "-integerT", "1e-8", "-solve", "-solution",
					filepath.Join(dir, answerFile),
				}
			},
			read: readCBC,
		},
	}
}

// Find returns the solver with the name or at the path program, the first known one on the path where that is "". The
// error is ErrNone when there is none.
func Find(program string) (*Solver, error) {
	for _, k := range kinds() {
		name := k.name
		if program != "" {
			if base := filepath.Base(program); !strings.HasPrefix(base, k.name) {
				continue
			}
			name = program
		}
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path) // it runs in a folder of its own
		}
		switch {
		case err == nil:
			return &Solver{Path: path, Folder: temporary, kind: &k}, nil
		case program != "":
			return nil, fmt.Errorf("%q cannot be run: %w", program, err)
		}
	}
	if program != "" {
		return nil, fmt.Errorf("%q is not a solver that is known: want highs, cbc or the path of one", program)
	}
	return nil, ErrNone
}

// temporary makes a temporary folder.
func temporary() (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", "cfq-mip-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// grace is how long a solver may take beyond its limit before it is stopped.
const grace = 5 * time.Second

// Solve solves the program, for at most limit: then the status is Unknown.
func (s *Solver) Solve(ctx context.Context, p *Program, limit time.Duration) (_ *Solution, err error) {
	dir, remove, err := s.Folder()
	if err != nil {
		return nil, fmt.Errorf("solver: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := write(filepath.Join(dir, programFile), p.WriteMPS); err != nil {
		return nil, err
	}
	if s.kind.settings != nil {
		text := func(w io.Writer) error { _, err := io.WriteString(w, s.kind.settings(limit)); return err }
		if err := write(filepath.Join(dir, settingsFile), text); err != nil {
			return nil, err
		}
	}
	run, cancel := context.WithTimeout(ctx, limit+grace)
	defer cancel()
	cmd := exec.CommandContext(run, s.Path, s.kind.args(dir, limit)...) //nolint:gosec // the user's own program
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	out, failed := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case run.Err() != nil:
		return &Solution{}, nil
	}
	f, err := os.Open(filepath.Join(dir, answerFile))
	if err != nil { // HiGHS exits with 1, and an answer, when its time is over
		return nil, fmt.Errorf("solver %s: %w: %q", s.Path, cmp.Or(failed, err), lastLine(out))
	}
	defer f.Close() //nolint:errcheck // it was read only
	answer := &Solution{X: make([]float64, len(p.Variables))}
	r := bufio.NewScanner(f)
	r.Buffer(nil, 1<<24)
	if err := errors.Join(s.kind.read(r, answer), r.Err()); err != nil {
		return nil, fmt.Errorf("solver %s: its answer: %w", s.Path, err)
	}
	return answer, nil
}

func write(path string, text func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("solver: %w", err)
	}
	if err := errors.Join(text(f), f.Close()); err != nil {
		return fmt.Errorf("solver: %s: %w", path, err)
	}
	return nil
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// readHighs reads the file of HiGHS: the status behind "Model status", the values behind "# Columns".
func readHighs(r *bufio.Scanner, s *Solution) error {
	values := false
	for before := ""; r.Scan(); before = r.Text() {
		line := r.Text()
		switch {
		case before == "Model status" && line == "Optimal":
			s.Status = Optimal
		case before == "Model status" && line == "Infeasible":
			s.Status = Infeasible
		case strings.HasPrefix(line, "# "):
			values = strings.HasPrefix(line, "# Columns") && s.Status == Optimal
		case line == "":
			values = false
		case values:
			if err := s.value(strings.Fields(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// readCBC reads the file of CBC: the status in the first line, then the index, name, value and reduced cost of the
// variables that are not 0. A line that begins with ** has a value out of bounds.
func readCBC(r *bufio.Scanner, s *Solution) error {
	if !r.Scan() {
		return errors.New("it is empty")
	}
	switch first := r.Text(); {
	case strings.HasPrefix(first, "Optimal"):
		s.Status = Optimal
	case strings.HasPrefix(first, "Infeasible"), strings.HasPrefix(first, "Integer infeasible"):
		s.Status = Infeasible
		return nil
	default:
		return nil
	}
	for r.Scan() {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(r.Text()), "**"))
		if len(words) < 3 {
			return fmt.Errorf("line %q: want index, name and value", r.Text())
		}
		if err := s.value(words[1:3]); err != nil {
			return err
		}
	}
	return nil
}

// value reads the name and the value of a variable.
func (s *Solution) value(words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("%q: want a name and a value", words)
	}
	i, err := strconv.Atoi(strings.TrimPrefix(words[0], "x"))
	if err != nil || i < 0 || i >= len(s.X) {
		return fmt.Errorf("variable %q is none of the %d of the program", words[0], len(s.X))
	}
	s.X[i], err = strconv.ParseFloat(words[1], 64)
	return err
}
