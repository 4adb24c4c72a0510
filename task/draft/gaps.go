package draft

import (
	"bytes"
	"encoding/json"
	"slices"

	"cfq/task"
)

// parseGaps parses a task file in which bounds may be percentiles of quantiles that it does not have yet: it is read with made-up ones then, and
// percentiles says which features have such bounds, so that they mean nothing.
func parseGaps(name string, text []byte) (t *task.Task, percentiles []bool, err error) {
	t, err = task.Parse(name, text)
	if err == nil {
		return t, make([]bool, len(t.Features)), nil
	}
	where, other := places(text)
	if other != nil {
		return nil, nil, err
	}
	made := func(quantiles string) (*task.Task, error) {
		var all []insertion
		for _, p := range where {
			if !slices.Contains(p.keys, "quantiles") && task.Kind(p.kind).IsNumber() {
				all = append(all, p.render([]entry{{"quantiles", quantiles}}, "\n", json.Valid(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))))
			}
		}
		return task.Parse(name, splice(text, all))
	}
	first, errFirst := made("[1, 2]")
	second, errSecond := made("[3, 4]")
	if errFirst != nil || errSecond != nil {
		return nil, nil, err // what was wrong with the file itself
	}
	percentiles = make([]bool, len(first.Features))
	for i := range first.Features {
		f := &first.Features[i]
		percentiles[i] = f.Bounds != second.Features[i].Bounds
		if !slices.Contains(where[i].keys, "quantiles") {
			f.Quantiles = nil
		}
	}
	return first, percentiles, nil
}
