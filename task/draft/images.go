package draft

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/message"
	"cfq/task"
)

// Images is a draft for a model of images: one feature for all pixels.
type Images struct {
	file   *task.ImageFile
	shape  []int
	layout task.Layout
	asked  string // of the shape
}

// FindImages looks for images in the data file at path, for a model whose input has these sizes behind the batch; nil
// when there are none. Without a model sizes are nil: grey images have a shape all the same. names are the columns of a
// text without header. In a table, images and columns of pixels count as images only where the model's input has three
// sizes; else they are columns as others are.
func FindImages(path string, names []string, sizes []int) (*Images, error) {
	numbers := 1
	for _, n := range sizes {
		numbers *= n
	}
	p, inTable := &Images{}, 0
	if len(sizes) == 3 {
		inTable = numbers
	}
	var err error
	p.file, err = task.FindImages(path, inTable, func(head []byte) (*task.Data, error) {
		d, err := sniff(head, names)
		return &d, err
	})
	if err != nil || p.file == nil {
		return nil, err
	}
	h, w := p.file.Rows, p.file.Columns
	if len(sizes) == 0 && !p.file.Grey {
		return nil, fmt.Errorf("data file %s holds images: name the model, whose input says their shape", path)
	} else if len(sizes) == 0 {
		sizes, numbers = []int{1, h, w}, h*w
	}
	if h == 0 && len(sizes) == 3 {
		p.shape, p.layout = sizes, task.ChannelsFirst
		if sizes[2] <= 4 && sizes[0] > 4 {
			p.layout = task.ChannelsLast
		}
		return p, nil
	}
	channels := numbers / max(h*w, 1)
	p.shape, p.layout = []int{channels, h, w}, task.ChannelsFirst
	last := []int{h, w, channels}
	switch {
	case channels < 1 || channels > 4 || channels*h*w != numbers || len(sizes) == 3 && !slices.Equal(sizes, p.shape) &&
		!slices.Equal(sizes, last):
		return nil, fmt.Errorf("data file %s: the images have %d x %d pixels (rows x columns), and the model takes %v: "+
			"bring them to its size first", path, h, w, sizes)
	case len(sizes) == 3 && !slices.Equal(sizes, p.shape):
		p.shape, p.layout = last, task.ChannelsLast
	case len(sizes) != 3 && channels > 1:
		p.asked = "are the model's inputs channels, rows, columns (chw), or rows, columns, channels (hwc)?"
	}
	return p, nil
}

// Label is the column of the outcome: the given one, or that of the labels of a file that names no columns.
func (p *Images) Label(given string) string {
	if given != "" || p.file.Named || len(p.file.Names) < 2 || p.file.Data.Columns != nil {
		return given
	}
	return p.file.Names[1]
}

// Drawn says what is known of a draft for images.
type Drawn struct {
	Label, Favourable string
	Index             int      // -1: not known
	Asked             []string // about the scaling and the class
	Notes             []string
	File              string
}

// Draft writes the task file.
func (p *Images) Draft(o Drawn) (*Draft, error) {
	w := &yamlWriter{}
	p.writeData(w, o)
	w.line("target:")
	index := o.Index
	if index < 0 {
		index = 1
		w.question("  ", "which class index of the model is the favourable outcome? 1 is assumed.")
	}
	w.line("  index: %d\n  margin: 0 # in logits, that recourse must reach\n", index)
	for _, q := range append(o.Asked, p.asked) {
		if q != "" {
			w.question("", "%s", q)
		}
	}
	w.line("features:")
	keys := []string{
		"name: " + scalar(p.file.Column), "kind: image",
		"shape: [" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.shape)), ", "), "[]") + "]",
	}
	if p.layout == task.ChannelsLast {
		keys = append(keys, "layout: hwc")
	}
	w.line("%s}", wrap("  - {", append(keys, "mean: 0", "std: 255", "bounds: [0, 255]", "step: 1"), "", "     "))
	w.line("\ncost: {norm: l1, weights: inverse_std} # a change by std of one pixel costs 1")
	head := &yamlWriter{}
	head.comment("", "A draft from %s. Which pixels can change, how far, and at what cost is for you to say: "+
		"sparsity.max_features bounds how many.", message.Legible(o.File))
	if w.questions > 0 {
		head.comment("", "Open: %s, each a comment with the word QUESTION. Answer it in the file, then remove the comment; "+
			"`cfq task check` refuses the file until then.", message.Count(w.questions, "question"))
	}
	head.line("version: 1\n")
	text := append(head.Bytes(), w.Bytes()...)
	out := &Draft{Text: text, Notes: o.Notes, Questions: Questions(text)}
	var err error
	if out.Task, err = task.Parse("the draft", text); err != nil {
		return nil, fmt.Errorf("the draft is not a task file that can be read, which is a mistake of this program: %w", err)
	}
	return out, nil
}

func (p *Images) writeData(w *yamlWriter, o Drawn) {
	d := &p.file.Data
	w.line("data:")
	w.line("  missing: [] # besides the empty field")
	if d.Delimiter != 0 {
		w.line("  delimiter: %s", scalar(string(d.Delimiter)))
	}
	if d.Trim {
		w.line("  trim: true")
	}
	if d.Comment != 0 {
		w.line("  comment: %s", scalar(string(d.Comment)))
	}
	switch {
	case o.Label == "":
		w.question("  ",
			"which column is the outcome (label: NAME), and which of its values do people want (favourable: VALUE)?")
	case o.Favourable == "":
		w.question("  ", "which value of the outcome do people want? Without it no outcome is known.")
		w.line("  # label: %s\n  # favourable: ", scalar(o.Label))
	default:
		w.line("  label: %s\n  favourable: %s", scalar(o.Label), scalar(o.Favourable))
	}
	if d.Columns != nil {
		w.line("%s", wrap("  columns: [", texts(d.Columns), "]", "            "))
	}
	w.line("")
}

// Classes returns the class of each label of a model of so many classes whose labels it has itself, or which number its
// classes from 0, or, with sorted set, as many as classes that stand in the order of the alphabet. -1: not known.
func Classes(labels []string, classes int, own []string) (index map[string]int, sorted bool) {
	index = map[string]int{}
	distinct := slices.Sorted(slices.Values(labels))
	distinct = slices.DeleteFunc(slices.Compact(distinct), func(l string) bool { return l == "" })
	known := func(of func(label string) int) bool {
		clear(index)
		for _, l := range distinct {
			if index[l] = of(l); index[l] < 0 {
				return false
			}
		}
		return len(distinct) > 0
	}
	number := func(l string) int {
		if k, err := strconv.Atoi(l); err == nil && k >= 0 && k < classes {
			return k
		}
		return -1
	}
	switch {
	case known(func(l string) int { return task.Find(own, l) }), known(number):
		return index, false
	case len(distinct) == classes:
		known(func(l string) int { return slices.Index(distinct, l) })
		return index, true
	}
	return nil, false
}
