package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"cfq/calib/refine"
	"cfq/internal/must"
	"cfq/ptq"
	"cfq/quant/verify"
)

func example() *ptq.Result {
	return &ptq.Result{
		Allocation:        ptq.Allocation{Method: "cf-ptq", Budget: 4, Bits: 3.9982, Stored: 4.865},
		FileSize:          ptq.FileSize{Bytes: 8959, FloatBytes: 36131},
		CalibrationPoints: ptq.CalibrationPoints{People: 32561, Factual: 4096, Recourse: 3226, Reached: 3200},
		Improvements:      ptq.Improvements{Refined: &refine.Outcome{Before: 0.03761, After: 0.02322, Rounds: 2}},
		Layers: []ptq.Layer{
			{
				Node: "/0/Gemm", Params: 6656, Bits: 4.34375, Rows: map[int]int{2: 3, 3: 16, 4: 34, 8: 11}, Channels: 64,
				Score: 47.41,
			},
			{Node: "/2/Gemm", Params: 2048, Bits: 2.875, Rows: map[int]int{2: 10, 3: 16, 8: 6}, Channels: 32, Score: 24.5},
			{Node: "/4/Gemm", Params: 64, Float: `"/4/*" keeps it`},
			{Node: "/6/Gemm", Params: 64, Bits: 4, Channels: 2, Score: 5.9},
		},
		Verified: &verify.Report{
			Layers: []verify.Layer{
				{Node: "/0/Gemm", Kernel: "QGemm"}, {Node: "/2/Gemm", Kernel: "QGemm"}, {Node: "/6/Gemm", Kernel: "QGemm"},
			},
			Levels: verify.Levels{Rows: 512, Diff: 9.54e-7},
			Advice: []string{"saturation: 8-bit codes beyond +-64 can saturate on x64 CPUs without VNNI: results differ " +
				"between machines (/0/Gemm)"},
		},
	}
}

func text(t *testing.T, r *ptq.Result) string {
	t.Helper()
	var b bytes.Buffer
	newTextView(&b).page("quantized", struct {
		File string
		*ptq.Result
	}{"q.onnx", r})
	for _, line := range strings.Split(b.String(), "\n") {
		if len(line) > 100 || line != strings.TrimRight(line, " ") {
			t.Errorf("a line of %d columns: %q", len(line), line)
		}
	}
	return b.String()
}

func TestQuantizeText(t *testing.T) {
	const want = `q.onnx: cf-ptq, mean bit width 4.00 (budget 4) without the 64 of 8832 weights that stay in float
  8959 bytes (float 36131, 4.0x smaller); 4.87 stored bits per weight
  calibrated on 4096 of 32561 rows and 3226 teacher recourse points (3200 past the decision)
  refined in 2 rounds: margin error 0.0376 -> 0.0232 logits (rms at points held out)
  verified on 512 rows: optimizations change outputs by 9.5e-07 at most

                           rows of
  layer    weights   bits    2-bit  3-bit  4-bit  8-bit  scales  sensitivity  kernel
  /0/Gemm     6656   4.34        3     16     34     11      64         47.4  QGemm
  /2/Gemm     2048   2.88       10     16             6      32         24.5  QGemm
  /4/Gemm       64  float                                                     "/4/*" keeps it
  /6/Gemm       64      4                      2              2          5.9  QGemm

  note: saturation: 8-bit codes beyond +-64 can saturate on x64 CPUs without VNNI: results
    differ between machines (/0/Gemm)
`
	must.Same(t, want, text(t, example()))

	r := example()
	r.Method, r.Budget, r.Factual, r.Refined, r.Verified.Advice = "", 0, 0, nil, nil // by a plan, one width for each layer
	for i := range r.Layers {
		r.Layers[i].Rows, r.Layers[i].Score = nil, 0
	}
	r.Layers[0].Bits, r.Layers[1].Bits = 8, 2
	const plain = `q.onnx: by plan, mean bit width 4.00 without the 64 of 8832 weights that stay in float
  8959 bytes (float 36131, 4.0x smaller); 4.87 stored bits per weight
  verified on 512 rows: optimizations change outputs by 9.5e-07 at most

  layer    weights   bits  scales  kernel
  /0/Gemm     6656      8      64  QGemm
  /2/Gemm     2048      2      32  QGemm
  /4/Gemm       64  float          "/4/*" keeps it
  /6/Gemm       64      4       2  QGemm
`
	must.Same(t, plain, text(t, r))
	for want, change := range map[string]func(r *ptq.Result){
		"and 3226 promised points (3200 past":                       func(r *ptq.Result) { r.Promised = true },
		"  calibrated on 4096 of 32561 rows\n":                      func(r *ptq.Result) { r.Recourse = 0 },
		"  calibrated on 4096 rows and":                             func(r *ptq.Result) { r.People = 4096 },
		"  refinement made nothing better: margin error 0.0376 log": func(r *ptq.Result) { r.Refined.Rounds = 0 },
		`  cross-layer equalization: "a" and "b": 64 of 64 channels`: func(r *ptq.Result) {
			r.Equalized = []string{`"a" and "b": 64 of 64 channels`}
		},
	} {
		r := example()
		change(r)
		must.Has(t, text(t, r), want)
	}
}

func TestQuantizeJSON(t *testing.T) {
	r := example()
	r.Recipe = map[string]string{"method": "cf-ptq", "rows": "17"}
	f := quantizeFlags{out: filepath.Join(t.TempDir(), "q.onnx")}
	for _, target := range []*ptq.TargetResult{nil, {Reached: true, Result: r}} {
		var b bytes.Buffer
		must.Do(t, f.write(&env{json: true, stdout: &b}, r, target))
		var file writtenFile
		var inner *ptq.Result
		must.Do(t, json.Unmarshal(b.Bytes(), &file))
		var err error
		if target == nil {
			err = json.Unmarshal(b.Bytes(), &inner)
		} else {
			var got ptq.TargetResult
			err = json.Unmarshal(b.Bytes(), &got)
			inner = got.Result
		}
		if err != nil || file.File != f.out || len(file.SHA256) != 64 || file.Recipe["rows"] != "17" {
			t.Errorf("%+v, %v", file, err)
		}
		if inner == nil || inner.Stored != r.Stored || inner.Refined.After != r.Refined.After ||
			inner.Layers[0].Rows[8] != 11 ||
			len(inner.Verified.Advice) != 1 || inner.Verified.Levels.Rows != 512 || inner.People != r.People {
			t.Errorf("%+v\n%s", inner, b.Bytes())
		}
	}
}
