package task

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

const grouped = `version: 1
data: {label: y, favourable: "1", missing: "?", subgroups: [town], filter: [{column: age, max: 90}]}
features:
  - {name: age, kind: numeric}
  - {name: color, kind: onehot, values: [red, blue], subgroup: true}`

func TestStreamIsRead(t *testing.T) {
	task := parse(t, grouped)
	path := filepath.Join(t.TempDir(), "people.csv")
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{
			"30,red,Rome,1,a",
			"40,blue,Oslo,0,b",
			"40,?,?,?,c",
			"95,red,Rome,0,d",
			"old,red,Rome,1,e",
			"50,green,Bonn,1,f",
			"50,red",
			"7,blue,Bonn,2,g",
		})).Draw(rt, "lines")
		o := ReadOptions{Keep: []string{"note", "none"}}
		if n := rapid.IntRange(0, 5).Draw(rt, "rows"); n > 0 {
			o.Only = AllRows(n)
		}
		o.Hash = rapid.Bool().Draw(rt, "hash")
		if rapid.Bool().Draw(rt, "except") {
			o.Except = []int{0, 2}
		}
		must.Do(rt, os.WriteFile(path, []byte("age,color,town,y,note\n"+strings.Join(lines, "\n")), 0o600))
		size := rapid.IntRange(1, 4).Draw(rt, "size")
		want, wantErr := Read(t.Context(), path, task, o)
		got := &People{}
		codes := make([][]string, 2)
		total, err := Stream(t.Context(), path, task, o, size, func(p *People) error {
			if p.N > size || p.N < 1 || (got.N%size != 0) || len(p.Subgroups) != 2 {
				rt.Errorf("a batch of %d people behind %d others", p.N, got.N)
			}
			appendPeople(got, p)
			for i := range p.Subgroups {
				codes[i] = append(codes[i], groupTexts(&p.Subgroups[i])...)
			}
			return nil
		})
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			rt.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		for i := range want.Subgroups {
			must.Same(rt, groupTexts(&want.Subgroups[i]), codes[i])
		}
		got.Dim, got.Problems, got.Notes, got.Warnings = total.Dim, total.Problems, total.Notes, total.Warnings
		got.Failed, got.Filtered, got.Excluded, got.Total = total.Failed, total.Filtered, total.Excluded, total.Total
		if total.N != want.N || total.X != nil || total.Lines != nil || total.Subgroups != nil {
			rt.Errorf("the result holds people: %+v", total)
		}
		for i := range got.Subgroups {
			must.Same(rt, codes[i], groupTexts(&got.Subgroups[i]))
		}
		want.Subgroups, want.Hashes, got.Subgroups = nil, nil, nil
		if n := len(want.Notes); n > 0 && strings.HasPrefix(want.Notes[n-1], "rows are compared") {
			want.Notes = slices.Concat(want.Notes[:n-1]) // which a stream does not know; nil without others
		}
		must.Same(rt, want, got)
	})
}

func groupTexts(s *Subgroup) (out []string) {
	for _, c := range s.Codes {
		text := "-"
		if c >= 0 {
			text = s.Values[c]
		}
		out = append(out, s.Feature+"="+text)
	}
	return out
}

func TestStreamStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "people.csv")
	must.Do(t, os.WriteFile(path, []byte("age,color,town,y\n"+strings.Repeat("30,red,Rome,1\n", 5000)), 0o600))
	task, boom, calls := parse(t, grouped), errors.New("boom"), 0
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Stream(ctx, path, task, ReadOptions{}, 10, func(*People) error { calls++; return boom })
	if err != boom || calls != 1 { //nolint:errorlint // as it is
		t.Errorf("%v after %d calls", err, calls)
	}
	calls = 0
	_, err = Stream(ctx, path, task, ReadOptions{}, 10, func(*People) error { calls++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || calls > 200 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestStreamWithoutHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "people.csv")
	must.Do(t, os.WriteFile(path, []byte(strings.Repeat("30,red,Rome,1\n", 5)), 0o600))
	task := parse(t, strings.Replace(grouped, "data: {", "data: {columns: [age, color, town, y], ", 1))
	var sizes []int
	must.Get(Stream(t.Context(), path, task, ReadOptions{}, 1, func(p *People) error {
		sizes = append(sizes, p.N)
		return nil
	}))(t)
	must.Same(t, []int{1, 1, 1, 1, 1}, sizes)
}

func TestHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.csv")
	must.Do(t, os.WriteFile(path, []byte("\xef\xbb\xbf row ,\"a;b\",c\n1,2,3\n"), 0o600))
	names := must.Get((&Data{Delimiter: ','}).Header(path))(t)
	must.Same(t, []string{"row", "a;b", "c"}, names)
	must.Fail(t, must.Err((&Data{Delimiter: ','}).Header(path+"x")), "")
}

// appendPeople adds the people of the next batch of a stream.
func appendPeople(p, q *People) {
	p.Dim, p.NoLines, p.OtherColumns, p.N = q.Dim, q.NoLines, q.OtherColumns, p.N+q.N
	p.X, p.Labels, p.Lines = append(p.X, q.X...), append(p.Labels, q.Labels...), append(p.Lines, q.Lines...)
	p.Rows, p.Kept, p.IDs = append(p.Rows, q.Rows...), append(p.Kept, q.Kept...), append(p.IDs, q.IDs...)
	p.Content, p.Others = append(p.Content, q.Content...), append(p.Others, q.Others...)
	p.Hashes, p.Imputed = append(p.Hashes, q.Hashes...), append(p.Imputed, q.Imputed...)
	for i, s := range q.Subgroups {
		if i == len(p.Subgroups) {
			p.Subgroups = append(p.Subgroups, Subgroup{Feature: s.Feature})
		}
		all := &p.Subgroups[i]
		all.Values, all.Codes = s.Values, append(all.Codes, s.Codes...) // values are only ever added
	}
}
