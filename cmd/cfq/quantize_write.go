package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"

	"cfq/internal/cli"
	"cfq/onnxio/codec"
	"cfq/ptq"
)

// writtenFile is what --json says of the written file, before what was done.
type writtenFile struct {
	File   string            `json:"file"`
	SHA256 string            `json:"sha256"`
	Plan   string            `json:"plan,omitempty"` // the file of --save-plan
	Recipe map[string]string `json:"recipe"`         // as it is in the file
}

// write puts the files in place, the model last, and says what was done; target is nil without --target-vd.
func (f *quantizeFlags) write(e *env, r *ptq.Result, target *ptq.TargetResult) error {
	if f.savePlan != "" {
		if err := cli.Write(f.savePlan, func(w io.Writer) error { return ptq.WritePlan(w, r) }); err != nil {
			return err
		}
	}
	if err := f.writeRows(r); err != nil {
		return err
	}
	err := cli.Write(f.out, func(w io.Writer) error { _, err := w.Write(r.Model); return err })
	if err != nil {
		return err
	}
	switch {
	case e.json:
		return f.writeJSON(e.stdout, r, target)
	case target != nil:
		return writeTarget(e.stdout, f.out, target)
	}
	return writeQuantized(e.stdout, f.out, r)
}

func (f *quantizeFlags) writeJSON(w io.Writer, r *ptq.Result, target *ptq.TargetResult) error {
	m, err := codec.Read(r.Model, "")
	if err != nil {
		return err
	}
	sum := sha256.Sum256(r.Model)
	out := writtenFile{File: f.out, SHA256: hex.EncodeToString(sum[:]), Plan: f.savePlan, Recipe: recipe(m)}
	if target != nil {
		return writeJSON(w, struct {
			writtenFile
			*ptq.TargetResult
		}{out, target})
	}
	return writeJSON(w, struct {
		writtenFile
		*ptq.Result
	}{out, r})
}
