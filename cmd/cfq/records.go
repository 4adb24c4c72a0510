package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
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
	"cfq/recourse"
	"cfq/task"
)

const (
	hintOtherRecords = "--resume goes on with the same files and flags; --overwrite in its place begins anew"
	hintNoRecords    = "give tables of records that were made of the same models and task file by the same version"
)

// recordsOut is where an evaluation writes its records: a file, or a folder of files of some people each, from which an
// interrupted run resumes.
type recordsOut struct {
	d      *evaluation
	path   string
	folder bool
	format records.Format
	stale  []string    // files of an earlier run, which go when the first file is begun
	run    records.Run // what the records are made of, from the first batch on

	have    int // files of an earlier run that are taken as they are
	read    int // of them, so far
	earlier []eval.Record
	made    *records.Run // what the earlier records were made of

	table  *records.Writer
	file   *os.File // that table is written to, under another name
	part   int
	people int // in it
}

// partPeople is how many people are in one file of a folder, or a few more: all of a batch.
const partPeople = 2 * batchPeople

func (f *evaluationFlags) checkRecords(resume bool) (*recordsOut, error) {
	if f.records == "" {
		if resume {
			return nil, cli.Usagef(cli.HintConflict, "--resume goes on from the records of an earlier run: --records FOLDER/ "+
				"names them")
		}
		return nil, nil
	}
	last := f.records[len(f.records)-1]
	out := &recordsOut{path: f.records, folder: os.IsPathSeparator(last), format: records.Parquet}
	if info, err := os.Stat(f.records); err == nil {
		out.folder = info.IsDir()
	}
	if !out.folder {
		var err error
		if out.format, err = records.FormatOf(f.records); err != nil {
			return nil, cli.Usagef(cli.HintValue, "--records: %w; a name that ends in / is a folder", err)
		}
		if resume {
			return nil, cli.Usagef(cli.HintConflict, "--resume needs a folder of records, as in --records records/")
		}
		return out, cli.Output(f.records, f.overwrite)
	}
	found, err := filepath.Glob(filepath.Join(f.records, "part-*.parquet"))
	if err != nil {
		return nil, err
	}
	if rows := out.rowsFile(); exists(rows) {
		found = append(found, rows)
	}
	var taken []string
	switch {
	case resume:
		for slices.Contains(found, out.name(out.have)) {
			taken = append(taken, out.name(out.have))
			out.have++
		}
	case len(found) > 0 && !f.overwrite:
		return nil, cli.Wrap(fmt.Errorf("--records: %s has records already", f.records),
			"--resume goes on from them; --overwrite replaces them")
	}
	out.part = out.have
	out.stale = slices.DeleteFunc(found, func(path string) bool { return slices.Contains(taken, path) })
	return out, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (x *recordsOut) rowsFile() string { return filepath.Join(x.path, "rows.parquet") }

func (x *recordsOut) name(part int) string {
	if !x.folder {
		return x.path
	}
	return filepath.Join(x.path, fmt.Sprintf("part-%06d.parquet", part))
}

func (d *evaluation) madeWith(s *eval.Settings, like *task.People) records.Run {
	r := records.Run{
		Tool: d.e.run().Tool, Full: d.sources[0].SHA256, Quantized: d.sources[1].SHA256, Task: d.inputs.Task.SHA256,
		Overrides: d.inputs.Overrides.SHA256, Columns: like.OtherColumns, Settings: *s,
	}
	if l := d.task.Latent; l != nil {
		r.Coder = l.Coder().String()
	}
	for i := range like.Subgroups {
		r.Attributes = append(r.Attributes, like.Subgroups[i].Feature)
	}
	return r
}

func (x *recordsOut) rewind() {
	if x != nil {
		x.read, x.earlier = 0, nil
	}
}

// known returns the records of the next people, if an earlier run has made them: nil when it has not. promises are
// those of eval.Batch.
func (x *recordsOut) known(
	ctx context.Context, people *task.People, promises []recourse.Action,
) (list []eval.Record, err error) {
	if x == nil || people.N == 0 || len(x.earlier) == 0 && x.read == x.have {
		return nil, nil
	}
	if len(x.earlier) == 0 {
		if err := x.load(ctx, x.name(x.read)); err != nil {
			return nil, cli.Wrap(err, hintOtherRecords)
		}
		x.read++
	}
	if len(x.earlier) < people.N { // files end with a batch
		return nil, x.other()
	}
	list, x.earlier = x.earlier[:people.N], x.earlier[people.N:]
	for i := range list {
		if !isAbout(&list[i], people, promises, i) {
			return nil, x.other()
		}
	}
	return list, nil
}

func (x *recordsOut) load(ctx context.Context, path string) (err error) {
	all, run, _, err := records.Read(ctx, []string{path}, x.d.task, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	if x.made != nil {
		if d := x.made.Differs(run); d != "" {
			return fmt.Errorf("%s was not made of the same as the files before it: %s", path, d)
		}
	}
	x.made = run
	for r, err := range all.Raw() {
		if err != nil {
			return err
		}
		x.earlier = append(x.earlier, *r)
	}
	return nil
}

func isAbout(r *eval.Record, people *task.People, promises []recourse.Action, i int) bool {
	id := ""
	if people.IDs != nil {
		id = people.IDs[i]
	}
	issued := promises != nil && promises[i].Status == recourse.Found
	return r.Hash == people.Content[i] && slices.Equal(r.Others, people.Others[i]) && r.Row == people.Row(i) &&
		r.ID == id && issued == (r.Issued != nil) &&
		(!issued || !r.Evaluated || slices.Equal(r.Issued.Point, promises[i].Point))
}

func (x *recordsOut) other() error {
	return cli.Wrap(fmt.Errorf("--resume: %s holds records of other people or promises than these files have", x.path),
		hintOtherRecords)
}

func (x *recordsOut) write(b *eval.Batch, s *eval.Settings, list []eval.Record) error {
	if x.run.Full == "" { // the same for all batches
		x.run = x.d.madeWith(s, b.People)
	}
	if len(list) == 0 {
		return nil
	}
	if b.Records != nil { // they are there
		if d := x.made.Differs(&x.run); d != "" {
			return cli.Wrap(fmt.Errorf("--resume: the records in %s and this run are not made of the same: %s", x.path, d),
				hintOtherRecords)
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

func (x *recordsOut) begin() (err error) {
	if x.table != nil {
		return nil
	}
	if x.folder {
		if err := os.MkdirAll(x.path, 0o755); err != nil {
			return fmt.Errorf("records: %w", err)
		}
	}
	for _, path := range x.stale {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("records: %w", err)
		}
	}
	x.stale = nil
	if x.file, err = tempfile.New(filepath.Dir(x.name(x.part))); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	x.table, err = records.NewWriter(x.file, x.format, x.run)
	return err
}

func (x *recordsOut) finish(file eval.DataFile) error {
	if x.read < x.have || len(x.earlier) > 0 {
		return x.other()
	}
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
		path = x.rowsFile()
	}
	return x.place(path)
}

func (x *recordsOut) place(path string) error {
	err := x.table.Close()
	if err == nil {
		err = x.file.Sync()
	}
	if err == nil {
		err = tempfile.Place(x.file, path)
	}
	if err != nil {
		err = errors.Join(err, x.drop())
	}
	x.table, x.file, x.part, x.people = nil, nil, x.part+1, 0
	return err
}

func (x *recordsOut) drop() (err error) {
	if x.file != nil {
		err, x.file = tempfile.Remove(x.file), nil
	}
	return err
}

// fingerprint adds up people, so that the sum says who they are in any order: those who were evaluated, and the
// promises that were issued to them, included.
type fingerprint [4]uint64

func (s *fingerprint) add(r *eval.Record) {
	b := append([]byte(r.ID), 0, byte(r.Label), 0)
	if r.Evaluated {
		b[len(b)-1] = 1
	}
	numbers := r.X
	if r.Issued != nil {
		numbers = slices.Concat(numbers, r.Issued.Point)
	}
	b, _ = binary.Append(b, binary.LittleEndian, numbers) // of a list of numbers it never fails
	sum := sha256.Sum256(b)
	for i := range s {
		s[i] += binary.LittleEndian.Uint64(sum[8*i:])
	}
}

func (s *fingerprint) text() string {
	b, _ := binary.Append(nil, binary.LittleEndian, s[:])
	return hex.EncodeToString(b)
}

// finished is an error when a folder or a pattern stands for files of a folder that cfq eval has not finished, or of
// which files are missing: the people in them, and the rows that could not be read, would not count.
func finished(found []string) error {
	parts := map[string]int{} // by folder
	for _, path := range found {
		if own, _ := filepath.Match("part-[0-9][0-9][0-9][0-9][0-9][0-9].parquet", filepath.Base(path)); own {
			parts[filepath.Dir(path)]++
		}
	}
	for folder, n := range parts {
		x := recordsOut{path: folder, folder: true}
		want := []string{x.rowsFile()}
		for i := range n {
			want = append(want, x.name(i))
		}
		for _, path := range want {
			if !slices.Contains(found, path) {
				return cli.Wrap(fmt.Errorf("records: the folder %s is not complete: there is no %s", folder,
					filepath.Base(path)), "cfq eval --resume goes on with it; name its files one by one if these people will do")
			}
		}
	}
	return nil
}

func tables(args []string) (paths []string, err error) {
	for _, arg := range args {
		some := []string{arg}
		info, err := os.Stat(arg)
		pattern := arg
		if err == nil && info.IsDir() {
			pattern = filepath.Join(arg, "*.parquet")
		}
		if pattern != arg || err != nil && strings.ContainsAny(arg, "*?[") {
			if some, err = filepath.Glob(pattern); err != nil || len(some) == 0 {
				return nil, cli.Wrap(fmt.Errorf("records: no file is called %s", pattern), hintNoRecords)
			}
			if err := finished(some); err != nil {
				return nil, err
			}
		}
		for _, path := range some {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
				continue // as of a part without people
			}
			if err := cli.Input("table of records", path); err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(paths, func(o string) bool { return cli.Distinct([]string{o}, []string{path}) != nil }) {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		return nil, cli.Wrap(fmt.Errorf("records: nothing is in %s", message.List(args, 3)), hintNoRecords)
	}
	slices.Sort(paths)
	return paths, nil
}

// readRecords reads the records of tables, to be summed up at a confidence; 0 for that with which they were made.
func (d *evaluation) readRecords(ctx context.Context, paths []string, o eval.Options) error {
	var who fingerprint
	all, run, file, err := records.Read(ctx, paths, d.task, func(r *eval.Record) {
		who.add(r)
		known := d.known.equal(&task.People{X: r.X, Dim: len(r.X), N: 1})
		r.Calibrated = known != nil && known[0]
	})
	if err != nil {
		return cli.Wrap(err, hintNoRecords)
	}
	d.closers = append(d.closers, all)
	if err := d.madeOf(run, paths); err != nil {
		return err
	}
	if o.Confidence > 0 {
		run.Settings.Confidence = o.Confidence
	}
	o.Margins, o.Sample, o.Seed, o.OneSided = run.Settings.Margins, 0, run.Settings.Seed, run.Settings.OneSided
	by := run.Settings.Solver
	o.Solver = recourse.SolveOptions{
		Steps: by.Steps, Restarts: by.Restarts, Rounds: by.Rounds, Beam: by.Beam, Seed: by.Seed,
	}
	d.total = &task.People{N: all.Len(), Reading: task.Reading{Total: file.Rows, Failed: file.Unreadable}}
	d.inputs.Data = report.File{Name: "records", SHA256: who.text(), Entries: all.Len(), Used: all.Len()}
	d.tabled = &measured{[]*eval.Records{all}, run.Settings, file, o}
	if note := all.Note(); note != "" {
		d.e.msg.Note("%s: %s", message.List(paths, 3), note)
	}
	return nil
}

func (d *evaluation) madeOf(run *records.Run, paths []string) error {
	own := d.madeWith(&run.Settings, &task.People{})
	own.Attributes, own.Columns = run.Attributes, run.Columns
	if x := run.Differs(&own); x != "" {
		return cli.Usagef("give the files and the version of cfq that the records were made with, or make the records anew",
			"records in %s: they were not made with the files and the version at hand: %s", message.List(paths, 3), x)
	}
	return nil
}
