package classifier

import (
	"context"
	"errors"
	"fmt"

	"cfq/onnxio"
)

// Answered holds the labels of the file, see [onnxio.Model.Answers], against the logits of rows x, nil for some that
// are tried: an [onnxio.AnswerError] where they decide otherwise. anywhere is as in [onnxio.Model.Agrees].
func (c *Model) Answered(ctx context.Context, x []float32, anywhere bool) ([]onnxio.Answers, [][]float64, error) {
	inner, _ := c.WithoutInputTransform()
	if len(inner.LabelOutputs()) == 0 {
		return nil, nil, nil
	}
	tried := x == nil
	if tried {
		x = c.AnswerRows()
	}
	in, err := c.Inputs(ctx, x)
	var all []onnxio.Answers
	if err == nil {
		all, err = inner.Answers(ctx, in, c.o.Batch)
	}
	if wrong := (*onnxio.AnswerError)(nil); err != nil && tried && !errors.As(err, &wrong) {
		return nil, nil, ctx.Err() // numbers that the model cannot look up, say, tell nothing
	}
	if err != nil {
		return nil, nil, err
	}
	v, k, err := c.Logits(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	z := make([][]float64, len(v)/k)
	for i := range v {
		if k == 1 {
			z[i] = []float64{0}
		}
		z[i/k] = append(z[i/k], float64(v[i]))
	}
	for _, a := range all {
		if err := c.Agrees(a, z, anywhere); err != nil {
			return nil, nil, err
		}
	}
	return all, z, nil
}

// SameAnswers fails where labels of the file differ from the original's of that name although both models decide alike,
// or where labels are not what margins decide.
func (c *Model) SameAnswers(ctx context.Context, original *Model, x []float32) error {
	want, full, err := original.Answered(ctx, x, false)
	if err != nil {
		return fmt.Errorf("the original: %w", err)
	}
	have, quant, err := c.Answered(ctx, x, false)
	if err != nil {
		return fmt.Errorf("the quantized model: %w", err)
	}
	for _, a := range want {
		for _, b := range have {
			if a.Output != b.Output {
				continue
			}
			if err := a.Same(b, full, quant); err != nil {
				return err
			}
		}
	}
	return nil
}
