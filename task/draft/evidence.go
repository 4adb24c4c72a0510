package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"cfq/internal/config"
	"cfq/internal/message"
	"cfq/internal/statistics"
	"cfq/task"
)

// Evidence is what there is about whether a task encodes people as a model was trained.
type Evidence struct {
	Model  string        // what its file shows; "": nothing
	Scores *Verification // of an earlier check too; nil: none
	Other  string        // what a record is about that is of no use here; "": there is none

	Stated                float64 // accuracy that the model's owner states; 0: none
	Rows, Right, Frequent int     // with known outcome; of them decided as labelled, and with the more frequent outcome
}

// The states of an encoding.
const (
	Verified     = "verified"
	Unverified   = "unverified"
	Contradicted = "contradicted"
)

// minAccuracyRows is how many rows an accuracy needs to verify an encoding.
const minAccuracyRows = 200

// accuracy compares the accuracy that the task states with that on the data; "" without one. Nobody is told the latter:
// a number that was copied from here would verify nothing.
func (e *Evidence) accuracy() string {
	if e.Stated == 0 || e.Rows == 0 {
		return ""
	}
	lo := statistics.ClopperPearsonLower(e.Right, e.Rows, 0.975)
	hi := statistics.ClopperPearsonUpper(e.Right, e.Rows, 0.975)
	switch often := float64(e.Frequent) / float64(e.Rows); {
	case e.Stated < lo || e.Stated > hi:
		return Contradicted
	case e.Rows < minAccuracyRows || lo <= often && often <= hi:
		return Unverified
	}
	return Verified
}

// State says whether the encoding is verified, and why. Scores say more than an accuracy.
func (e *Evidence) State() (state, why string) {
	const stated = "the accuracy that the task file states is "
	v, rows := e.Scores, message.Count(e.Rows, "row")
	switch accuracy := e.accuracy(); {
	case v != nil && v.Differ > 0:
		return Contradicted, fmt.Sprintf("%d of %d rows have another score than their owner's", v.Differ, v.Rows)
	case v != nil && v.Verified() && v.Accuracy == 0:
		why = fmt.Sprintf("the model gives the scores of all %d rows (largest difference %.1g)", v.Rows, v.Largest)
		if len(v.Unseen) > 0 {
			why += fmt.Sprintf(", which say nothing of %s", message.List(v.Unseen, 6))
		}
		return Verified, why
	case e.Model != "":
		return Verified, e.Model
	case accuracy == Contradicted:
		return Contradicted, stated + "not the model's on " + rows
	case accuracy == Verified || v != nil && v.Accuracy > 0:
		return Verified, "the model's accuracy is the one that the task file states"
	case v != nil:
		return Unverified, fmt.Sprintf("%d of %d rows with scores tell something: want %d or more", v.Telling, v.Rows,
			MinScores)
	case e.Other != "":
		return Unverified, e.Other
	case accuracy == Unverified:
		return Unverified, fmt.Sprintf("%snot told from chance on %s: want %d or more", stated, rows, minAccuracyRows)
	}
	return Unverified, "no scores of the model's owner have been compared"
}

// Scores are what a model's owner computed with it for some rows of a data file.
type Scores struct {
	Rows     []int // as task.ReadOptions numbers them, if Numbered; else they count from 0
	Numbered bool
	Columns  int       // numbers for each row: one, or one for each class
	Values   []float64 // rows x Columns
	// Probabilities says that all numbers lie in [0, 1], those of several columns with the sum 1; else they are logits.
	Probabilities bool
	// Coarse is how many times further than usual a score may be off: 16-bit floats have few digits. 0 is 1.
	Coarse float64
}

const (
	// tolerance is how far a score may be from the model's; times its size for logits beyond 1.
	tolerance = 1e-4
	// MinScores is how many rows can verify an encoding.
	MinScores = 20
)

// ReadScores reads scores from delimited text or Parquet: a column for the model's one output (of two classes: that of
// class 1), or one for each class. A column named row, index or without a name has the number of the row; without one
// the scores are those of the first rows, see Select.
func ReadScores(ctx context.Context, path string) (*Scores, error) {
	s, err := task.FromFile(path, func(r io.Reader) (*Scores, error) { return readScores(ctx, r) })
	if err != nil {
		return nil, fmt.Errorf("scores: %w", err)
	}
	return s, nil
}

func readScores(ctx context.Context, r io.Reader) (*Scores, error) {
	rows, err := task.NewRows(r, func(head []byte) (*task.Data, error) {
		d, err := sniff(head, nil, nil)
		d.Trim, d.Columns = true, nil // the first row names columns where it has no scores
		return &d, err
	})
	if err != nil {
		return nil, err
	}
	s, numbers, first := &Scores{}, -1, true
	err = rows.Each(ctx, func(rec []string, line int, bad *task.Problem) error {
		if bad != nil {
			return bad
		}
		if first {
			names, header := rows.Names, rows.Names == nil && isScoreHeader(rec)
			if header {
				names = rec
			}
			numbers, first = rowNumbers(names), false
			if s.Numbered = numbers >= 0; header {
				return nil
			}
		}
		if err := s.add(rec, numbers); err != nil {
			return rows.Problem(line, err.Error())
		}
		return nil
	})
	if err == nil {
		err = s.finish()
	}
	return s, err
}

// isScoreHeader says whether a first record names columns: by texts, or by the numbers of the classes.
func isScoreHeader(rec []string) bool {
	counted := true
	for i, s := range rec {
		if _, ok := task.Number(s); !ok {
			return true
		}
		counted = counted && s == strconv.Itoa(i)
	}
	return counted
}

func rowNumbers(names []string) int {
	return slices.IndexFunc(names, func(s string) bool {
		return slices.Contains([]string{"", "row", "index", "unnamed: 0"}, strings.ToLower(strings.TrimSpace(s)))
	})
}

func (s *Scores) add(rec []string, numbers int) error {
	row := len(s.Rows)
	before := len(s.Values)
	for i, field := range rec {
		v, ok := task.Number(field)
		switch {
		case !ok:
			return fmt.Errorf("%s is not a number", message.Quote(field))
		case i != numbers:
			s.Values = append(s.Values, v)
		case v < 0 || v != math.Trunc(v) || v > math.MaxInt32:
			return fmt.Errorf("%s is not the number of a row: want 0 or more", message.Quote(field))
		default:
			row = int(v)
		}
	}
	if n := len(s.Values) - before; n == 0 || s.Columns != 0 && n != s.Columns {
		return fmt.Errorf("%s, want %d in each row", message.Count(n, "score"), max(s.Columns, 1))
	}
	s.Rows, s.Columns = append(s.Rows, row), len(s.Values)-before
	return nil
}

func (s *Scores) finish() error {
	if len(s.Rows) < MinScores {
		return fmt.Errorf("%s of %s: want %d or more, better 100", message.Count(len(s.Rows), "score"),
			message.Count(len(s.Rows), "row"), MinScores)
	}
	sorted := slices.Clone(s.Rows)
	slices.Sort(sorted)
	for i := range sorted[1:] {
		if sorted[i] == sorted[i+1] {
			return fmt.Errorf("row %d has two scores", sorted[i])
		}
	}
	s.Probabilities = true
	for row := range slices.Chunk(s.Values, s.Columns) {
		sum := 0.0
		for _, v := range row {
			sum += v
			s.Probabilities = s.Probabilities && v >= 0 && v <= 1
		}
		s.Probabilities = s.Probabilities && (s.Columns == 1 || math.Abs(sum-1) < 1e-3)
	}
	return nil
}

// Select makes scores without numbers of rows those of the first rows that o selects.
func (s *Scores) Select(o task.ReadOptions) error {
	if s.Numbered || o.Only == nil && o.Except == nil {
		return nil
	}
	if o.Only != nil && len(o.Only) < len(s.Rows) {
		return fmt.Errorf("there are %s, and %s selected", message.Count(len(s.Rows), "score"),
			message.Count(len(o.Only), "row"))
	}
	pick := o.Selection()
	row := 0
	for i := range s.Rows {
		for ; !pick.Next(); row++ {
		}
		s.Rows[i] = row
		row++
	}
	return nil
}

// predicted are the numbers, in the form of the scores, that a model's logits for a row come to.
func (s *Scores) predicted(logits []float32) []float64 {
	row := make([]float64, 0, 2)
	if len(logits) == 1 {
		row = append(row, 0)
	}
	for _, v := range logits {
		row = append(row, float64(v))
	}
	switch {
	case s.Probabilities:
		softmax(row)
	case s.Columns == 1:
		row[1] -= row[0]
	default:
		floats.AddConst(-stat.Mean(row, nil), row)
	}
	return row[len(row)-s.Columns:]
}

func softmax(z []float64) {
	most, sum := slices.Max(z), 0.0
	for i := range z {
		z[i] = math.Exp(z[i] - most)
		sum += z[i]
	}
	for i := range z {
		z[i] /= sum
	}
}

// Verification says how far a model's scores, with people encoded by a task file, are from those of its owner.
type Verification struct {
	Rows int `json:"rows"` // whose scores were compared
	// Telling is how many of them differ in their inputs and have no probability next to 0 or 1.
	Telling int     `json:"telling"`
	Differ  int     `json:"differ"`  // of them, those with another score
	Largest float64 `json:"largest"` // difference of a score
	// Row, Want and Got are the row that is farthest off, its owner's score and the model's.
	Row  int     `json:"row"`
	Want float64 `json:"want"`
	Got  float64 `json:"got"`
	// Unread is how many rows with a score are not among those that the task reads.
	Unread int `json:"unread,omitempty"`
	// Unseen are inputs about which the compared rows say nothing: they have one value in all of them.
	Unseen []string `json:"unseen,omitempty"`
	// Accuracy is what the task states and the rows confirm where no scores were compared, else 0.
	Accuracy float64 `json:"accuracy,omitempty"`
}

// Verified says that all scores are those of the model's owner, and that enough of them tell something; or that the
// accuracy is the one that the owner states.
func (v *Verification) Verified() bool {
	return v.Accuracy > 0 || v.Differ == 0 && v.Telling >= MinScores
}

// saturated is how near to 0 and 1 a probability says little about the inputs.
const saturated = 1e-3

// Verify compares scores with the logits that a model has for people, people x classes.
func Verify(s *Scores, t *task.Task, people *task.People, logits []float32, classes int) (*Verification, error) {
	if max(s.Columns, classes) > 2 && s.Columns != classes {
		return nil, fmt.Errorf("the scores have %s, but the model has %d classes", message.Count(s.Columns, "column"),
			classes)
	}
	at := map[int]int{}
	for i, row := range people.Rows {
		at[row] = i
	}
	v := &Verification{}
	var seen []int
	telling := map[string]bool{}
	worst := -1.0
	for k, row := range s.Rows {
		i, ok := at[row]
		if !ok {
			v.Unread++
			continue
		}
		v.Rows++
		seen = append(seen, i)
		scores := s.Values[k*s.Columns : (k+1)*s.Columns]
		tells := func(p float64) bool { return p > saturated && p < 1-saturated }
		if !s.Probabilities || slices.ContainsFunc(scores, tells) {
			telling[fmt.Sprint(people.X[i*people.Dim:(i+1)*people.Dim])] = true
		}
		// Logits of several classes are defined up to a constant, by which log-softmax and logits in front of it differ: the
		// model's have the mean of the scores.
		shift, differs := 0.0, false
		if !s.Probabilities && s.Columns > 1 {
			shift = stat.Mean(scores, nil)
		}
		for c, got := range s.predicted(logits[i*classes : (i+1)*classes]) {
			want := scores[c]
			if got += shift; math.IsNaN(got) || math.IsInf(got, 0) {
				return nil, fmt.Errorf("row %d: the model gives %v", row, got)
			}
			tolerated := tolerance * max(1, s.Coarse)
			if !s.Probabilities {
				tolerated *= max(1, math.Abs(want))
			}
			off := math.Abs(got-want) / tolerated
			differs = differs || off > 1
			if off > worst {
				worst, v.Row, v.Want, v.Got = off, row, want, got
			}
			v.Largest = max(v.Largest, math.Abs(want-got))
		}
		if differs {
			v.Differ++
		}
	}
	v.Telling = len(telling)
	for j, name := range t.InputNames() {
		varies := func(i int) bool { return people.X[i*people.Dim+j] != people.X[seen[0]*people.Dim+j] }
		if !slices.ContainsFunc(seen, varies) {
			v.Unseen = append(v.Unseen, name)
		}
	}
	return v, nil
}

const recordSchema = "cfq.verified/2"

// Record is what verified an encoding for a model.
type Record struct {
	Encoding string `json:"encoding"` // task.Task.EncodingHash
	Model    string `json:"model"`    // SHA-256 of the file
	Scores   string `json:"scores"`   // SHA-256 of the file

	Verification
}

// Records are the records of a task file, one for each model. They stand next to it.
type Records struct {
	Schema string   `json:"schema"`
	List   []Record `json:"records"`
}

// RecordPath is the path of the records of a task file.
func RecordPath(path string) string { return path + ".verified" }

// Add adds a record, in place of one of the same model and of those of other encodings. One of scores says more than
// one of an accuracy, and stays.
func (r *Records) Add(add Record) {
	if add.Accuracy > 0 && slices.ContainsFunc(r.List, func(o Record) bool {
		return o.Model == add.Model && o.Encoding == add.Encoding && o.Accuracy == 0 && o.Verified()
	}) {
		return
	}
	r.List = slices.DeleteFunc(r.List, func(o Record) bool { return o.Model == add.Model || o.Encoding != add.Encoding })
	r.List = append(r.List, add)
}

// Encode writes the records as JSON.
func (r *Records) Encode() []byte {
	r.Schema = recordSchema
	return config.EncodeRecord(r)
}

// ReadRecords reads the records of a file; none where it is not there.
func ReadRecords(path string) (*Records, error) {
	r := &Records{}
	if err := config.ReadRecord(path, recordSchema, r); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
