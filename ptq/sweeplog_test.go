package ptq

import (
	"encoding/json"
	"testing"
)

// Whatever is in the file, reading it ends in points of whole lines or in an error, and what was
// read can be read again.
func FuzzSweepLog(f *testing.F) {
	in := SweepInputs{Program: "p", Options: "o"}
	head, err := json.Marshal(in)
	if err != nil {
		f.Fatal(err)
	}
	for _, rest := range []string{
		"", "\n", "\n{",
		"\n{\"method\":\"ptq\",\"budget\":4,\"measured\":{\"margins\":[{\"margin\":0.1}]}}\n{\"met", "\n{}\n", "\n\n",
	} {
		f.Add([]byte(string(head) + rest))
	}
	f.Add([]byte("{\n"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		points, size, err := parseSweepLog(b, in)
		if err != nil {
			return
		}
		if size > len(b) || size > 0 && b[size-1] != '\n' {
			t.Fatalf("%d of %d bytes are whole lines", size, len(b))
		}
		again, same, err := parseSweepLog(b[:size], in)
		if err != nil || same != size || len(again) != len(points) {
			t.Fatalf("read again: %d points of %d, %v", len(again), len(points), err)
		}
		for i := range points {
			if points[i].Method == "" {
				t.Fatal("a point without a method")
			}
		}
	})
}
