package main

import (
	"strings"
	"testing"
)

func TestShow(t *testing.T) {
	var out strings.Builder
	ok := show(
		strings.NewReader(
			`{"Action":"output","Package":"cfq/a","Test":"TestX","Output":"    x_test.go:7: no data (set IT): stat /x\n"}
{"Action":"skip","Package":"cfq/a","Test":"TestX"}
{"Action":"output","Package":"cfq/a","Test":"TestY","Output":"chatter\n"}
{"Action":"pass","Package":"cfq/a","Test":"TestY"}
{"Action":"output","Package":"cfq/a","Output":"PASS\n"}
{"Action":"output","Package":"cfq/a","Output":"ok  \tcfq/a\t0.1s\n"}
{"Action":"pass","Package":"cfq/a"}
`,
		),
		&out,
	)
	if want := "ok  \tcfq/a\t0.1s\n1 skipped, no data (set IT): a.TestX\n"; !ok || out.String() != want {
		t.Errorf("%t %q, want %q", ok, out.String(), want)
	}
	out.Reset()
	ok = show(strings.NewReader(`{"Action":"pass","Package":"cfq/b"}
{"Action":"output","Package":"cfq/a","Test":"TestY","Output":"it is wrong\n"}
{"Action":"fail","Package":"cfq/a","Test":"TestY"}
`), &out)
	if ok || out.String() != "it is wrong\n" {
		t.Errorf("a failure: %t %q", ok, out.String())
	}
	if show(strings.NewReader(""), &out) {
		t.Error("nothing tested is a success")
	}
}
