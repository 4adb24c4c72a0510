package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"cfq/onnxio"
	"cfq/task"
	"cfq/task/draft"
)

// sizes are those of the model's input behind the batch; none without a model.
func sizes(m *onnxio.Model) (all []int) {
	if m == nil {
		return nil
	}
	for _, d := range m.Input().Shape[1:] {
		all = append(all, int(d.Size))
	}
	return all
}

// maxSample bounds the rows that tell how a model takes numbers or pixels.
const maxSample = 2000

// images drafts a task for a model of images. Which scaling it takes its graph does not say: the one counts with which
// it decides most rows as labelled, and where labels do not tell, it is asked.
func (f *taskFlags) images(ctx context.Context, e *env, model string, m *onnxio.Model, p *draft.Images,
	rows task.ReadOptions,
) (_ *draft.Draft, err error) {
	o := draft.Drawn{
		Label: p.Label(f.label), Favourable: f.favourable, Index: -1, File: filepath.Base(f.data),
		Scaling: draft.Scaling{Mean: []float64{0}, Std: []float64{1}},
	}
	plain, err := p.Draft(o)
	if err != nil {
		return nil, err
	}
	rows.Most, rows.Seed, rows.Keep = maxSample, 1, []string{o.Label}
	people, err := task.Read(ctx, f.data, plain.Task, rows)
	if err != nil {
		return nil, err
	}
	labels := make([]string, people.N)
	for i := range labels {
		labels[i] = people.Kept[i][0]
	}
	if o.Favourable != "" && o.Label != "" && task.Find(labels, o.Favourable) < 0 {
		return nil, fmt.Errorf("column %s has no value %q in %d rows", o.Label, o.Favourable, people.N)
	}
	if m == nil {
		o.Index, o.Scaling.Std = 1, []float64{255}
		o.Notes = append(o.Notes, "there is no model: one of `cfq train` takes pixels between 0 and 1, and its favourable "+
			"class has the index 1")
		return p.Draft(o)
	}
	classes, sorted := draft.Classes(labels, m.Classes(), m.Labels())
	if k, ok := classes[o.Favourable]; ok {
		o.Index = k
		if !sorted {
			o.Notes = append(o.Notes, fmt.Sprintf("the class index of the label %s is %d", o.Favourable, k))
		}
	}
	c, err := openClassifier(e, model, m, plain.Task)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	all := p.Scalings(people.X)
	right := make([][]bool, len(all))
	for i, s := range all {
		z, k, err := c.Logits(ctx, p.Apply(s, people.X))
		if err != nil {
			return nil, runError(err)
		}
		right[i] = decided(z, k, labels, classes)
	}
	chooseScaling(&o, all, right)
	if sorted {
		o.Asked = append(o.Asked, "are the model's classes in the order of the labels in the alphabet?")
	}
	return p.Draft(o)
}

// decided says which rows a model decides as labelled, with k logits a row.
func decided(z []float32, k int, labels []string, classes map[string]int) []bool {
	right := make([]bool, len(labels))
	for i, l := range labels {
		row := z[i*k:][:k]
		class := slices.Index(row, slices.Max(row))
		if k == 1 && row[0] > 0 {
			class = 1
		}
		want, known := classes[l]
		right[i] = known && want == class
	}
	return right
}

// chooseScaling takes the scaling with which most rows are decided as labelled. It is asked where another may be
// as good: where the rows that only one of the two decides right are divided as chance might, by three standard
// deviations.
func chooseScaling(o *draft.Drawn, all []draft.Scaling, right [][]bool) {
	count := func(of []bool) (n int) {
		for _, r := range of {
			if r {
				n++
			}
		}
		return n
	}
	order := []int{0, 1, 2, 3}
	slices.SortStableFunc(order, func(a, b int) int { return count(right[b]) - count(right[a]) })
	best, second := order[0], order[1]
	only, other := 0, 0
	for i := range right[best] {
		switch {
		case right[best][i] && !right[second][i]:
			only++
		case right[second][i] && !right[best][i]:
			other++
		}
	}
	o.Scaling = all[best]
	rows := max(len(right[best]), 1)
	said := fmt.Sprintf("it decides %.1f %% of %d rows as labelled so, and %.1f %% with pixels %s",
		100*float64(count(right[best]))/float64(rows), rows,
		100*float64(count(right[second]))/float64(rows), all[second].Name)
	told := float64(only-other) > 3*math.Sqrt(float64(only+other))
	switch {
	case told && o.Scaling.Name != "standardised":
		o.Notes = append(o.Notes, "the model takes pixels "+o.Scaling.Name+": "+said)
	case told:
		o.Asked = append(o.Asked, "the model seems to take pixels standardised: "+said+
			". Are mean and std those of the training?")
	case count(right[best]) == 0:
		o.Asked = append(o.Asked, "does the model take pixels between 0 and 1 (std 255), as here, as bytes (std 1), "+
			"between -1 and 1 (mean and std 127.5), or standardised? The labels do not tell.")
	default:
		o.Asked = append(o.Asked, "does the model take pixels "+o.Scaling.Name+", as here? The labels hardly tell: "+said+".")
	}
}
