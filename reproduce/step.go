package reproduce

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"cfq/internal/cli"
	"cfq/internal/lists"
)

// labStep is a command that makes files. What it reads are files of its command line, and those beside.
type labStep struct {
	files  []string // that it makes
	args   []string
	beside []string
	timed  *labStep // the one of which the time counts, of a measurement; nil: it itself

	once    sync.Once
	seconds float64
	err     error
	blocked bool // err is that of a step that it needs
	outcome outcome
}

func (l *Lab) step(files []string, d *DataSet, form, command string, args ...[]string) *labStep {
	if s := l.steps[files[0]]; s != nil {
		return s
	}
	s := &labStep{files: files, args: append([]string{command}, slices.Concat(args...)...)}
	for _, name := range d.Beside {
		s.beside = append(s.beside, l.data(d, name))
	}
	if form == inCodes { // the task names them
		s.beside = append(s.beside, l.path(d, encoderFile), l.path(d, decoderFile))
	}
	for _, file := range files {
		l.steps[file] = s
	}
	return s
}

// provenance is what is kept next to a file: what it was made by. The file is right as long as all of that is the same.
type provenance struct {
	Version string            `json:"version"`
	Command string            `json:"command"`
	From    map[string]string `json:"from"` // hashes of files
	Sum     string            `json:"sum"`  // hash of the files themselves
	Seconds float64           `json:"seconds"`
}

const provenanceSuffix = ".made.json"

func (l *Lab) make(ctx context.Context, all []*labStep) error {
	var g errgroup.Group
	g.SetLimit(max(l.Workers, 1))
	var done int
	for _, s := range all {
		g.Go(func() error {
			_ = l.build(ctx, s) // collected below
			l.mu.Lock()
			defer l.mu.Unlock()
			if done++; l.Progress != nil {
				l.Progress(done, len(all))
			}
			return nil
		})
	}
	err := g.Wait()
	for _, file := range slices.Sorted(maps.Keys(l.steps)) {
		if s := l.steps[file]; !s.blocked && file == s.files[0] {
			err = errors.Join(err, s.err)
		}
	}
	return err
}

func (l *Lab) build(ctx context.Context, s *labStep) error {
	s.once.Do(func() {
		from := map[string]string{}
		for _, arg := range slices.Concat(s.args, s.beside) {
			path := strings.TrimPrefix(arg, "!")
			need := l.steps[path]
			if need == s {
				continue
			}
			if need != nil {
				if s.err = l.build(ctx, need); s.err != nil {
					s.blocked = true
					return
				}
			} else if info, err := os.Stat(path); err != nil || info.IsDir() {
				continue
			}
			if from[l.short(path)], s.err = l.hash(path); s.err != nil {
				return
			}
		}
		if s.err = l.update(ctx, s, from); s.err == nil && s.prints() {
			s.outcome, s.err = readOutcome(s.args[0], s.files[0])
		}
	})
	return s.err
}

// prints says that the command prints a measurement; others write models.
func (s *labStep) prints() bool { return s.args[0] == "eval" || s.args[0] == "recourse" }

// update runs the command, unless the same one has made the files from the same ones before.
func (l *Lab) update(ctx context.Context, s *labStep, from map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := provenance{Version: l.Version, Command: "cfq " + strings.Join(lists.Map(s.args, l.short), " "), From: from}
	if old, ok := s.made(); ok && p.Version == old.Version && p.Command == old.Command && maps.Equal(p.From, old.From) {
		s.seconds = old.Seconds
		return nil
	}
	args, out := s.args, bytes.Buffer{}
	if !s.prints() {
		args = append(slices.Clone(args), "--overwrite")
	}
	err := os.MkdirAll(filepath.Dir(s.files[0]), 0o755)
	if err == nil {
		p.Seconds, err = l.Run(ctx, args, &out)
	}
	if err == nil && s.prints() {
		err = put(s.files[0], out.Bytes())
	}
	if err == nil {
		p.Sum, err = hashOf(s.files...)
	}
	if err != nil {
		return err
	}
	s.seconds = p.Seconds
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return put(s.files[0]+provenanceSuffix, append(text, '\n'))
}

func (s *labStep) made() (p provenance, ok bool) {
	text, err := os.ReadFile(s.files[0] + provenanceSuffix)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return p, false
	}
	sum, err := hashOf(s.files...)
	return p, err == nil && sum == p.Sum
}

func (l *Lab) hash(path string) (sum string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum, ok := l.hashes[path]
	if !ok {
		if sum, err = hashOf(path); err == nil {
			l.hashes[path] = sum
		}
	}
	return sum, err
}

func hashOf(paths ...string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		if _, err := cli.CopyFrom(h, path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func put(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return cli.Write(path, cli.Content(text))
}

// short is an argument without the folder of data or of results in which its file is, so that these can be moved. One
// may be in the other: the inner one counts.
func (l *Lab) short(arg string) string {
	bare := strings.TrimPrefix(arg, "!")
	short := bare
	for _, dir := range []string{l.Out, l.Data} {
		inside, ok := strings.CutPrefix(bare, filepath.Clean(dir)+string(filepath.Separator))
		if ok && len(inside) < len(short) {
			short = inside
		}
	}
	return strings.TrimSuffix(arg, bare) + short
}
