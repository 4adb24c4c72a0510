// Package certify proves that a promise survives quantization.
//
// In: the full-precision and the quantized model, recourse points, boxes around them. Out: for each, sound
// bounds on the quantized margin and on how far the two margins can be apart anywhere in the box. The invariant: nothing that is said to be
// certain ever fails: the bounds hold for the networks as ONNX Runtime runs them, rounding included.
//
// Numbers are enclosed by affine forms: a centre, coefficients for symbols in [-1, 1], and a remainder. The inputs that
// have a width are the first symbols; where an activation function bends, and where a quantizer rounds, a symbol or a remainder
// is added. Both models are followed over the same symbols, and where both bend in the same place the quantized
// one is written as the other plus a part of the difference of the arguments, so that what they share cancels.
//
// What is allowed for beyond real arithmetic:
//   - sums of n products in float32: (n+8) 2^-24 times the sum of their magnitudes, in any order, fused or not;
//   - integer kernels (QGemm, QLinearMatMul, MatMulIntegerToFloat), where ONNX Runtime runs one: exact sums, scaled
//     in float32 with an error of 8 2^-24, and codes behind that round a quotient known to 2^-22. Where that
//     quotient may lie on either side of the middle between two codes, both codes are allowed for;
//   - other operators: 8 2^-24 of what they add up; Sigmoid and Tanh, which ONNX Runtime approximates: 2^-18;
//   - the bounds' own double arithmetic: 2^-38 of the magnitudes.
//
// Weights are those that ONNX Runtime itself makes of the file, and its kernels are looked up in its optimized graph. Where that rounds what the
// file does not round, or makes one quantizer of two, nothing is proved; the rounding of a bias is allowed for. Every proof is
// held against a run of both models at the middle of its box. Convolutions are not known.
//
// The package also measures logit perturbations, and what each layer's weights do to the margin.
//
// References: section "Theory" (proposition prop:margin_robust), "Bounding logit perturbation from quantization error".
package certify
