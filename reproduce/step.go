package reproduce

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"cfq/internal/cli"
)

type labStep struct {
	file  string   // that it makes
	also  []string // further ones
	args  []string // of the command
	needs []*labStep
	from  []string // further files that it is made from
	// parse reads a measurement, which the command prints; nil = the command writes a model.
	parse func(io.Reader) (Outcome, error)

	once    sync.Once
	seconds float64
	err     error
	blocked bool // err is that of a step that it needs
	outcome Outcome
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
		if s := l.steps[file]; !s.blocked {
			err = errors.Join(err, s.err)
		}
	}
	return err
}

func (l *Lab) build(ctx context.Context, s *labStep) error {
	s.once.Do(func() {
		for _, n := range s.needs {
			if s.err = l.build(ctx, n); s.err != nil {
				s.blocked = true
				return
			}
		}
		if s.err = l.update(ctx, s); s.err == nil {
			s.err = s.read()
		}
	})
	return s.err
}

func (l *Lab) update(ctx context.Context, s *labStep) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := provenance{Version: l.Version, Command: l.recorded(s.args), From: map[string]string{}}
	from := slices.Clone(s.from)
	for _, n := range s.needs {
		from = append(from, n.file)
	}
	for _, path := range from {
		sum, err := l.hash(path)
		if err != nil {
			return err
		}
		p.From[l.short(path)] = sum
	}
	if old, ok := s.made(); ok && p.Version == old.Version && p.Command == old.Command && maps.Equal(p.From, old.From) {
		s.seconds = old.Seconds
		return nil
	}
	err := os.MkdirAll(filepath.Dir(s.file), 0o755)
	if err == nil {
		p.Seconds, err = l.run(ctx, s)
	}
	if err == nil {
		p.Sum, err = hashOf(s.outputs()...)
	}
	if err != nil {
		return err
	}
	s.seconds = p.Seconds
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return put(s.file+provenanceSuffix, append(text, '\n'))
}

func (l *Lab) run(ctx context.Context, s *labStep) (float64, error) {
	if s.parse == nil {
		return l.Run(ctx, append(slices.Clone(s.args), "--overwrite"), io.Discard)
	}
	var out bytes.Buffer
	seconds, err := l.Run(ctx, s.args, &out)
	if err != nil {
		return 0, err
	}
	return seconds, put(s.file, out.Bytes())
}

func (s *labStep) read() error {
	if s.parse == nil {
		return nil
	}
	f, err := os.Open(s.file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	if s.outcome, err = s.parse(f); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	return nil
}

func (s *labStep) outputs() []string { return append([]string{s.file}, s.also...) }

func (s *labStep) made() (p provenance, ok bool) {
	text, err := os.ReadFile(s.file + provenanceSuffix)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return p, false
	}
	sum, err := hashOf(s.outputs()...)
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

func (l *Lab) recorded(args []string) string {
	words := []string{"cfq"}
	for _, a := range args {
		words = append(words, l.short(a))
	}
	return strings.Join(words, " ")
}

// short is an argument without the folder of data or of results in which its file is, so that these can be moved. One
// may be in the other: the inner one counts.
func (l *Lab) short(arg string) string {
	kind := ""
	if rest, ok := strings.CutPrefix(arg, "!"); ok {
		kind, arg = "!", rest
	}
	short := arg
	for _, dir := range []string{l.Out, l.Data} {
		inside, ok := strings.CutPrefix(arg, filepath.Clean(dir)+string(filepath.Separator))
		if ok && len(inside) < len(short) {
			short = inside
		}
	}
	return kind + short
}
