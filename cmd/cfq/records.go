package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/records"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/internal/tempfile"
	"cfq/task"
)

// recordsOut is where an evaluation writes its records: a file, or a folder of files of so many people each, from which
// an interrupted run resumes.
type recordsOut struct {
	d      *evaluation
	path   string
	folder bool
	format records.Format
	have   int         // files of an earlier run that are there already
	run    records.Run // of the last batch

	table  *records.Writer
	file   *os.File // that table is written to, under another name
	part   int
	people int // in it
}

// partPeople is how many people are in one file of a folder.
const partPeople = 2 * batchPeople

// checkRecords looks whether records can be written.
func (f *evaluationFlags) checkRecords(resume bool) (*recordsOut, error) {
	if f.records == "" {
		if resume {
			return nil, cli.Usagef("--records FOLDER/ names them", "--resume goes on from the records of an earlier run")
		}
		return nil, nil
	}
	out := &recordsOut{path: f.records, folder: strings.HasSuffix(f.records, "/"), format: records.Parquet}
	if info, err := os.Stat(f.records); err == nil {
		out.folder = info.IsDir()
	}
	if !out.folder {
		var err error
		if out.format, err = records.FormatOf(f.records); err != nil {
			return nil, cli.Usagef("a name that ends in / is a folder", "--records: %w", err)
		}
		if resume {
			return nil, cli.Usagef("as in --records records/", "--resume needs a folder of records")
		}
		return out, cli.Output(f.records, f.overwrite)
	}
	parts, err := filepath.Glob(filepath.Join(f.records, "part-*.parquet"))
	if err != nil {
		return nil, err
	}
	switch {
	case len(parts) == 0:
	case resume:
		for out.have < len(parts) && slices.Contains(parts, out.name(out.have)) {
			out.have++
		}
	case !f.overwrite:
		return nil, cli.Wrap(fmt.Errorf("--records: %s has records already", f.records), cli.Unusable,
			"--resume goes on from them; --overwrite replaces them")
	default:
		for _, path := range parts {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		}
	}
	return out, os.MkdirAll(f.records, 0o755)
}

// name is the file of a part.
func (x *recordsOut) name(part int) string {
	if !x.folder {
		return x.path
	}
	return filepath.Join(x.path, fmt.Sprintf("part-%06d.parquet", part))
}

// madeWith is what records are made of.
func (d *evaluation) madeWith(s *eval.Settings, like *task.People) (records.Run, error) {
	files, err := d.described()
	if err != nil {
		return records.Run{}, err
	}
	run, err := d.e.run()
	if err != nil {
		return records.Run{}, err
	}
	r := records.Run{
		Tool: run.Tool, Full: d.sources[0].SHA256, Quantized: d.sources[1].SHA256, Task: files.task.SHA256,
		Overrides: files.overrides.SHA256, Columns: like.OtherColumns, Settings: *s,
	}
	for i := range like.Subgroups {
		r.Attributes = append(r.Attributes, like.Subgroups[i].Feature)
	}
	return r, nil
}

// known returns the records of the next people, if an earlier run has made them: nil when it has not.
func (x *recordsOut) known(ctx context.Context, people *task.People, at int) ([]eval.Record, error) {
	if x == nil || at/partPeople >= x.have {
		return nil, nil
	}
	path := x.name(at / partPeople)
	all, _, _, err := records.Read(ctx, []string{path}, x.d.task.Attributes(), nil)
	if err != nil {
		return nil, cli.Wrap(err, cli.Unusable, "without --resume the run begins anew")
	}
	defer all.Close() //nolint:errcheck // read only
	var list []eval.Record
	for r, err := range all.Raw() {
		if err != nil {
			return nil, err
		}
		if k := r.Person - at%partPeople; k >= 0 && k < people.N {
			if r.Hash != people.Content[k] || r.Row != people.Row(k) {
				return nil, cli.Wrap(fmt.Errorf("%s: its records are not those of %s: they are about other people", path,
					x.d.f.data), cli.Unusable, "--resume goes on with the same files; --overwrite begins anew")
			}
			list = append(list, *r)
		}
	}
	if len(list) != people.N {
		return nil, nil // the last part of a file that has grown
	}
	return list, nil
}

// write takes the records of a batch.
func (x *recordsOut) write(b *eval.Batch, s *eval.Settings, list []eval.Record) error {
	var err error
	if x.run, err = x.d.madeWith(s, b.People); err != nil {
		return err
	}
	if b.Records != nil { // they are there
		x.people += len(list)
		if x.people >= partPeople {
			x.part, x.people = x.part+1, 0
		}
		return nil
	}
	if err := x.begin(); err != nil {
		return err
	}
	for i := range list {
		if err := x.table.Write(&list[i]); err != nil {
			return err
		}
	}
	if x.people += len(list); x.folder && x.people >= partPeople {
		return x.place(x.name(x.part))
	}
	return nil
}

// begin makes the next file, unless it is there.
func (x *recordsOut) begin() (err error) {
	if x.table != nil {
		return nil
	}
	if x.file, err = tempfile.New(filepath.Dir(x.name(x.part))); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	x.table, err = records.NewWriter(x.file, x.format, x.run)
	return err
}

// finish ends the records; file is what became of the other rows, which a folder has in a file of its own.
func (x *recordsOut) finish(file eval.DataFile) error {
	if x.folder && x.table != nil {
		if err := x.place(x.name(x.part)); err != nil {
			return err
		}
	}
	if x.run.Full == "" { // there was nobody
		return nil
	}
	if err := x.begin(); err != nil {
		return err
	}
	if err := x.table.Counts(file); err != nil {
		return err
	}
	path := x.path
	if x.folder {
		path = filepath.Join(x.path, "rows.parquet")
	}
	return x.place(path)
}

// place puts the file that was written in its place.
func (x *recordsOut) place(path string) error {
	err := x.table.Close()
	if err == nil {
		err = os.Rename(x.file.Name(), path)
	}
	if err == nil {
		err = x.file.Close()
	} else {
		err = errors.Join(err, x.drop())
	}
	x.table, x.file, x.part, x.people = nil, nil, x.part+1, 0
	return err
}

// drop removes what was not finished.
func (x *recordsOut) drop() error {
	if x == nil || x.file == nil {
		return nil
	}
	f := x.file
	x.file = nil
	return errors.Join(os.Remove(f.Name()), f.Close())
}

// evidence adds up people, so that the sum says who they are in any order.
type evidence [4]uint64

func (s *evidence) add(r *eval.Record) {
	b := append([]byte(r.ID), 0, byte(r.Label))
	for _, v := range r.X {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	sum := sha256.Sum256(b)
	for i := range s {
		s[i] += binary.LittleEndian.Uint64(sum[8*i:])
	}
}

func (s *evidence) text() string {
	var b []byte
	for _, x := range s {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return hex.EncodeToString(b)
}

// tables are the files that arguments name, of which some may be patterns.
func tables(args []string) (paths []string, err error) {
	for _, arg := range args {
		some := []string{arg}
		if _, err := os.Stat(arg); err != nil && strings.ContainsAny(arg, "*?[") {
			if some, err = filepath.Glob(arg); err != nil || len(some) == 0 {
				return nil, cli.Wrap(fmt.Errorf("records: no file is called %s", arg), cli.Unusable,
					"cfq eval --records writes tables of records")
			}
		}
		for _, path := range some {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
				continue // as of a part without people
			}
			if err := cli.Input("table of records", path); err != nil {
				return nil, err
			}
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// readRecords sums up the records of tables, at a confidence; 0 for that with which they were made.
func (d *evaluation) readRecords(ctx context.Context, paths []string, o eval.Options) (*eval.Result, error) {
	var who evidence
	all, run, file, err := records.Read(ctx, paths, d.task.Attributes(), func(r *eval.Record) {
		who.add(r)
		known := d.known.equal(&task.People{X: r.X, Dim: len(r.X), N: 1})
		r.Calibrated = known != nil && known[0]
	})
	if err != nil {
		return nil, cli.Wrap(err, cli.Unusable, "cfq eval --records writes tables of records")
	}
	if err := d.madeOf(run); err != nil {
		return nil, errors.Join(err, all.Close())
	}
	if o.Confidence > 0 {
		run.Settings.Confidence = o.Confidence
	}
	o.Margins, o.Sample, o.Seed, o.OneSided = run.Settings.Margins, 0, run.Settings.Seed, run.Settings.OneSided
	d.total = &task.People{N: all.Len(), Total: file.Rows, Failed: file.Unreadable}
	d.inputs.data = report.File{Name: "records", SHA256: who.text(), Entries: all.Len(), Used: all.Len()}
	r, err := eval.Summarize(all, run.Settings, file)
	if err == nil {
		err = r.Repeat(ctx, d.models[0], d.set, o)
	}
	if note := all.Note(); note != "" && err == nil {
		d.e.msg.Note("%s: %s", message.List(paths, 3), note)
	}
	return r, runError(err)
}

// madeOf is an error when records were made of other files than are at hand, or by another version.
func (d *evaluation) madeOf(run *records.Run) error {
	own, err := d.madeWith(&run.Settings, &task.People{})
	if err != nil {
		return err
	}
	for _, x := range []struct{ what, theirs, ours, hint string }{
		{"original", run.Full, own.Full, "give the models and the task that the records were made with"},
		{"quantized model", run.Quantized, own.Quantized, "give the models and the task that the records were made with"},
		{"task file", run.Task, own.Task, "give the models and the task that the records were made with"},
		{"overrides file", run.Overrides, own.Overrides, "--overrides names the file that the records were made with"},
		{"version of cfq", run.Tool, own.Tool, "use the version that made the records, or make them anew"},
	} {
		if x.theirs != x.ours {
			return cli.Wrap(fmt.Errorf("records: they were made with another %s, %.24s, than the one at hand, %.24s", x.what,
				orNone(x.theirs), orNone(x.ours)), cli.Unusable, x.hint)
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
