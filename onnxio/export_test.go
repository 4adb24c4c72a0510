package onnxio

// Resolved is for tests of models that are no classifiers.
var Resolved = resolved
