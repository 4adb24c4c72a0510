package main

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"cfq/calib/record"
	"cfq/internal/cli"
	"cfq/ptq"
)

// records says whether the rows that are calibrated on are recorded: those of a data file, and not those of a plan, which calibrates on none.
func (f *quantizeFlags) records() bool { return f.plan == "" && f.data != "" }

// writeRows writes the record of the rows that the model was calibrated on, see docs/calibration-rows.md.
func (f *quantizeFlags) writeRows(r *ptq.Result) error {
	if !f.records() {
		return nil
	}
	_, data, err := fileHash(f.data)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(r.Model)
	hashes := make([]uint64, len(r.Calibrated))
	for k, i := range r.Calibrated {
		hashes[k] = f.calibrating.Hashes[i]
	}
	rows := record.New(hex.EncodeToString(sum[:]), record.Data{Name: filepath.Base(f.data), SHA256: data}, hashes)
	return cli.Write(record.Path(f.out), rows.Write)
}
