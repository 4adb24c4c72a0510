// Package certify proves that a promise survives quantization.
//
// In: the full-precision and the quantized model, recourse points, boxes around them. Out: for each, sound
// bounds on the quantized margin and on how far the two margins can be apart anywhere in the box. The invariant: nothing that is said to be
// certain ever fails: the bounds hold for the networks as ONNX Runtime runs them, rounding included.
//
// References: section "Theory" (proposition prop:margin_robust), "Bounding logit perturbation from quantization error".
package certify
