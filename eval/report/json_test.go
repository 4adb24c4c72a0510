package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cfq/eval"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cfq/eval/gate"
	"cfq/internal/must"
)

func TestReadJSON(t *testing.T) {
	for name, d := range samples() {
		data := shown(t, Views(), "json", d)
		back := must.Get(ReadJSON([]byte(data)))(must.In(t, name))
		floats := cmp.Comparer(func(a, b eval.Float) bool { return a == b || !a.Defined() && !b.Defined() })
		must.Same(t, d, back, floats, cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(eval.Result{}, "Records"), cmpopts.IgnoreFields(eval.AtMargin{}, "Steps"))
		must.Same(must.In(t, name), data, shown(t, Views(), "json", back))
	}
}

func TestReadJSONRefuses(t *testing.T) {
	good := shown(t, Views(), "json", complete())
	for _, c := range []struct{ old, with, want string }{
		{good, "", "invalid JSON report"},
		{good, `{}`, `unsupported schema ""`},
		{good, `{"schema": "cfq.eval/1"}`, `want "cfq.eval/2"`},
		{good, `{"schema": "cfq.eval/2"}`, "missing result"},
		{good, good + "x", "invalid JSON report"},
		{`"confidence": 0.95,`, `"confidence": 95,`, "want more than 0 and less than 1"},
		{`"rows": 1200`, `"rows": "many"`, "rows"},
		{good, `{"schema": "cfq.eval/2", "result": {}}`, "required margins"},
	} {
		must.Fail(t, must.Err(ReadJSON([]byte(strings.Replace(good, c.old, c.with, 1)))), c.want)
	}
	var tree map[string]any
	must.Do(t, json.Unmarshal([]byte(good), &tree))
	result := tree["result"].(map[string]any)
	result["margins"] = slices.Clone(result["margins"].([]any))[:1]
	short := must.Get(json.Marshal(tree))(t)
	must.Fail(t, must.Err(ReadJSON(short)), "4 required margins in the settings and 1 results")
}

// Whatever is read can be shown. The seeds are short: the fuzzer tries to remove every part of an input that reaches
// something new, which takes minutes for a whole report.
func FuzzReadJSON(f *testing.F) {
	const shortest = `"result":{"settings":{"margins":[0],"confidence":0.9},"population":{"evaluated":1},` +
		`"margins":[{"vd":{"num":1,"den":2}}]`
	add := func(seed string) {
		must.Get(ReadJSON([]byte(seed)))(f)
		f.Add([]byte(seed))
	}
	for _, part := range []string{
		``,
		`"title":"a","gate":{"verdict":"FAIL","findings":[{"check":"vd","n":9}]},`,
		`"layers":[{"node":"a","bits":4,"damage":1}],"recipe":{"a":"b"},`,
		`"broken":[{"action":["a"],"repair":"b"}],`,
	} {
		add(`{"schema":"cfq.eval/2",` + part + shortest + `}}`)
	}
	for _, part := range []string{
		`,"groups":[{"by":"a","groups":[{"name":"b",` + shortest + `}}],"gaps":[{"metric":"vd","worst":"b"}]}]`,
		`,"scenarios":[{"name":"a",` + shortest + `}}]`,
		`,"footprint":{"full":{"bytes":9}},"timing":{"one":{}},"tau01":{"value":1,"n":200}`,
	} {
		add(`{"schema":"cfq.eval/2",` + shortest + part + `}}`)
	}
	g, now := &gate.Gate{Checks: []gate.Check{must.Get(gate.ParseCheck("increase(vd)<=0.1"))(f)}}, complete().Result
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ReadJSON(data)
		if err != nil {
			return
		}
		gate.Judge(g, now, d.Result)
	})
}
