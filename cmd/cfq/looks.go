package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cfq/eval/gate"
	"cfq/internal/cli"
	"cfq/internal/tempfile"
)

const looksSuffix = ".looks"

const noLooks = "none"

type looksFlags struct {
	path  string // of the record; noLooks, or "" for the one next to the model
	again bool

	known       *gate.Looks // nil when nothing is recorded
	fingerprint string
	gate        *gate.Gate // of this look
	notes       []string   // for the report
}

func (f *looksFlags) variables() variables {
	return variables{"looks-file": &f.path, "again": &f.again}
}

func (f *looksFlags) file(model string) []string {
	switch f.path {
	case noLooks:
		return nil
	case "":
		return []string{model + looksSuffix}
	}
	return []string{f.path}
}

// plan returns the gate of this look, which is recorded from now on: others that begin meanwhile are further looks.
func (f *looksFlags) plan(d *evaluation, g *gate.Gate) (*gate.Gate, error) {
	if f.path == noLooks {
		return g, nil
	}
	model := d.sources[1].SHA256
	beside := f.path == ""
	f.path = f.file(d.paths[1])[0]
	defer tempfile.Lock(f.path)()
	known, err := gate.ReadLooks(f.path, model)
	if err != nil {
		return nil, cli.WithCode(fmt.Errorf("looks file %s: %w", f.path, err), cli.Unusable)
	}
	who := sha256.New()
	fmt.Fprintln(who, d.inputs.Data.SHA256, d.inputs.Promises.SHA256, strings.HasPrefix(d.f.rows, "!"),
		d.inputs.RowsFile.SHA256, d.f.sample)
	if d.f.sample > 0 {
		fmt.Fprintln(who, d.f.seed)
	}
	f.fingerprint = fmt.Sprintf("%x", who.Sum(nil))
	known.Drop(f.fingerprint)                                  // of a run that was killed
	if len(known.Looks) == 0 && !(beside && f.ofCopy(known)) { // the same note before and after a look that passes
		f.notes = append(f.notes, fmt.Sprintf("there is no earlier look in %s: this counts as the first look at the model",
			filepath.Base(f.path)))
	}
	look := known.Seen(f.fingerprint)
	if look != nil && !f.again {
		return nil, cli.Usagef("bring new people: they are another look; --again repeats the evaluation",
			"these people have judged %s already: %s", d.paths[1], look.Verdict)
	}
	g, err = known.Plan(g, f.fingerprint)
	if f.gate = g; err != nil {
		return nil, cli.Wrap(err, "quantize again, and judge that model; without --looks there is always another look")
	}
	if f.known = known; look != nil {
		f.notes = append(f.notes, fmt.Sprintf("--again: these people judged this model before, and the verdict was %s",
			look.Verdict))
		return g, nil
	}
	known.Add(g, f.fingerprint, gate.Running, time.Now())
	_ = f.write(known) // record says it
	return g, nil
}

func (f *looksFlags) ofCopy(known *gate.Looks) bool {
	dir := filepath.Dir(f.path)
	names, _ := fs.Glob(os.DirFS(dir), "*"+looksSuffix) // an error would be one of the pattern
	for _, name := range names {
		o, err := gate.ReadLooks(filepath.Join(dir, name), known.Model)
		if err != nil {
			continue
		}
		if o.Drop(f.fingerprint); len(o.Looks) > 0 {
			known.Merge(o)
			f.notes = append(f.notes, name+" is about the same model under another name: its looks count")
		}
	}
	return len(known.Looks) > 0
}

// record gives the look its verdict and date; without a report, there was none. When the file cannot be written, the
// verdict stands all the same.
func (f *looksFlags) record(e *env, r *gate.Report) {
	if f.known == nil {
		return
	}
	defer tempfile.Lock(f.path)()
	known, err := gate.ReadLooks(f.path, f.known.Model)
	if err == nil {
		known.Drop(f.fingerprint)
		if r != nil && (r.Verdict == gate.Pass || known.Seen(f.fingerprint) == nil && r.Looked(f.gate)) {
			known.Add(f.gate, f.fingerprint, r.Verdict, time.Now())
		}
		err = f.write(known)
	}
	switch {
	case err == nil || r == nil:
	case r.Verdict == gate.Pass:
		e.msg.Note("the date of the verdict was not recorded: %v", err)
	default:
		e.msg.Warn("the look was not recorded: %v", err)
	}
}

func (f *looksFlags) write(known *gate.Looks) error {
	if len(known.Looks)+len(known.Passed) == 0 {
		err := os.Remove(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return cli.Write(f.path, cli.Content(known.Encode()))
}
