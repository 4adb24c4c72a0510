package task

import "context"

// Decoder is Read for records that arrive one by one, as on a stream: every record is a person, or filtered, or comes
// with the problem why it cannot be read. What it keeps does not grow with the records.
type Decoder struct {
	rd     *peopleReader
	people *People // taken from rd
}

// NewDecoder finds the columns of t among names. hash is ReadOptions.Hash.
func NewDecoder(t *Task, names []string, hash bool) (*Decoder, error) {
	d := &Decoder{}
	d.rd = newReader(context.Background(), t, ReadOptions{Hash: hash}, 1, func(p *People) error {
		d.people = p
		return d.rd.codes(p)
	})
	if err := d.rd.columns(names, true, nil); err != nil {
		return nil, err
	}
	return d, nil
}

// Add reads a record, whose fields it does not keep. It says whether it is one more of the people that Take returns. A
// record that is not and has no problem was left out by Data.Filter.
func (d *Decoder) Add(fields []string, line int) (person bool, problem *Problem) {
	before, failed := d.rd.people.N, d.rd.people.Failed
	d.rd.row(fields, line)
	if d.rd.people.Failed > failed {
		return false, d.rd.last
	}
	return d.rd.people.N > before, nil
}

// Like returns nobody, with the attributes and the other columns that people have, and notes on the columns.
func (d *Decoder) Like() *People {
	of := d.rd.people
	p := &People{
		Dim: of.Dim, RowHashes: RowHashes{OtherColumns: of.OtherColumns},
		Reading: Reading{Notes: of.Notes, Warnings: of.Warnings},
	}
	p.Subgroups = d.rd.task.subgroups(p)
	for _, s := range d.rd.people.Subgroups {
		p.Subgroups = append(p.Subgroups, Subgroup{Feature: s.Feature, Open: true})
	}
	return p
}

// Take returns the people added since the last call, in order. Their Rows count the records of all calls. It fails
// where the encoder of Task.Latent does.
func (d *Decoder) Take() (*People, error) {
	d.people = &People{Dim: d.rd.people.Dim}
	err := d.rd.flush(1) // hands the people to the function above
	return d.people, err
}
