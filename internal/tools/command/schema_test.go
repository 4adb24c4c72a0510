package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"cfq/internal/must"
)

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(root, "docs", name)))(t)
	c := jsonschema.NewCompiler()
	must.Do(t, c.AddResource(name, decoded(t, data)))
	return must.Get(c.Compile(name))(t) // checks the schema against the draft that it names, too
}

func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	text := must.Get(yaml.YAMLToJSON(data))(t)
	return s.Validate(decoded(t, text))
}

func TestReportsKeepToTheirSchemas(t *testing.T) {
	w := reports(t)
	dir := w.dir
	w.put("some.csv", firstLoans(t, "test.csv", 60))
	w.call(0, "recourse", "model.onnx", "-d", "some.csv", "-t", "task.yaml", "-q", "-o", "promises.csv")
	w.call(0, "eval", "model.onnx", "good.onnx", "-d", "some.csv", "-t", "task.yaml", "-q", "--promises", "promises.csv",
		"--report", "json:issued.json")
	w.call(0, "gate", "model.onnx", "good.onnx", "-d", "test.csv", "-t", "task.yaml", "-q", "--sample", "20",
		"--one-sided", "--max-vd", "0.2", "--report", "json:onesided.json")
	report, compare := schema(t, "report.schema.json"), schema(t, "compare.schema.json")
	good := must.Get(os.ReadFile(filepath.Join(dir, "gate.json")))(t)
	for _, name := range []string{"eval", "gate", "issued", "onesided"} {
		must.Do(must.In(t, name), report.Validate(decoded(t, must.Get(os.ReadFile(filepath.Join(dir, name+".json")))(t))))
	}
	must.Do(t, compare.Validate(decoded(t, must.Get(os.ReadFile(filepath.Join(dir, "compare.json")))(t))))
	// The golden reports: of few people, and of none.
	files, err := filepath.Glob(filepath.Join(root, "eval", "report", "testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden reports: %v", err)
	}
	checked := 0
	for _, file := range files {
		ar := must.Get(txtar.ParseFile(file))(t)
		for _, part := range ar.Files {
			if part.Name != "json" {
				continue
			}
			checked++
			must.Do(must.In(t, file), report.Validate(decoded(t, part.Data)))
		}
	}
	if checked < 2 {
		t.Errorf("only %d golden reports are JSON", checked)
	}
	// A schema that accepts everything is worth nothing.
	for _, c := range []struct{ old, with string }{
		{`"schema": "cfq.`, `"schema": "x.`},
		{`"findings": [`, `"finds": [`},
		{`"num": `, `"num": "12", "n": `},
		{`"margins": [`, `"margins": null, "m": [`},
	} {
		bad := strings.Replace(string(good), c.old, c.with, 1)
		if bad == string(good) {
			t.Errorf("%s does not occur in the report", c.old)
		}
		if report.Validate(decoded(t, []byte(bad))) == nil {
			t.Errorf("%s is accepted", c.with)
		}
	}
}

func decoded(t *testing.T, data []byte) any {
	t.Helper()
	return must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(data)))(t)
}

// Task and gate files: the decoder and the schema accept and refuse the same ones. The decoders' own tests read
// the same lists.
func TestFilesKeepToTheirSchemas(t *testing.T) {
	for _, c := range []struct{ schema, list, accepted string }{
		{"task.schema.json", "task/testdata/schema.txtar", "reproduce/testdata/tasks/*.yaml testdata/loans/task.yaml"},
		{"gate.schema.json", "eval/gate/testdata/schema.txtar", "examples/*/gate.yaml"},
	} {
		s := schema(t, c.schema)
		for _, pattern := range strings.Fields(c.accepted) {
			files, err := filepath.Glob(filepath.Join(root, pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: no files (%v)", pattern, err)
			}
			for _, f := range files {
				if err := validate(t, s, must.Get(os.ReadFile(f))(t)); err != nil {
					t.Errorf("%s: %v", f, err)
				}
			}
		}
		ar := must.Get(txtar.ParseFile(filepath.Join(root, c.list)))(t)
		for _, f := range ar.Files {
			err := validate(t, s, f.Data)
			if good := strings.HasPrefix(f.Name, "good"); good != (err == nil) {
				t.Errorf("%s: %s: accepted: %v\n%s%v", c.list, f.Name, err == nil, f.Data, err)
			}
		}
	}
}
