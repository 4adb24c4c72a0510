package ptq

import (
	"context"
	"errors"
	"fmt"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/recourse/constraint"
	"cfq/task"
)

// autoencoder is the encoder and the decoder of a task. It implements task.Coder.
type autoencoder struct{ encoder, decoder *onnxio.Map }

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
	open := func(key, path string, from, to int) (*onnxio.Map, error) {
		g, err := codec.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("latent.%s: %w", key, err)
		}
		m, err := onnxio.OpenMap(ctx, g, e)
		if err != nil {
			return nil, fmt.Errorf("latent.%s %s: %w", key, path, err)
		}
		if m.Dim() != from || m.Out != to {
			return nil, errors.Join(fmt.Errorf("latent.%s %s makes %d numbers of %d; the task has %d inputs of the model and "+
				"%d codes, so it must make %d of %d", key, path, m.Out, m.Dim(), t.ModelDim(), len(t.Latent.Codes), to, from),
				m.Close())
		}
		return m, nil
	}
	image, codes := t.ModelDim(), len(t.Latent.Codes)
	encoder, decoder := t.Latent.Files()
	a := &autoencoder{}
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

// decodedOf is the step that makes a model's inputs of those and of codes, see [onnxio.Decoded].
func decodedOf(t *task.Task) (*onnxio.Decoded, error) {
	a, ok := t.Latent.Coder().(*autoencoder)
	if !ok {
		return nil, errors.New("the encoder and the decoder of the task are not open: OpenLatent opens them")
	}
	d := &onnxio.Decoded{
		Encoder: a.encoder, Decoder: a.decoder, Budget: t.Latent.Pixels, Radius: t.Latent.Radius, L1: t.Cost.Norm == task.L1,
		Weights: make([]float32, len(t.Latent.Codes)),
	}
	for i := range t.ModelDim() {
		f := &t.Features[i]
		low, high, weight := float32(-largest), float32(largest), float32(1)
		if t.IsPixel(f) {
			low, high = f.ToInput(f.Bounds[0]), f.ToInput(f.Bounds[1])
			weight = 1 / (high - low)
		}
		d.Low, d.High, d.PixelWeights = append(d.Low, low), append(d.High, high), append(d.PixelWeights, weight)
	}
	set, err := constraint.Compile(t)
	if err != nil {
		return nil, err
	}
	for _, u := range set.Free() {
		d.Weights[u.First-t.ModelDim()] = float32(set.Norm().Weight(u))
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
	d.Always = true
	return openBehind(m, t, d, workers)
}
