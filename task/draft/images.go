package draft

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/task"
)

type imageDraft struct {
	file   *task.ImageFile
	shape  []int
	layout string
	asked  []string // of shape, scaling and class

	label, favourable string
	index             int // of the favourable class, -1: not known
	notes             []string
}

// findImages looks for images at path, an IDX file or a folder, for a model whose input has these sizes after the
// batch; nil when there are none. Without a model sizes are nil: grey images have a shape all the same.
func findImages(path string, sizes []int) (*imageDraft, error) {
	p, numbers := &imageDraft{index: -1}, 1
	for _, n := range sizes {
		numbers *= n
	}
	var err error
	if p.file, err = task.FindImages(path); err != nil || p.file == nil {
		return nil, err
	}
	h, w := p.file.Rows, p.file.Columns
	if len(sizes) == 0 && !p.file.Grey {
		return nil, fmt.Errorf("data file %s holds images: name the model, whose input says their shape", path)
	} else if len(sizes) == 0 {
		sizes, numbers = []int{1, h, w}, h*w
	}
	if h == 0 && len(sizes) == 3 {
		p.shape, p.layout = sizes, "chw"
		if sizes[2] <= 4 && sizes[0] > 4 {
			p.layout = "hwc"
		}
		return p, nil
	}
	channels := numbers / max(h*w, 1)
	p.shape, p.layout = []int{channels, h, w}, "chw"
	last := []int{h, w, channels}
	switch {
	case channels < 1 || channels > 4 || channels*h*w != numbers || len(sizes) == 3 && !slices.Equal(sizes, p.shape) &&
		!slices.Equal(sizes, last):
		return nil, fmt.Errorf("data file %s: the images have %d x %d pixels (rows x columns), and the model takes %v: "+
			"bring them to its size first", path, h, w, sizes)
	case len(sizes) == 3 && !slices.Equal(sizes, p.shape):
		p.shape, p.layout = last, "hwc"
	case len(sizes) != 3 && channels > 1:
		p.asked = []string{"are the model's inputs channels, rows, columns (chw), or rows, columns, channels (hwc)?"}
	}
	return p, nil
}

func (p *imageDraft) draft(ctx context.Context, from Source, o Options, m *Model) (*Draft, error) {
	p.label, p.favourable = o.Label, o.Favourable
	if p.label == "" && len(p.file.Names) > 1 {
		p.label = p.file.Names[1]
	}
	plain, err := p.write(o.File)
	if err != nil {
		return nil, err
	}
	from.Rows.Most, from.Rows.Seed, from.Rows.Keep = maxSample, 1, []string{p.label}
	people, err := task.Read(ctx, from.Path, plain.Task, from.Rows)
	if err != nil {
		return nil, err
	}
	labels := lists.Map(people.Kept, func(kept []string) string { return kept[0] })
	if p.favourable != "" && p.label != "" && task.Find(labels, p.favourable) < 0 {
		return nil, fmt.Errorf("column %s has no value %q in %d rows", p.label, p.favourable, people.N)
	}
	if m == nil {
		p.index = 1
		p.notes = append(p.notes, "there is no model: one of `cfq train` takes pixels between 0 and 1, and its favourable "+
			"class has the index 1")
		return p.write(o.File)
	}
	index, sorted := classes(labels, m.Classes, m.Labels)
	if k, ok := index[p.favourable]; ok {
		p.index = k
		if !sorted {
			p.notes = append(p.notes, fmt.Sprintf("the class index of the label %s is %d", p.favourable, k))
		}
	}
	asked := []string{"does the model take pixels between 0 and 1 (std: 255), as here, as bytes (std: 1), " +
		"between -1 and 1 (mean and std: 127.5), or standardised? `cfq task check` compares them by the labels."}
	if sorted {
		asked = append(asked, "are the model's classes in the order of the labels in the alphabet?")
	}
	p.asked = append(asked, p.asked...)
	return p.write(o.File)
}

func (p *imageDraft) write(file string) (*Draft, error) {
	keys := []string{"name: " + scalar(p.file.Names[0]), "kind: image"}
	keys = append(keys, flow("shape", p.shape)...)
	if p.layout == "hwc" {
		keys = append(keys, "layout: hwc")
	}
	keys = append(keys, "mean: 0", "std: 255", "bounds: [0, 255]", "step: 1")
	out := &page{
		About: fmt.Sprintf("A draft from %s. Which pixels can change, how far, and at what cost is for you to say: "+
			"sparsity.max_features bounds how many.", message.Legible(file)),
		Data: task.Data{Label: p.label, Favourable: p.favourable}, Missing: true,
		Index: p.index, pageQuestions: pageQuestions{Asked: p.asked}, Image: true,
		Features: []pageFeature{{Keys: wrap("  - {", keys, "}", "     ")}},
	}
	return out.draft(p.notes)
}

// classes returns the class of each label of a model of n classes whose labels it has itself, or which number its
// classes from 0, or, with sorted set, as many as classes that stand in the order of the alphabet. -1: not known.
func classes(labels []string, n int, own []string) (index map[string]int, sorted bool) {
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
		if k, err := strconv.Atoi(l); err == nil && k >= 0 && k < n {
			return k
		}
		return -1
	}
	switch {
	case known(func(l string) int { return task.Find(own, l) }), known(number):
		return index, false
	case len(distinct) == n:
		known(func(l string) int { return slices.Index(distinct, l) })
		return index, true
	}
	return nil, false
}
