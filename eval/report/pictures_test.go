package report

import (
	"image"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
)

func TestPictures(t *testing.T) {
	settings := eval.Settings{Margins: []float64{0.1}, Confidence: 0.95}
	for _, noise := range []float64{0, 0.05, 100} {
		records := crowd(3, 200, settings.Margins, noise)
		broken := 0
		for i := range records {
			r := &records[i]
			if r.X = []float32{float32(i)}; !r.Evaluated {
				continue
			}
			s := &r.Steps[0]
			s.Full.Point, s.Quant.Point = []float32{0.5}, []float32{0.25}
			if s.Full.Broken() {
				broken++
			}
		}
		drawn := map[float32]bool{}
		list, err := Pictures(summarize(records, settings, eval.DataFile{}), func(x [][]float32) ([][]image.Image, error) {
			all := make([][]image.Image, len(x))
			for i := range x {
				all[i] = []image.Image{image.NewGray(image.Rect(0, 0, 2, 2))}
			}
			drawn[x[0][0]] = true
			return all, nil
		})
		must.Do(t, err)
		var got []string
		breaks := 0
		for i, p := range list {
			got = append(got, p.Who)
			if strings.HasSuffix(p.Who, "breaks") {
				if breaks++; breaks != i+1 {
					t.Errorf("noise %g: %s comes after promises that hold", noise, p.Who)
				}
			}
			if n := len(p.Images); n != 3 && n != 5 {
				t.Errorf("noise %g: %d images of %s, want 3 or 5", noise, n, p.Who)
			}
		}
		want := min(broken, maxPictured)
		if len(list) != maxPictured || breaks != want || len(drawn) != maxPictured {
			t.Errorf("noise %g: %d people, %d promises that break, want %d and %d: %v", noise, len(list), breaks, maxPictured,
				want, got)
		}
	}
}
