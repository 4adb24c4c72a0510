package main

import "testing"

func TestErrorLines(t *testing.T) {
	for stderr, want := range map[string]string{
		"cfq: warning: w\ncfq: error: a:\ncfq: error:   b\ncfq: hint: h\n": "a:\n  b",
		"cfq: warning: w\nkilled\n":                                        "cfq: warning: w\nkilled",
		"":                                                                 "",
	} {
		if got := errorLines(stderr); got != want {
			t.Errorf("%q of %q, want %q", got, stderr, want)
		}
	}
}
