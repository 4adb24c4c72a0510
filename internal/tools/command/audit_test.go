package command

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort/orttest"
)

// Whoever has the models and the report by person can count the broken promises again, both ways, without cfq.
func TestPointsCanBeAudited(t *testing.T) {
	dir := reports(t)
	var report struct {
		Result struct {
			Margins []struct{ VD, RVD eval.Rate } `json:"margins"`
		} `json:"result"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "eval.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "eval.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	refused := func(model, status, column, own string) (num, den int) {
		g, err := codec.ReadFile(filepath.Join(dir, model))
		if err != nil {
			t.Fatal(err)
		}
		m, err := classifier.Open(t.Context(), g, orttest.Need(t), classifier.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		at, of, factual := slices.Index(lines[0], column), slices.Index(lines[0], status), slices.Index(lines[0], own)
		var x []float32
		for _, line := range lines[1:] {
			if v, err := strconv.ParseFloat(line[factual], 64); err != nil || v > 0 || line[of] != "found" {
				continue // the model whose promise it would be approves the person as they are
			}
			for cell := range strings.FieldsSeq(line[at]) {
				v, err := strconv.ParseFloat(cell, 32)
				if err != nil {
					t.Fatal(err)
				}
				x = append(x, float32(v))
			}
			den++
		}
		margins, err := m.Margins(t.Context(), x)
		if err != nil || len(margins) != den {
			t.Fatalf("%d margins of %d points, %v", len(margins), den, err)
		}
		for _, v := range margins {
			if !(v > 0) {
				num++
			}
		}
		return num, den
	}
	want := report.Result.Margins[0]
	num, den := refused("bad.onnx", "status@0.1", "point@0.1", "margin_full")
	if num != want.VD.Num || den != want.VD.Den || num == 0 {
		t.Errorf("%d of %d promises break, the report says %+v", num, den, want.VD)
	}
	num, den = refused("model.onnx", "quant_status@0.1", "quant_point@0.1", "margin_quant")
	if num != want.RVD.Num || den != want.RVD.Den {
		t.Errorf("%d of %d promises of the quantized model break, the report says %+v", num, den, want.RVD)
	}
}
