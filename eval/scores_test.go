package eval

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func logit(p float64) Float { return Float(math.Log(p / (1 - p))) }

func labelled(p []float64, outcomes []int8) (records []Record) {
	for i := range p {
		m := logit(p[i])
		records = append(records, Record{Full: m, Quant: m / 2, Label: outcomes[i]})
	}
	return records
}

// The example of scikit-learn's documentation of roc_auc_score, with a person whose outcome nobody knows.
func TestScores(t *testing.T) {
	t.Parallel()
	records := labelled([]float64{0.1, 0.4, 0.35, 0.8, 0.9}, []int8{0, 0, 1, 1, -1})
	s := Settings{Margins: []float64{0}, Confidence: 0.95}
	r := summarize(t, records, s, DataFile{})
	near(t, "AUC", float64(r.Estimate("auc_full").Value), 0.75, 1e-12)
	near(t, "AUC of half the margins", float64(r.Estimate("auc_quant").Value), 0.75, 1e-12)
	near(t, "FPR", float64(r.Rate("fpr_full").Value), 0, 0)
	near(t, "FNR", float64(r.Rate("fnr_full").Value), 0.5, 0)
	if r.Estimate("auc_full").N != 4 || r.Rate("fnr_full").Den != 2 {
		t.Errorf("counts: %+v, %+v", r.Estimate("auc_full"), r.Rate("fnr_full"))
	}
	one := summarize(t, labelled([]float64{0.3, 0.6}, []int8{1, 1}), s, DataFile{})
	if one.Estimate("auc_full").Value.Defined() {
		t.Errorf("one outcome only: %+v", one.Values)
	}
}

func TestAUCByPairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(d *rapid.T) {
		some := rapid.SliceOfN(rapid.Map(rapid.IntRange(-4, 4), func(v int) float64 { return float64(v) / 2 }), 2, 12)
		good, bad := some.Draw(d, "good"), some.Draw(d, "bad")
		slices.Sort(good)
		slices.Sort(bad)
		kernel := func(x, y float64) float64 {
			switch {
			case x > y:
				return 1
			case x == y:
				return 0.5
			}
			return 0
		}
		rows, columns := make([]float64, len(good)), make([]float64, len(bad))
		var area float64
		for i, x := range good {
			for j, y := range bad {
				k := kernel(x, y)
				area += k / float64(len(good)*len(bad))
				rows[i] += k / float64(len(bad))
				columns[j] += k / float64(len(good))
			}
		}
		variance := func(v []float64) (s float64) {
			for _, x := range v {
				s += (x - area) * (x - area) / float64(len(v)-1) / float64(len(v))
			}
			return s
		}
		e := aucOf(rank(good), rank(bad), 0.95)
		near(t, "area", float64(e.Value), area, 1e-12)
		half := 1.959963984540054 * math.Sqrt(variance(rows)+variance(columns))
		near(t, "lower end", float64(e.Lo), max(0, area-half), 1e-9)
		near(t, "upper end", float64(e.Hi), min(1, area+half), 1e-9)
	})
}
