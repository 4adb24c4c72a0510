package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg/vgimg"
	"pgregory.net/rapid"

	"cfq/internal/must"
)

func render(t testing.TB, charts ...Chart) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Draw(&b, charts...))
	return b.Bytes()
}

// pixels is a chart without its title.
func pixels(t testing.TB, c Chart) image.Image {
	t.Helper()
	var p panel
	must.Do(t, p.build(&c))
	canvas := vgimg.NewWith(vgimg.UseWH(figureWidth, figureHeight), vgimg.UseDPI(110))
	p.draw(paper(canvas))
	return canvas.Image()
}

func curves(n int) []Chart {
	out := make([]Chart, n)
	for i := range out {
		out[i] = Chart{Title: "chart " + strconv.Itoa(i), X: "x <axis>", Y: "y", Series: []Series{
			{
				Name: "first & foremost", X: []float64{1, 2, 3}, Y: []float64{0, 1, 4},
				Low: []float64{0, 0.5, 3}, High: []float64{1, 2, 5},
			},
			{Name: "second", X: []float64{1, 2, 3}, Y: []float64{3, math.NaN(), 1}},
		}}
	}
	return out
}

func TestBytesAreTheSame(t *testing.T) {
	t.Parallel()
	if a, b := render(t, curves(5)...), render(t, curves(5)...); !bytes.Equal(a, b) {
		t.Error("two pictures of the same charts")
	}
}

func TestSVG(t *testing.T) {
	t.Parallel()
	other := curves(2)
	other[1].Series = other[1].Series[:1]
	for _, c := range []struct {
		charts  []Chart
		legends int
	}{{curves(1), 1}, {curves(4), 4}, {other, 2}} {
		svg := render(t, c.charts...)
		words := map[string]int{}
		for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			must.Do(t, err)
			if data, ok := token.(xml.CharData); ok {
				words[strings.TrimSpace(string(data))]++
			}
		}
		if words["first & foremost"] != c.legends || words["x <axis>"] != len(c.charts) || words["chart 0"] != 1 {
			t.Errorf("%d charts: %v", len(c.charts), words)
		}
		if !bytes.Contains(svg, []byte("sans-serif")) {
			t.Error("readers without the typeface are left alone")
		}
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	c := Chart{
		Categories: []string{"a", "a category with a name too long for an axis"},
		Series: []Series{
			{Name: "one", Y: []float64{1, 0}, Low: []float64{math.NaN(), 0}, High: []float64{math.NaN(), 1}},
			{Name: "two", Y: []float64{0, 4}},
		},
	}
	img := pixels(t, c)
	longest := func(want color.NRGBA) (most, at int) {
		for y := range img.Bounds().Dy() {
			run := 0
			for x := range img.Bounds().Dx() {
				if r, g, b, _ := img.At(x, y).RGBA(); uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(b>>8) == want.B {
					if run++; run > most {
						most, at = run, y
					}
				} else {
					run = 0
				}
			}
		}
		return most, at
	}
	one, above := longest(colour(0))
	two, below := longest(colour(1))
	if one < 40 || math.Abs(float64(two)/float64(one)-4) > 0.1 || above >= below {
		t.Errorf("bars of 1 and 4 are %d and %d pixels long, at %d and %d", one, two, above, below)
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	horizontal := Chart{
		Title:      "not shown",
		Categories: []string{"x & y", "z"},
		Series:     []Series{{Y: []float64{1, 2}}},
	}
	bare := curves(1)[0]
	bare.Series[0].NoMarkers, bare.Series[1].NoMarkers = true, true
	for _, c := range []Chart{horizontal, bare, {X: "nothing"}} {
		svg := must.Get(Figure(c))(t)
		if !strings.HasPrefix(svg, "<svg") || strings.Contains(svg, " id=") || strings.Contains(svg, "not shown") ||
			strings.Contains(svg, "chart 0") {
			t.Errorf("%.300s", svg)
		}
		var root struct {
			ViewBox string `xml:"viewBox,attr"`
		}
		must.Do(t, xml.Unmarshal([]byte(svg), &root))
		if words := strings.Fields(root.ViewBox); len(words) != 4 || words[2] != "248.4" {
			t.Errorf("the box is %q", root.ViewBox)
		}
		if c.bars() && !strings.Contains(svg, "x &amp; y") {
			t.Error("a category has no name")
		}
	}
}

func TestAnyNumbers(t *testing.T) {
	t.Parallel()
	number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1, 1), rapid.Just(math.NaN()), rapid.Just(math.Inf(-1)))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "n")
		list := func(name string) []float64 { return rapid.SliceOfN(number, n, n).Draw(t, name) }
		c := Chart{Title: rapid.String().Draw(t, "title")}
		for range rapid.IntRange(0, 9).Draw(t, "series") {
			c.Series = append(c.Series, Series{
				Name: rapid.String().Draw(t, "name"), X: list("x"), Y: list("y"), Low: list("low"), High: list("high"),
			})
		}
		if rapid.Bool().Draw(t, "bars") {
			c.Categories = rapid.SliceOfN(rapid.String(), n, n).Draw(t, "categories")
		}
		var b bytes.Buffer
		must.Do(t, Draw(&b, c))
		if s := b.String(); strings.Contains(s, "NaN") && !strings.Contains(c.Title, "NaN") || strings.Contains(s, "+Inf") {
			t.Fatal("a number that is none was drawn")
		}
	})
}
