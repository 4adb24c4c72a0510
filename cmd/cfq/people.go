package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"cfq/eval"
	"cfq/eval/records"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/ptq/taskmodel"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
	"cfq/task/draft"
	"cfq/task/rowio"
)

// batchPeople is how many people are read at a time, and judgedPeople how many of them one worker judges.
const (
	batchPeople  = 8192
	judgedPeople = 1024
)

type issued struct {
	*promise.File // without promises

	tally   promise.Tally
	several int // people with several promises
}

func (f *evaluationFlags) findPeople() (err error) {
	if f.piped {
		return nil
	}
	if len(f.tables) > 0 {
		if f.data+f.rows+f.promises != "" {
			return cli.Usagef(cli.HintConflict, "--records stands in place of --data, --rows and --promises")
		}
		f.tables, err = tables(f.tables)
		return err
	}
	return f.checkPeople()
}

// source is the people of the data, with their promises if a file issued some. It is an eval.Source.
func (d *evaluation) source(ctx context.Context, each func(*eval.Batch) error) (err error) {
	o, err := readSelection(d.f.rows)
	if err != nil {
		return err
	}
	o.Hash = true
	all := o.CountRows(d.f.data)
	if all <= judgedPeople { // a single batch
		all = 0
	}
	d.known.unlike = eval.Tally{}
	d.decoded, err = newReconstructed(d.e, d.paths[0], d.files[0], d.models[0], d.task)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.decoded.close()) }()
	read, lost := &issued{}, 0 // promises to people who are left out
	read.File, err = d.f.streamed(ctx, d.task, o, func(f *promise.File) error {
		_, kept, err := d.decoded.keep(ctx, f.People)
		if err != nil {
			return err
		}
		if kept != nil {
			some := *f
			lost += some.Keep(kept)
			f = &some
		}
		b := &eval.Batch{Total: all}
		if d.f.promises != "" {
			if b.Promises, err = read.actions(ctx, d.models[0], d.allowed, f); err != nil {
				return err
			}
		}
		b.People, b.Set, b.Calibrated = f.People, d.allowed.of(f.People), d.known.record.Equal(f.People)
		d.known.look(f.People)
		return each(b)
	})
	if err != nil {
		return err
	}
	d.total = read.People
	if d.f.promises != "" {
		d.promise = read
		read.Made, read.Missing = read.Made-lost, read.Missing+lost
	}
	return nil
}

// actions makes one action for each row out of the promises of a batch. People with several promises get a row for each
// of them, so that all are judged: rows with one ID count once, by the worst of them.
func (x *issued) actions(
	ctx context.Context, m recourse.Model, a *permitted, f *promise.File,
) ([]recourse.Action, error) {
	of := make([][]int, f.People.N) // the promises to each person
	for i := range f.Promises {
		person := f.Promises[i].Person
		of[person] = append(of[person], i)
	}
	var rows []int
	for person, promises := range of {
		rows = append(rows, person)
		for k, i := range promises {
			if k > 0 {
				rows = append(rows, person)
			}
			f.Promises[i].Person = len(rows) - 1
		}
		x.several += min(1, max(0, len(promises)-1))
	}
	all := f.People
	if f.People = all.Subset(rows); all.IDs == nil && len(rows) > all.N {
		for i, person := range rows {
			id := ""
			if len(of[person]) > 1 {
				id = fmt.Sprintf("%s%d", eval.RowID, f.People.Row(i))
				if f.People.Content != nil { // another file of records has other people in its rows
					id += fmt.Sprintf(":%016x", f.People.Content[i])
				}
			}
			f.People.IDs = append(f.People.IDs, id)
		}
	}
	verdicts, err := promise.Judge(ctx, m, a.of(f.People), f)
	if err != nil {
		return nil, err
	}
	x.tally.Add(f, verdicts)
	actions, _ := f.Actions(verdicts)
	return actions, nil
}

func (d *evaluation) warnPeople() error {
	if err := d.decoded.count(d.total, d.warn); err != nil {
		return err
	}
	if d.f.data != "" {
		warnRows(d.e, d.f.data, d.total)
	}
	if x := d.promise; x != nil {
		if err := warnPromises(d.e, d.f.promises, x.File); err != nil {
			return err
		}
		if x.several > 0 {
			d.warn("%d of the people have several promises: all are judged, and a person counts once, as broken if one breaks",
				x.several)
		}
		if m := x.tally.Difference(); m > claimSlack {
			warnClaims(d.e, m)
			d.warn("the margins that %s states differ from those found by up to %.3g: it may be of another model, task or data",
				filepath.Base(d.f.promises), m)
		}
	}
	d.allowed.warn(d.e)
	return nil
}

func (d *evaluation) set(of []*eval.Record) *constraint.Set {
	rows := lists.Map(of, func(x *eval.Record) int { return x.Row })
	return d.allowed.set.Select(rows)
}

type measured struct {
	records  []*eval.Records
	settings eval.Settings
	file     eval.DataFile
	o        eval.Options
}

func (d *evaluation) measured(ctx context.Context, o eval.Options) (_ *measured, err error) {
	if m := d.tabled; m != nil {
		d.tabled = nil
		return m, nil
	}
	models := lists.Make(len(d.models)-1, func(i int) recourse.Model { return d.quantized(i+1, o) })
	source := d.source
	if d.out != nil {
		defer func() {
			err = errors.Join(err, d.out.Drop())
			if other := (*records.ResumeError)(nil); errors.As(err, &other) {
				err = cli.Wrap(err, hintOtherRecords)
			}
		}()
		o.OnRecords, source = d.out.Write, d.out.Source(d.source)
	}
	m := &measured{o: o}
	if d.f.promises == "" {
		defer roomForSearch(d.e.workers)()
	}
	m.records, m.settings, err = eval.Measure(ctx, d.models[0], models, source, o)
	if errors.Is(err, eval.ErrOtherSample) {
		return nil, d.out.Others()
	}
	if err != nil {
		return nil, err
	}
	for _, x := range m.records {
		d.closers = append(d.closers, x)
	}
	if err := d.warnPeople(); err != nil {
		return nil, err
	}
	p := d.total
	m.file = eval.DataFile{
		Rows: max(p.Total, p.N), Unreadable: p.Failed, LeftOut: p.Filtered + p.Excluded, Filtered: p.Filtered,
	}
	if d.promise != nil {
		m.file.Unmatched = d.promise.Failed + d.promise.Missing
	}
	if d.out != nil {
		if err := d.checkPromiseSource(); err != nil { // which nobody who reads the records could tell
			return nil, err
		}
		if err := d.out.Finish(m.file); err != nil {
			return nil, err
		}
	}
	if note := m.records[0].Note(); note != "" {
		d.e.msg.Note("%s: %s", d.f.data, note)
	}
	return m, nil
}

// results evaluates the quantized models, in the order of their paths, and with survey the people of the first of them.
func (d *evaluation) results(ctx context.Context, o eval.Options, survey bool) (all []*eval.Result, err error) {
	m, err := d.measured(ctx, o)
	if err != nil {
		return nil, err
	}
	for i, x := range m.records {
		var visitors []eval.Visitor
		var by *eval.GroupBy
		if i == 0 && survey {
			if by, err = d.groupsOf(x); err != nil {
				return nil, err
			}
			d.survey = &report.Survey{Settings: &m.settings, People: d.set}
			visitors = append(visitors, d.survey.Visit)
		}
		r, err := eval.Summarize(x, m.settings, m.file, by, visitors...)
		if errors.Is(err, eval.ErrSamples) {
			return nil, cli.Wrap(fmt.Errorf("records: --sample was given for each part: %w", err),
				"leave out --sample where parts of the people are evaluated")
		}
		if err == nil && i == 0 {
			err = r.Repeat(ctx, d.models[0], d.set, m.o)
		}
		if err != nil {
			return nil, err
		}
		all, d.closers = append(all, r), append(d.closers, r)
		r.CopyNoise(all[0]) // which is the original's alone
	}
	return all, nil
}

// groupsOf are the groups of people in records. Those equal to calibration rows are a group of their own.
func (d *evaluation) groupsOf(r *eval.Records) (*eval.GroupBy, error) {
	by := eval.GroupBy{Specs: []string{}, Min: d.f.minGroup}
	if own := d.f.groupBy(); own != nil {
		by = *own
	}
	if k := r.Calibrated(); k > 0 && k < r.Len() {
		if by.Specs == nil {
			by.Specs = lists.Map(r.Attributes, func(s task.Subgroup) string { return s.Feature })
		}
		by.Specs = append(slices.Clone(by.Specs), eval.CalibrationGroup)
	}
	if err := by.Check(r.Attributes); err != nil {
		return nil, d.f.badGroups(err)
	}
	return &by, nil
}

// roomForSearch lets the runtime run a goroutine more for each worker, until the function that it returns is called. A
// call of ONNX Runtime keeps its place among them until the runtime takes notice, milliseconds later: a search, mostly
// such calls, would leave a core idle. Judging a million promises takes a tenth longer with it.
func roomForSearch(workers int) (end func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	was := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(was + workers)
	return func() { runtime.GOMAXPROCS(was) }
}

const maxShown = 5

// claimSlack is how far, in logits, a claimed margin may be from the one found before it is worth a warning.
const claimSlack = 1e-3

func (f *peopleFlags) checkPeople() error {
	if f.promises != "" {
		if err := cli.Input("promises file", f.promises); err != nil {
			return err
		}
	}
	switch {
	case f.promises == "" || f.data != "":
		return dataFile(f.data)
	case f.rows != "":
		return cli.Usagef(hintMissingData, "--rows chooses rows of --data, which is missing")
	}
	return nil
}

// streamed hands people on in batches, each with the promises of --promises to them, see promise.Stream. The people are
// those of the data or, without any, the file's. Errors of each are returned as they are.
func (f *peopleFlags) streamed(ctx context.Context, t *task.Task, read task.ReadOptions,
	each func(*promise.File) error,
) (*promise.File, error) {
	if f.promises == "" {
		all, err := streamPeople(ctx, f.data, t, read, judgedPeople, func(p *task.People) error {
			return each(&promise.File{People: p})
		})
		return &promise.File{People: all}, err
	}
	var failed error // of what was done with the promises, not of reading them
	var people promise.Batches
	if f.data != "" {
		people = func(each func(*task.People) error) (*task.People, error) {
			return streamPeople(ctx, f.data, t, read, batchPeople, each)
		}
	}
	file, err := promise.Stream(ctx, f.promises, t, people, func(b *promise.File) error {
		failed = each(b)
		return failed
	})
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, promisesError(err, people == nil)
	}
	return file, nil
}

func promisesError(err error, alone bool) error {
	if !alone {
		return dataError(err)
	}
	return cli.Wrap(dataError(err), hintMissingData)
}

func warnPromises(e *env, path string, f *promise.File) error {
	for _, note := range f.Notes {
		e.msg.Warn("%s: %s", path, note)
	}
	warnProblems(e, fmt.Sprintf("%s: %d of %d rows could not be read and are left out", path, f.Failed, f.Rows),
		f.Problems, f.Failed)
	warnProblems(e, fmt.Sprintf("%s: %s to people who are not among the people read", path,
		message.Count(f.Missing, "promise")), f.Lost, f.Missing)
	if f.Made > 0 {
		return nil
	}
	err := fmt.Errorf("%s promises nothing to any of the people", path)
	n := 0
	for _, k := range f.Unpromised {
		n += k
	}
	if n > 0 && n == f.Rows-f.Failed {
		err = fmt.Errorf("%s promises nothing: its %s say so; only rows with the status found are promises", path,
			message.Count(n, "row"))
	}
	return cli.Wrap(err, "give the data and the task file that the promises were made with")
}

func warnClaims(e *env, difference float64) {
	if difference > claimSlack {
		e.msg.Warn("the margins that the promises file states differ from those found by up to %.3g: "+
			"was it made for another model, task or data?", difference)
	}
}

// judged makes one action for each person out of the promises, see [promise.File.Actions], as the only model, read from
// path, judges them; nil without promises.
func (in *opened) judged(ctx context.Context, e *env, path string) (_ []recourse.Action, err error) {
	if in.issued == nil {
		return nil, nil
	}
	c, err := openClassifier(ctx, e, path, in.files[0], in.task)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	verdicts, err := promise.Judge(ctx, c, in.set, in.issued)
	if err != nil {
		return nil, err
	}
	var sum promise.Tally
	sum.Add(in.issued, verdicts)
	warnClaims(e, sum.Difference())
	actions, further := in.issued.Actions(verdicts)
	if further > 0 {
		e.msg.Note("%d further promises to the same people: of each person's, the cheapest that the model keeps is used",
			further)
	}
	if sum.Infeasible+sum.Invalid > 0 {
		e.msg.Warn("of %s the task does not allow %d, and the model does not keep %d; cfq recourse --promises says more",
			message.Count(sum.Promises, "promise"), sum.Infeasible, sum.Invalid)
	}
	return actions, nil
}

func warnProblems(e *env, what string, list []task.Problem, n int) {
	if n == 0 {
		return
	}
	e.msg.Warn("%s", what)
	shown := list[:min(maxShown, len(list))]
	for i := range shown {
		e.msg.Warn("  %s", shown[i].Error())
	}
	if more := n - len(shown); more > 0 {
		e.msg.Warn("  and %d more", more)
	}
}

// reconstructed tells people for whom the original gives no number, and, with latent, those whom it refuses only as
// they are, and not as the decoder makes them of their codes: what would have them approved is the decoder, and no
// action.
type reconstructed struct {
	path    string
	full    recourse.Model
	again   *classifier.Model // nil for a task without latent
	kept    int
	leftOut int
	without []task.Problem // people without a number
}

func newReconstructed(e *env, path string, m *onnxio.Model, full recourse.Model, t *task.Task) (*reconstructed, error) {
	r := &reconstructed{path: path, full: full}
	if t.Latent == nil {
		return r, nil
	}
	var err error
	r.again, err = taskmodel.Reconstructed(m, t, e.workers)
	return r, unusableModel(path, err)
}

// keep returns the others among the people, and their positions; nil of all. The people who are left out are counted.
func (r *reconstructed) keep(ctx context.Context, p *task.People) (kept *task.People, rows []int, err error) {
	margins, err := r.full.Margins(ctx, p.X)
	if err != nil {
		return nil, nil, err
	}
	rows = lists.Where(p.N, func(i int) bool { return margins[i] == margins[i] })
	for i, m := range margins {
		if m != m {
			no := task.Problem{Line: p.Line(i), Reason: "the model gives no number (NaN), and so no decision"}
			r.without = append(r.without, no)
		}
	}
	if r.again != nil {
		own, err := taskmodel.OwnDoing(ctx, r.full, r.again, p.Subset(rows))
		if err != nil {
			return nil, nil, err
		}
		r.leftOut += len(rows) - len(own)
		rows = lists.Map(own, func(i int) int { return rows[i] })
	}
	if r.kept += len(rows); len(rows) == p.N {
		return p, nil, nil
	}
	return p.Subset(rows), rows, nil
}

func (r *reconstructed) keepRows(ctx context.Context, b *rowio.Batch) error {
	if b.People.N == 0 {
		return nil
	}
	people, rows, err := r.keep(ctx, b.People)
	if err != nil || rows == nil {
		return err
	}
	b.People = people
	for i := range b.Rows {
		if row := &b.Rows[i]; row.Person >= 0 {
			at, kept := slices.BinarySearch(rows, row.Person)
			if row.Person = at; !kept {
				row.Person = -1
			}
		}
	}
	return nil
}

// count adds who was left out to the rows that the filter left out or that cannot be read. It is an error if nobody has
// a number.
func (r *reconstructed) count(p *task.People, warn func(format string, args ...any)) error {
	p.Filtered, p.Failed, p.Problems = p.Filtered+r.leftOut, p.Failed+len(r.without), append(p.Problems, r.without...)
	warnLeftOut(r.leftOut, r.path, warn)
	if r.kept+r.leftOut == 0 && r.without != nil {
		return &promise.NoNumber{Line: r.without[0].Line}
	}
	return nil
}

func warnLeftOut(n int, path string, warn func(format string, args ...any)) {
	if n > 0 {
		warn("%d %s left out: %s refuses them as they are, but not what the decoder makes of their codes, so that nothing "+
			"would be theirs to do", n, message.Plural(n, "person is", "people are"), path)
	}
}

func (r *reconstructed) close() error {
	if r.again == nil {
		return nil
	}
	return r.again.Close()
}

type checked struct {
	*draft.Report
	Latent  *taskmodel.LatentCheck `json:"latent,omitempty"`
	Columns []task.Column          `json:"-"`
}

const leastAlike = 0.9

func checkLatent(ctx context.Context, e *env, in *opened, r *draft.Report) (*taskmodel.LatentCheck, error) {
	l, err := taskmodel.CheckLatent(ctx, in.files[0], in.task, in.people, e.workers)
	if err != nil {
		return nil, err
	}
	for _, p := range l.Problems {
		r.Find(draft.Problem, "latent", p)
	}
	if l.Alike < leastAlike {
		r.Find(draft.Warning, "latent", fmt.Sprintf("the model decides only %.0f %% of people alike as what the decoder "+
			"makes of their codes: train it for longer, or with more codes", 100*l.Alike))
	}
	if b := in.task.Latent.Pixels; b > 0 && l.Distance > b/2 {
		r.Find(draft.Warning, "latent", fmt.Sprintf("latent.pixels: what the decoder makes of people is %.3g from them on "+
			"average before any action, of a budget of %g", l.Distance, b))
	}
	return l, nil
}
