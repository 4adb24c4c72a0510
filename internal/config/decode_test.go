package config

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
)

type pet struct {
	name string
	legs string
	toys []string
}

func (p *pet) keys(d *Decoder) []Key {
	toy := func(_ int, n ast.Node) {
		s, _ := d.ReadText(n)
		p.toys = append(p.toys, s)
	}
	toys := Value{Read: func(n ast.Node) { d.List(n, "toys", toy) }, Form: ListOf(Type("number"))}
	return []Key{
		{Name: "name", Value: d.Text(&p.name), Fallback: Required, Doc: "what it is called, see below"},
		{Name: "legs", Value: d.Text(&p.legs).With("minLength", 1), Fallback: "`four`", Doc: "how many"},
		{Name: "toys", Value: toys, Fallback: "none", Doc: "`toys`"},
	}
}

func read(text string) (pet, Mapping, error) {
	d := &Decoder{File: "rex.yaml", Kind: "pet file"}
	var p pet
	var m Mapping
	if root := d.Document([]byte(text), "a name"); root != nil {
		m = d.Mapping(root, "a pet", p.keys(d))
	}
	return p, m, d.Err()
}

func TestRead(t *testing.T) {
	want := pet{"Rex", "0x4", []string{"ball", "1e3"}}
	for _, text := range []string{
		"name: Rex\nlegs: 0x4\ntoys: [ball, 1e3]\n",
		"\xef\xbb\xbf---\nname: Rex\nlegs: 0x4\ntoys:\n- ball\n- 1e3\n",
		"{\"name\": \"Rex\",\t\"legs\": \"0x4\", \"toys\": [\"ball\", \"1e3\"]}",
	} {
		got, m, err := read(text)
		must.Do(must.In(t, text), err)
		must.Same(must.In(t, text), want, got, cmp.AllowUnexported(pet{}))
		if !m.Has("legs") || m.Has("age") || len(m.Bad) != 0 || m.Place("age") != m.Node {
			t.Errorf("%q: %+v", text, m)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // one line for each mistake
		bad  []string
	}{
		{"nam: Rex\ntoys: ball\nname: [a]\n", `rex.yaml:1:1: a pet has no key "nam"; did you mean "name"?
rex.yaml:2:7: toys must be a list, not "ball"
rex.yaml:3:7: this must be a text, not a list`, []string{"", "toys", "name"}},
		{"Rex", `rex.yaml:1:1: a pet must be a mapping of keys to values, not "Rex"`, []string{"", "name", "legs", "toys"}},
		{
			"name: *x\n", "rex.yaml:1:7: this must be a text, not an anchor or alias, which pet files do not have",
			[]string{"name"},
		},
		{"name: !!str x\n", "rex.yaml:1:7: this must be a text, not a tag, which pet files do not have", []string{"name"}},
		{"name:\n", "rex.yaml:1:7: this must be a text, not nothing", []string{"name"}},
		{"name: a\nname: b\n", `rex.yaml:2:1: mapping key "name" already defined at [1:1]`, nil}, // by the parser
		{"name: a\n\"name\": b\n", `rex.yaml:2:1: mapping key "name" already defined at [1:1]`, nil},
		{"{name: a, 'name': b}\n", `rex.yaml:1:11: mapping key "name" already defined at [1:2]`, nil},
		{"# nothing\n", "rex.yaml: the pet file is empty; it needs a name", nil},
		{ // a mapping is where its colon is
			"name: a\n---\nname: b\n", "rex.yaml:3:5: a pet file holds one document; remove what follows the second ---", nil,
		},
		{"\xff", "rex.yaml: not UTF-8 text", nil},
		{strings.Repeat("[", maxDepth+1), "rex.yaml:1:1: nested too deep; is this a pet file?", nil},
		{strings.Repeat("#", maxFile+1), "rex.yaml: larger than 1 MiB; is this a pet file?", nil},
	} {
		_, m, err := read(c.text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		head := c.text[:min(len(c.text), 40)]
		must.Same(must.In(t, head), c.want, got)
		for _, key := range c.bad {
			if !m.Bad[key] {
				t.Errorf("%q: the key %q is not bad", head, key)
			}
		}
	}
}

func TestObject(t *testing.T) {
	scalar := []string{"string", "number", "boolean"}
	want := Schema{
		"type": "object", "additionalProperties": false, "required": []string{"name"},
		"properties": Schema{
			"name": Schema{"type": scalar, "description": "what it is called"},
			"legs": Schema{"type": scalar, "minLength": 1, "default": "four", "description": "how many"},
			"toys": Schema{"type": "array", "items": Schema{"type": "number"}, "description": "toys"},
		},
	}
	must.Same(t, want, Object((&pet{}).keys(&Decoder{})))
}

func TestLoad(t *testing.T) {
	_, err := Load("pet file", filepath.Join(t.TempDir(), "rex"), func(string, []byte) (pet, error) { return pet{}, nil })
	if err == nil || !strings.HasPrefix(err.Error(), "pet file: open ") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestMembers(t *testing.T) {
	d := &Decoder{}
	zero, none, text, off := 0.0, math.Inf(1), "<a>", false
	keys := Members{
		{Name: "text", Value: d.Text(&text)},
		{Name: "off", Value: d.Flag(&off)},
		{Name: "none", Value: d.Number(&none), Keep: true},
		{Name: "zero", Value: d.Number(&zero), Keep: true},
		{Name: "omitted", Value: d.Text(&text), Omit: true},
		{Name: "list", Value: d.Texts(&[]string{})},
	}
	if got, want := string(JSON(keys)), "{\n \"text\": \"<a>\",\n \"zero\": 0\n}\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
