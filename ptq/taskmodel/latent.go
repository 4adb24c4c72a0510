package taskmodel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"cfq/internal/lists"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/qat"
	"cfq/recourse"
	"cfq/task"
)

type autoencoder struct {
	encoder, decoder *onnxio.Map
	sums             []string // SHA-256 of both
}

// String implements task.Coder.
func (a *autoencoder) String() string { return strings.Join(a.sums, " ") }

// Codes implements task.Coder.
func (a *autoencoder) Codes(ctx context.Context, x []float32) ([]float32, error) {
	return (&onnxio.Decoded{Encoder: a.encoder}).Codes(ctx, x)
}

// OpenLatent opens the encoder and the decoder of a task, without which neither its people nor its models can be used.
// A task without them needs nothing.
func OpenLatent(ctx context.Context, t *task.Task, e ort.Options) error {
	if t.Latent == nil || t.Latent.Coder() != nil {
		return nil
	}
	a := &autoencoder{}
	open := func(key, path string, from, to int) (m *onnxio.Map, err error) {
		g, err := codec.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("latent.%s: %w", key, err)
		}
		sum, err := codec.Fingerprint(g)
		if err == nil {
			m, err = onnxio.OpenMap(ctx, g, e)
		}
		if err != nil {
			return nil, fmt.Errorf("latent.%s %s: %w", key, path, err)
		}
		a.sums = append(a.sums, sum)
		if m.Dim() != from || m.Out != to {
			return nil, errors.Join(fmt.Errorf("latent.%s %s makes %d numbers of %d; the task has %d inputs of the model and "+
				"%d codes, so it must make %d of %d: change latent.size or latent.features, or take the %s that belongs to them",
				key, path, m.Out, m.Dim(), t.ModelDim(), len(t.Latent.Codes), to, from, key), m.Close())
		}
		return m, nil
	}
	image, codes := t.ModelDim(), len(t.Latent.Codes)
	encoder, decoder := t.Latent.Files()
	var err error
	if a.encoder, err = open("encoder", encoder, image, codes); err != nil {
		return err
	}
	if a.decoder, err = open("decoder", decoder, codes, image); err != nil {
		return errors.Join(err, a.encoder.Close())
	}
	t.Latent.Use(a)
	return nil
}

func decodedOf(t *task.Task) (*onnxio.Decoded, error) {
	a, ok := t.Latent.Coder().(*autoencoder)
	if !ok {
		return nil, errors.New("the encoder and the decoder of the task are not open: OpenLatent opens them")
	}
	d := &onnxio.Decoded{Encoder: a.encoder, Decoder: a.decoder, Budget: t.Latent.Pixels}
	for i := range t.ModelDim() {
		f := &t.Features[i]
		low, high, weight := float32(-largest), float32(largest), float32(1)
		if t.IsPixel(f) {
			low, high = f.ToInput(f.Bounds[0]), f.ToInput(f.Bounds[1])
			weight = 1 / (high - low)
		}
		d.Low, d.High, d.PixelWeights = append(d.Low, low), append(d.High, high), append(d.PixelWeights, weight)
	}
	return d, nil
}

// largest is a bound that no input reaches.
const largest = 3e38

// Reconstructed opens a model that is given D(E(x)) for people as they are, and not x.
func Reconstructed(m *onnxio.Model, t *task.Task, workers int) (*classifier.Model, error) {
	d, err := decodedOf(t)
	if err != nil {
		return nil, err
	}
	d.Always, d.Budget = true, 0 // it is no action
	return openBehind(m, t, d, workers)
}

// OwnDoing returns the positions of the people whose recourse is something that they do, in order: of the others, the
// model full refuses x and approves D(E(x)), as again says of [Reconstructed]. What would have them approved is the
// decoder, and no action.
func OwnDoing(ctx context.Context, full, again recourse.Model, people *task.People) ([]int, error) {
	before, err := full.Margins(ctx, people.X)
	if err != nil {
		return nil, err
	}
	after, err := again.Margins(ctx, people.X)
	if err != nil {
		return nil, err
	}
	return lists.Where(people.N, func(i int) bool { return before[i] > 0 || !(after[i] > 0) }), nil
}

// OwnRows is OwnDoing by a model that is not open yet; all people of a task without codes.
func OwnRows(
	ctx context.Context, m *onnxio.Model, full recourse.Model, t *task.Task, people *task.People, workers int,
) (_ []int, err error) {
	if t.Latent == nil {
		return task.AllRows(people.N), nil
	}
	again, err := Reconstructed(m, t, workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, again.Close()) }()
	return OwnDoing(ctx, full, again, people)
}

// LatentCheck is what an encoder and a decoder make of people.
type LatentCheck struct {
	People   int     `json:"people"`
	Distance float64 `json:"distance"` // mean of D(E(x)) from x, in the unit of latent.pixels
	Alike    float64 `json:"alike"`    // share of people of whom the model decides alike as D(E(x))
	// Problems are why recourse cannot rest on them.
	Problems []string `json:"problems,omitempty"`
}

// CheckLatent looks at what the encoder and the decoder of a task make of people, and whether a search can rest on it:
// their outputs must not depend on the batch, and gradients must pass the decoder.
func CheckLatent(
	ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, workers int,
) (_ *LatentCheck, err error) {
	const most, apart = 2000, 64
	people = people.Subset(qat.Spread(people.N, most))
	c, err := Reconstructed(m, t, workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	as, err := Open(m, t, workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, as.Close()) }()
	out := &LatentCheck{People: people.N}
	before, err := as.Margins(ctx, people.X)
	if err != nil {
		return nil, err
	}
	after, err := c.Margins(ctx, people.X)
	if err != nil {
		return nil, err
	}
	distances, err := c.Distances(ctx, people.X)
	if err != nil {
		return nil, err
	}
	for i := range people.N {
		out.Distance += float64(distances[i]) / float64(people.N)
		if (before[i] > 0) == (after[i] > 0) {
			out.Alike += 1 / float64(people.N)
		}
	}
	some := people.Subset(qat.Spread(people.N, apart))
	d, err := decodedOf(t)
	if err != nil {
		return nil, err
	}
	images, problems, err := apartFromOthers(ctx, d, some)
	if err != nil {
		return nil, err
	}
	out.Problems = slices.Concat(problems, ofScale(people, t.ModelDim(), out.Distance, d.PixelWeights))
	beyond := 0 // the bounds, by a twentieth of the way between these at least
	for i, v := range images {
		low, high := d.Low[i%len(d.Low)], d.High[i%len(d.High)]
		if slack := (high - low) / 20; v < low-slack || v > high+slack {
			beyond++
		}
	}
	if share := float64(beyond) / float64(max(len(images), 1)); share > 0.1 { // of black pixels, say, a few are
		out.Problems = append(out.Problems, fmt.Sprintf("%.0f %% of what the decoder makes is beyond the bounds of the "+
			"model's inputs, and would be cut off: have it make inputs of the model, in their units", 100*share))
	}
	_, g, err := c.MarginGrads(ctx, some.X)
	switch {
	case err != nil:
		out.Problems = append(out.Problems, fmt.Sprintf("no gradient passes the decoder: %v", err))
	case !slices.ContainsFunc(g, func(v float32) bool { return v != 0 }):
		out.Problems = append(out.Problems, "the gradient of the margin by the codes is 0 for everybody: the decoder makes "+
			"the same of all codes, or rounds what it makes")
	}
	return out, nil
}

func ofScale(people *task.People, inputs int, distance float64, weights []float32) (problems []string) {
	const few, steps = 20, 64 // people who tell something; of the grid of codes, that one of them varies by
	if people.N < few {
		return nil
	}
	var widest, fromMean float64 // of the codes; of people, on average, in the unit of latent.pixels
	values := make([]float64, people.N)
	for j := range people.Dim {
		for i := range values {
			values[i] = float64(people.X[i*people.Dim+j])
		}
		if j >= inputs {
			widest = max(widest, stat.PopStdDev(values, nil))
			continue
		}
		mean := stat.Mean(values, nil)
		for _, v := range values {
			fromMean += float64(weights[j]) * math.Abs(v-mean) / float64(people.N)
		}
	}
	if widest < steps*onnxio.CodeGrid {
		problems = append(problems, fmt.Sprintf("codes vary by %.3g at most (standard deviation), and are rounded to %v: "+
			"have the encoder make larger ones, and the decoder divide them", widest, onnxio.CodeGrid))
	}
	if distance >= fromMean {
		problems = append(problems, fmt.Sprintf("what the decoder makes of people is %.3g from them on average, and the "+
			"mean of all people %.3g: train it for longer, or have it make inputs of the model, in their units", distance,
			fromMean))
	}
	return problems
}

// apartFromOthers looks whether encoder and decoder make the same of people one by one as of all together: images.
func apartFromOthers(ctx context.Context, d *onnxio.Decoded, people *task.People) (images []float32,
	problems []string, err error,
) {
	split := d.Encoder.Dim()
	for _, part := range []struct {
		name     string
		m        *onnxio.Map
		from, to int
	}{{"encoder", d.Encoder, 0, split}, {"decoder", d.Decoder, split, people.Dim}} {
		var x, alone []float32
		for i := range people.N {
			row := people.X[i*people.Dim+part.from : i*people.Dim+part.to]
			one, err := part.m.Run(ctx, row)
			if err != nil {
				return nil, nil, err
			}
			x, alone = append(x, row...), append(alone, one...)
		}
		if images, err = part.m.Run(ctx, x); err != nil {
			return nil, nil, err
		}
		for i, v := range alone {
			if d := math.Abs(float64(v - images[i])); !(d <= 1e-3*max(1, math.Abs(float64(v)))) {
				problems = append(problems, fmt.Sprintf("the %s makes another number of a person alone than among others, %v and "+
					"%v: export it in evaluation mode", part.name, v, images[i]))
				break
			}
		}
	}
	return images, problems, nil
}
