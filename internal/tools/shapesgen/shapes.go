package main

import (
	"math"
	"math/rand/v2"
	"strconv"
)

// attributes are what an image shows. Lengths are in pixels.
type attributes struct {
	Square     float64 // 1: a rectangle, 0: an ellipse
	Size       float64 // half the longer axis, 4 to 7.5; the other axis is 0.6 times as long
	Thickness  float64 // of the line, 1 to 3
	Brightness float64 // of the line, 0.3 to 1
	Rotation   float64 // of the longer axis against the horizontal, clockwise, -45 to 45 degrees
	Across     float64 // of the centre, from the middle to the right, -2.5 to 2.5
	Down       float64 // of the centre, -2.5 to 2.5
	Framed     float64 // 1: a line around the image; the protected attribute
}

// row is a row of the files.
type row struct {
	Image []byte
	attributes
	Accepted int32
}

// header are the columns of the files.
func header() []string {
	var all []string
	for i := range side * side {
		all = append(all, "image"+strconv.Itoa(i))
	}
	return append(all, "square", "size", "thickness", "brightness", "rotation", "across", "down", "framed", "accepted")
}

// fields are the row as header names them.
func (r *row) fields() []string {
	var all []string
	for _, v := range r.Image {
		all = append(all, strconv.Itoa(int(v)))
	}
	for _, v := range []float64{
		r.Square, r.Size, r.Thickness, r.Brightness, r.Rotation, r.Across, r.Down, r.Framed,
	} {
		all = append(all, strconv.FormatFloat(v, 'g', -1, 64))
	}
	return append(all, strconv.Itoa(int(r.Accepted)))
}

// side is that of an image.
const side = 28

// draw makes an image. Framed shapes are smaller, so that groups differ in a decision that never looks at the frame.
func draw(rng *rand.Rand) row {
	between := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
	yes := func(share float64) float64 {
		if rng.Float64() < share {
			return 1
		}
		return 0
	}
	a := attributes{Square: yes(0.5), Framed: yes(0.4)}
	a.Size = between(4+0.5*(1-a.Framed), 7.5-0.5*a.Framed)
	a.Thickness, a.Brightness, a.Rotation = between(1, 3), between(0.3, 1), between(-45, 45)
	a.Across, a.Down = between(-2.5, 2.5), between(-2.5, 2.5)
	r := row{Image: a.image(), attributes: a}
	if u := rng.Float64(); a.score()+0.5*math.Log(u/(1-u)) > 0 {
		r.Accepted = 1
	}
	return r
}

// score is what decides, before chance: positive is favourable.
func (a *attributes) score() float64 {
	return 1.2*(a.Size-6) + 6*(a.Brightness-0.65) - (a.Thickness - 2) + 1.2*(a.Square-0.5)
}

// image draws the attributes: the grey of each pixel, row by row, is how much of it the line covers, nearly.
func (a *attributes) image() []byte {
	sin, cos := math.Sincos(a.Rotation * math.Pi / 180)
	out := make([]byte, 0, side*side)
	for i := range side {
		for j := range side {
			x, y := float64(j)-(side-1)/2.-a.Across, float64(i)-(side-1)/2.-a.Down
			d := a.distance(cos*x+sin*y, cos*y-sin*x)
			v := a.Brightness * min(max(0.5+a.Thickness/2-math.Abs(d), 0), 1)
			if a.Framed == 1 && min(i, j, side-1-i, side-1-j) == 0 {
				v = max(v, 0.6)
			}
			out = append(out, byte(math.Round(255*v)))
		}
	}
	return out
}

// distance is that of a point to the outline, along the shape's axes; of an ellipse to first order.
func (a *attributes) distance(x, y float64) float64 {
	long, short := a.Size, 0.6*a.Size
	if a.Square == 1 {
		x, y = math.Abs(x)-long, math.Abs(y)-short
		return math.Hypot(max(x, 0), max(y, 0)) + min(max(x, y), 0)
	}
	in, slope := math.Hypot(x/long, y/short), math.Hypot(x/long/long, y/short/short)
	if slope == 0 {
		return -short
	}
	return in * (in - 1) / slope
}
