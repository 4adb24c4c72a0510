package command

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort/orttest"
)

// Whoever has the models and the report by person can count the broken promises again, both ways, without cfq.
func TestPointsCanBeAudited(t *testing.T) {
	w := reports(t)
	var report struct {
		Result struct {
			Margins []struct{ VD, RVD eval.Rate } `json:"margins"`
		} `json:"result"`
	}
	must.Do(t, json.Unmarshal([]byte(w.read("eval.json")), &report))
	lines := must.Get(csv.NewReader(strings.NewReader(w.read("eval.csv"))).ReadAll())(t)
	typed := typedLines(t, w.path("eval.parquet"))
	for name, lines := range map[string][][]string{"csv": lines, "parquet": typed} {
		t.Run(name, func(t *testing.T) { audit(t, w.dir, lines, report.Result.Margins[0].VD, report.Result.Margins[0].RVD) })
	}
}

func typedLines(t *testing.T, path string) (lines [][]string) {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	file := must.Get(parquet.OpenFile(f, must.Get(f.Stat())(t).Size()))(t)
	var head []string
	for _, path := range file.Schema().Columns() {
		head = append(head, path[0])
	}
	lines = [][]string{head}
	for _, group := range file.RowGroups() {
		rows := group.Rows()
		batch := make([]parquet.Row, group.NumRows())
		if n, err := rows.ReadRows(batch); n < len(batch) {
			t.Fatal(n, err)
		}
		for _, row := range batch {
			line := make([]string, len(head))
			for column, values := range row.Range {
				for _, v := range values {
					if !v.IsNull() {
						line[column] = strings.TrimSpace(line[column] + " " + v.String())
					}
				}
			}
			lines = append(lines, line)
		}
		must.Do(t, rows.Close())
	}
	return lines
}

func changed(t *testing.T, text string, others []float32) []float32 {
	t.Helper()
	words := strings.Fields(text)
	n := must.Get(strconv.Atoi(words[0]))(t)
	x := make([]float32, n)
	copy(x, others)
	for _, word := range words[1:] {
		at, number, _ := strings.Cut(word, ":")
		i, err := strconv.Atoi(at)
		v, err2 := strconv.ParseFloat(number, 32)
		must.Do(t, errors.Join(err, err2))
		x[i] = float32(v)
	}
	return x
}

func audit(t *testing.T, dir string, lines [][]string, vd, rvd eval.Rate) {
	t.Helper()
	refused := func(model, status, column, own string) (num, den int) {
		g := must.Get(codec.ReadFile(filepath.Join(dir, model)))(t)
		loaded := must.Get(onnxio.FromGraph(t.Context(), g, orttest.Need(t)))(t)
		m := must.Get(classifier.New(loaded, classifier.Options{}))(t)
		defer m.Close()
		inputs := slices.Index(lines[0], "inputs")
		at, of, factual := slices.Index(lines[0], column), slices.Index(lines[0], status), slices.Index(lines[0], own)
		var x []float32
		for _, line := range lines[1:] {
			if v, err := strconv.ParseFloat(line[factual], 64); err != nil || v > 0 || line[of] != "found" {
				continue // the model whose promise it would be approves the person as they are
			}
			x = append(x, changed(t, line[at], changed(t, line[inputs], nil))...)
			den++
		}
		margins := must.Get(m.Margins(t.Context(), x))(t)
		must.Same(t, den, len(margins))
		for _, v := range margins {
			if !(v > 0) {
				num++
			}
		}
		return num, den
	}
	num, den := refused("bad.onnx", "status@0.1", "point@0.1", "margin_full")
	if num != vd.Num || den != vd.Den || num == 0 {
		t.Errorf("%d of %d promises break, the report says %+v", num, den, vd)
	}
	num, den = refused("model.onnx", "quant_status@0.1", "quant_point@0.1", "margin_quant")
	if num != rvd.Num || den != rvd.Den {
		t.Errorf("%d of %d promises of the quantized model break, the report says %+v", num, den, rvd)
	}
}
