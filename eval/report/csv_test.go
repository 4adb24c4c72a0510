package report

import (
	"bytes"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"testing"
)

func TestCSV(t *testing.T) {
	d := complete()
	var b bytes.Buffer
	if err := CSV(&b, d); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\r\n"); n != len(d.Result.Records)+1 {
		t.Errorf("%d line ends of RFC 4180", n)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for j, name := range lines[0] {
		if _, twice := column[name]; twice {
			t.Errorf("two columns %s", name)
		}
		column[name] = j
	}
	at := func(i int, name string) string {
		j, ok := column[name]
		if !ok {
			t.Fatalf("no column %s", name)
		}
		return lines[i+1][j]
	}
	var evaluated, brokenThere, promised int
	for i := range d.Result.Records {
		r := &d.Result.Records[i]
		if at(i, "row") != strconv.Itoa(r.Row) || at(i, "line") != strconv.Itoa(r.Line) {
			t.Fatalf("line %d is %v", i, lines[i+1][:4])
		}
		if at(i, "evaluated") == "true" {
			evaluated++
			if v, err := strconv.ParseFloat(at(i, "certified_lower@0.25"), 64); err != nil ||
				v != float64(r.Steps[2].Proof.Lower) {
				t.Errorf("line %d: %v %v", i, v, err)
			}
		} else if at(i, "status@0.1")+at(i, "own@0.1")+at(i, "quant_broken@0.5")+at(i, "first_status") != "" {
			t.Errorf("line %d has a promise and nobody was asked", i)
		}
		switch at(i, "broken@0.1") {
		case "true":
			brokenThere++
			promised++
		case "false":
			promised++
		}
	}
	if a := d.Result.Margins[1]; evaluated != d.Result.Population.Evaluated || brokenThere != a.VD.Num ||
		promised != a.VD.Den {
		t.Errorf("%d evaluated, %d of %d broken, want %d, %d of %d", evaluated, brokenThere, promised,
			d.Result.Population.Evaluated, a.VD.Num, a.VD.Den)
	}
}

// Without the mirrored side, its columns are empty and not zeros.
func TestCSVOneSided(t *testing.T) {
	var b bytes.Buffer
	if err := CSV(&b, oneSided()); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for j, name := range lines[0] {
		for _, l := range lines[1:] {
			if (strings.HasPrefix(name, "quant_") || strings.HasPrefix(name, "first_")) && l[j] != "" {
				t.Fatalf("%s is %q", name, l[j])
			}
		}
	}
}

func TestCSVNeedsRecords(t *testing.T) {
	d := complete()
	d.Result.Records = nil
	if err := CSV(io.Discard, d); err == nil || !strings.Contains(err.Error(), "records") {
		t.Errorf("%v", err)
	}
}
