package main

import (
	"context"
	"fmt"
	"path/filepath"

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

// images drafts a task for a model of images. Which scaling it takes its graph does not say, so it is asked.
func (f *taskFlags) images(ctx context.Context, m *onnxio.Model, p *draft.Images, rows task.ReadOptions) (
	*draft.Draft, error,
) {
	o := draft.Drawn{
		Label: p.Label(f.label), Favourable: f.favourable, Index: -1, File: filepath.Base(f.data),
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
		o.Index = 1
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
	o.Asked = append(o.Asked, "does the model take pixels between 0 and 1 (std: 255), as here, as bytes (std: 1), "+
		"between -1 and 1 (mean and std: 127.5), or standardised? `cfq task check` compares them by the labels.")
	if sorted {
		o.Asked = append(o.Asked, "are the model's classes in the order of the labels in the alphabet?")
	}
	return p.Draft(o)
}
