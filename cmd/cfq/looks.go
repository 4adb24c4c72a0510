package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cfq/eval/gate"
	"cfq/internal/cli"
)

const looksSuffix = ".looks"

const noLooks = "none"

type looksFlags struct {
	planned int
	path    string // of the record; noLooks, or "" for the one next to the model
	again   bool

	known       *gate.Looks
	fingerprint string
	seen        bool
	notes       []string // for the report
}

func (f *looksFlags) variables() variables {
	return variables{"looks": &f.planned, "looks-file": &f.path, "again": &f.again}
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

func (f *looksFlags) check(d *evaluation, g *gate.Gate) error {
	model := d.sources[1].SHA256
	f.known = &gate.Looks{Model: model}
	if f.path == noLooks {
		return nil
	}
	beside := f.path == ""
	f.path = f.file(d.paths[1])[0]
	var err error
	if f.known, err = gate.ReadLooks(f.path, model); err != nil {
		return cli.WithCode(fmt.Errorf("looks file %s: %w", f.path, err), cli.Unusable)
	}
	if len(f.known.Looks) == 0 && !(beside && f.ofCopy(model)) { // the same note before and after a look that passes
		f.notes = append(f.notes, fmt.Sprintf("there is no earlier look in %s: this counts as the first look at the model",
			filepath.Base(f.path)))
	}
	h := sha256.New() // who was looked at
	fmt.Fprintln(h, d.inputs.Data.SHA256, d.inputs.Promises.SHA256, strings.HasPrefix(d.f.rows, "!"),
		d.inputs.RowsFile.SHA256, d.f.sample)
	if d.f.sample > 0 {
		fmt.Fprintln(h, d.f.seed)
	}
	f.fingerprint = fmt.Sprintf("%x", h.Sum(nil))
	look := f.known.Seen(f.fingerprint)
	switch f.seen = look != nil; {
	case f.seen && !f.again:
		return cli.Usagef("bring new people within the planned --looks; --again repeats the evaluation",
			"these people have judged %s already: %s", d.paths[1], look.Verdict)
	case f.seen:
		f.notes = append(f.notes, fmt.Sprintf("--again: these people judged this model before, and the verdict was %s",
			look.Verdict))
		return nil
	}
	return cli.Wrap(f.known.Check(g), "plan looks before the first one: --looks, or looks in the gate file")
}

func (f *looksFlags) ofCopy(model string) bool {
	dir := filepath.Dir(f.path)
	names, _ := fs.Glob(os.DirFS(dir), "*"+looksSuffix) // an error would be one of the pattern
	for _, name := range names {
		if known, err := gate.ReadLooks(filepath.Join(dir, name), model); err == nil && len(known.Looks) > 0 {
			f.known.Merge(known)
			f.notes = append(f.notes, name+" is about the same model under another name: its looks count")
		}
	}
	return len(f.known.Looks) > 0
}

// record adds the verdict and its date. Without the file, the verdict stands all the same.
func (f *looksFlags) record(e *env, g *gate.Gate, r *gate.Report) {
	passed := r.Verdict == gate.Pass
	if f.path == noLooks || !passed && (f.seen || !r.Looked(g)) {
		return
	}
	f.known.Add(g, f.fingerprint, r.Verdict, time.Now())
	data, err := f.known.Encode()
	if err == nil {
		err = cli.Write(f.path, cli.Content(data))
	}
	if err != nil && passed {
		e.msg.Note("the date of the verdict was not recorded: %v", err)
	} else if err != nil {
		e.msg.Warn("the look was not recorded: %v", err)
	}
}
