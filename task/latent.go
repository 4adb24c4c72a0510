package task

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
	"cfq/internal/lists"
)

// Latent says that people move in the space of codes z that a decoder makes the model's inputs of, and not among these:
// x' = D(E(x) + delta). The codes are features of the Task, behind those of the model's inputs, which never change.
//
// Reference: eq:latent_cf_image, eq:latent_action_set and eq:semantic_action_set.
type Latent struct {
	Encoder, Decoder string    // ONNX files, as the task file names them
	Size             int       // codes latent.0, latent.1, ...; 0 where Codes are listed
	Bounds           []float64 // a pair, of each of so many codes; nil when not given
	Codes            []Feature // the last of Task.Features
	Radius           float64   // the most that an action may cost; 0 is no limit
	// Pixels is the most that it may change the inputs, in the l1 norm, the full range of one being 1; 0 is no limit.
	Pixels float64

	folder string // of the task file
	coder  Coder
}

// Coder makes codes of rows of the model's inputs.
type Coder interface {
	Codes(ctx context.Context, x []float32) ([]float32, error)
	// String names what the encoder and the decoder contain: another decoder makes other images of the same codes.
	String() string
}

// String is everything that recourse among the codes depends on, for what is kept of earlier runs.
func (l *Latent) String() string {
	list := newDecoder("", &Task{}).featureList(&Task{}, l.Codes)
	return fmt.Sprintf("%v %s %v %v", l.coder, config.JSON(list.Out()), l.Radius, l.Pixels)
}

// Files are the paths of encoder and decoder.
func (l *Latent) Files() (encoder, decoder string) {
	path := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(l.folder, filepath.FromSlash(name))
	}
	return path(l.Encoder), path(l.Decoder)
}

// Use has people's codes made by c, without which people cannot be read.
func (l *Latent) Use(c Coder) { l.coder = c }

// Coder is what makes people's codes, nil as long as nothing does.
func (l *Latent) Coder() Coder { return l.coder }

func (d *fileDecoder) latentKeys(t *Task, l *Latent) []key {
	return []key{
		{Name: "encoder", Value: d.Text(&l.Encoder), Fallback: required},
		{Name: "decoder", Value: d.Text(&l.Decoder), Fallback: required},
		{Name: "size", Value: d.Count(&l.Size, 1)},
		{Name: "bounds", Value: d.interval("bounds", &l.Bounds), Omit: l.Size == 0},
		{Name: "features", Value: d.featureList(t, l.Codes), Omit: l.Size > 0},
		{Name: "radius", Value: d.Above0(&l.Radius), Omit: l.Radius == 0},
		{Name: "pixels", Value: d.Above0(&l.Pixels), Omit: l.Pixels == 0},
	}
}

func (d *fileDecoder) latent(l *Latent) {
	m, t := d.codes, d.task
	l.folder = filepath.Dir(d.File)
	t.Latent = l
	if m.Has("size") == m.Has("features") || m.Has("bounds") && !m.Has("size") {
		d.Errorf(m.Node, "latent needs the number of codes, `size`, perhaps with `bounds` of each, or the list `features`, "+
			"which names them and has their bounds")
		return
	}
	if t.Encoded {
		d.Errorf(m.Node, "encoded: true and latent exclude each other: the encoder makes the codes of raw data")
	}
	first := len(d.features)
	for i := range l.Size {
		name := fmt.Sprintf("latent.%d", i)
		f := Feature{Name: name, Column: name, Encoding: &Standardized{Std: 1}, Action: Free(), Width: 1}
		copy(f.Bounds[:], l.Bounds)
		d.features = append(d.features, featureEntry{&f, config.Mapping{Node: m.Node}, d})
	}
	d.List(m.At["features"], "features", func(_ int, n ast.Node) {
		f := Feature{Action: Free()}
		d.feature(n, &f)
	})
	for _, e := range d.features[first:] {
		if n := e.Number(); n != nil && !n.Ordinal {
			n.Code = true
		} else if e.Encoding != nil {
			e.errorf("kind", "a code of the latent space is a number: kind numeric")
		}
	}
	for _, e := range d.features[:first] {
		if e.Encoding != nil && e.Encoding.isMade() {
			e.errorf("", "latent needs the model's inputs to be those of the features: no clip, log, spread or inputs")
		}
		e.Actionable, e.Mutable = false, false
	}
	switch {
	case t.Cost.Norm == Mixed && l.Radius > 0:
		d.Errorf(m.Place("radius"), "a radius needs cost.norm l1 or l2")
	case !d.cost.Has("norm"):
		t.Cost.Norm = L2
	}
	if !d.cost.Has("weights") {
		t.Cost.Weights = "given"
	}
}

func (rd *peopleReader) codes(p *People) error {
	if !rd.cols.uncoded || p.N == 0 {
		return nil
	}
	return rd.task.Recode(rd.ctx, p, AllRows(p.N))
}

// Recode gives the people at some positions the codes that the encoder makes of them, in place of those that they have.
// Without Latent there are none.
func (t *Task) Recode(ctx context.Context, p *People, at []int) error {
	l := t.Latent
	if l == nil {
		return nil
	}
	if l.coder == nil {
		return fmt.Errorf("people's codes are not known: the encoder %s is not open", l.Encoder)
	}
	dim := t.ModelDim()
	x := lists.Join(at, func(i int) []float32 { return p.X[i*p.Dim : i*p.Dim+dim] })
	z, err := l.coder.Codes(ctx, x)
	if err != nil {
		return fmt.Errorf("encoder %s: %w", l.Encoder, err)
	}
	for k, i := range at {
		codes := z[k*(p.Dim-dim) : (k+1)*(p.Dim-dim)]
		for _, v := range codes {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("encoder %s makes %v of row %d: no action can start there", l.Encoder, v, p.Rows[i])
			}
		}
		copy(p.X[i*p.Dim+dim:(i+1)*p.Dim], codes)
	}
	return nil
}

func (f *Feature) isCode() bool {
	n := f.Number()
	return n != nil && n.Code
}

// Decoder is Read for records that arrive one by one, as on a stream: every record is a person, or filtered, or comes
// with the problem why it cannot be read. What it keeps does not grow with the records.
type Decoder struct{ rd *peopleReader }

// Decoder finds the columns of the task among names. hash is ReadOptions.Hash.
func (t *Task) Decoder(names []string, hash bool) (*Decoder, error) {
	rd := newReader(context.Background(), t, ReadOptions{Hash: hash})
	if err := rd.columns(names, true, nil); err != nil {
		return nil, err
	}
	return &Decoder{rd}, nil
}

// Add reads a record, whose fields it does not keep. It says whether it is one more of the people that Take returns. A
// record that is not and has no problem was left out by Data.Filter.
func (d *Decoder) Add(fields []string, line int) (person bool, problem *Problem) {
	return d.rd.row(fields, line)
}

// Like returns nobody, with the attributes and the other columns that people have, and notes on the columns.
func (d *Decoder) Like() *People {
	p := d.rd.like()
	p.Subgroups = append(d.rd.task.subgroups(p), p.Subgroups...)
	p.Notes, p.Warnings = d.rd.Notes, d.rd.Warnings
	return p
}

// Take returns the people added since the last call, in order. Their Rows count the records of all calls. It fails
// where the encoder of Task.Latent does.
func (d *Decoder) Take() (*People, error) {
	p := d.rd.batch()
	return p, d.rd.codes(p)
}
