package draft

import (
	"bytes"
	"strings"
	"testing"

	"cfq/task"
)

// Any bytes are read or refused, and a draft made of them is a task file.
func FuzzFromData(f *testing.F) {
	f.Add([]byte("a,b,label\n1,x,good\n2,y,bad\n3,x,good\n"))
	f.Add([]byte("# c\n\"a;\";b\n1;?\n2; z\n"))
	f.Add([]byte("|x\n 1, 2\n 3, 4\n"))
	f.Add([]byte("h_a,h_b,d\n0,1,y\n1,0,n\n1,0,y\n0,1,n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := readFrom(t.Context(), bytes.NewReader(data), nil, task.ReadOptions{})
		if err != nil {
			return
		}
		if _, err := fromTable(table, Options{File: "data.csv"}); err != nil && strings.Contains(err.Error(),
			"mistake of this program") {
			t.Fatal(err)
		}
	})
}

// Any task file that package task reads can be filled in, or is refused; what is filled in is still a task file with
// the same comments.
func FuzzFill(f *testing.F) {
	for _, text := range []string{
		"version: 1\nfeatures:\n  - {name: age, kind: numeric}\n",
		"version: 1\nfeatures:\n- name: home\n  kind: onehot\n  values: [rent, own]\n",
		`{"version": 1, "features": [{"kind": "binary", "name": "smokes", "one": "yes"}]}`,
		"version: 1\r\n# c\r\nfeatures:\r\n- name: age\r\n  # d\r\n  kind: numeric\r\n",
		"version: 1\nfeatures:\n  - ? kind\n    : numeric\n    name: age\n",
	} {
		f.Add([]byte(text))
	}
	data := write(f, "data.csv", gapped())
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Fill(t.Context(), "task.yaml", text, data, task.ReadOptions{}, nil)
		if err != nil {
			return
		}
		if comments(p.Text) != comments(text) {
			t.Fatalf("%q became %q", text, p.Text)
		}
	})
}

// Any bytes are an encoding, or refused.
func FuzzEncoding(f *testing.F) {
	f.Add([]byte(people))
	f.Add([]byte(`{"features": [{"column": "a", "kind": "numeric"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := parseEncoding(text); err == nil && len(e.inputs) == 0 {
			t.Error("an encoding without inputs")
		}
	})
}
