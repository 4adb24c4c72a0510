package main

import (
	"errors"
	"fmt"
	"io/fs"

	"cfq/calib/record"
	"cfq/internal/cli"
	"cfq/task"
)

// noisePeople is how many people are solved twice for the noise floor.
const noisePeople = 500

// noRecord is what --calibrated takes when none of the people were calibrated on.
const noRecord = "none"

// calibratedRows are the rows that a quantized model was calibrated on, as the record beside it says.
type calibratedRows struct {
	e        *env
	path     string // of the record, noRecord, or "" for the one beside the model
	record   *record.Rows
	excluded int
	notes    []string
}

// read finds the record of the model. It is an error when one is named that is not there or is another model's.
func (c *calibratedRows) read(model string) error {
	if c.path == noRecord {
		c.note("--calibrated none: whether the model was calibrated on some of these people was not checked")
		return nil
	}
	path := c.path
	if path == "" {
		path = record.Path(model)
	} else if err := cli.Input("record of rows", path); err != nil {
		return err
	}
	rows, err := record.Load(path)
	switch {
	case c.path == "" && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cli.Wrap(err, cli.Unusable, "cfq quantize writes one beside the model")
	}
	_, sum, err := fileHash(model)
	if err != nil {
		return fmt.Errorf("hashing: %w", err)
	}
	if rows.Model != sum {
		return cli.Wrap(fmt.Errorf("record of rows %s: it is that of another model, %.12s, and not of %s, %.12s", path, rows.Model, model, sum), cli.Unusable,
			"quantize writes the record anew together with the model; --calibrated names one that stands elsewhere")
	}
	c.record = rows
	return nil
}

// others are the people whom the model was not calibrated on; the rest is left out, and said to be.
func (c *calibratedRows) others(p *task.People) ([]int, error) {
	var known []int
	if c.record != nil && p.Hashes != nil {
		known = record.Calibrated(p, c.record)
	}
	out := make([]int, 0, p.N-len(known))
	for i := range p.N {
		if len(known) > 0 && known[0] == i {
			known = known[1:]
			continue
		}
		out = append(out, i)
	}
	if c.excluded = p.N - len(out); c.excluded == 0 {
		return out, nil
	}
	if len(out) == 0 {
		return nil, cli.Wrap(fmt.Errorf("the model was calibrated on all %d people of the data: nobody is left to judge it by", p.N), cli.Unusable,
			"a gate needs people whom the model has not seen")
	}
	c.e.msg.Warn("the model was calibrated on %d of the %d people: they are left out", c.excluded, p.N)
	return out, nil
}

// vouch says what is not known of the people. It is an error to judge a model by the very file that it was calibrated on when nothing says by which rows.
func (c *calibratedRows) vouch(d *field) error {
	switch {
	case c.path == noRecord:
	case c.record == nil:
		from := recipe(d.files[1])["data"]
		if d.f.data != "" && from != "" {
			data, err := source(d.f.data)
			if err != nil {
				return err
			}
			if data.SHA256 == from {
				return cli.Wrap(fmt.Errorf("the model was calibrated on rows of %s, and there is no record %s that says which", d.f.data, record.Path(d.paths[1])), cli.Unusable,
					"take people whom the model has not seen; --calibrated names the record; --calibrated none if none of these rows were used")
			}
		}
		c.note(fmt.Sprintf("there is no record %s: people whom the model was calibrated on cannot be recognised", record.Path(d.paths[1])))
	case d.people.Hashes == nil:
		c.note("people of a promises file have no rows: those whom the model was calibrated on cannot be recognised")
	}
	return nil
}

// note keeps what the gate's report says, and says it at once.
func (c *calibratedRows) note(text string) {
	c.notes = append(c.notes, text)
	c.e.msg.Warn("%s", text)
}

// options of reading the people.
func (c *calibratedRows) options() task.ReadOptions { return task.ReadOptions{Hash: c.record != nil} }

// calibrated is how many of the people the quantized model is known to have been calibrated on.
func (d *field) calibrated() (int, error) {
	c := calibratedRows{e: d.e}
	if err := c.read(d.paths[1]); err != nil || c.record == nil || d.people.Hashes == nil {
		return 0, err
	}
	return len(record.Calibrated(d.people, c.record)), nil
}
