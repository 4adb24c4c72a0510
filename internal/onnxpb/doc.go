// Package onnxpb is the protobuf form of ONNX files, generated from onnx.proto:
// our own minimal description of the standard's messages, with its field numbers.
//
// In: bytes. Out: messages that package onnxio turns into a graph.Model. The invariant: what onnx.proto does not
// describe stays in a message's unknown fields, so that decoding and encoding loses nothing.
//
// onnx.pb.go was generated with protoc-gen-go v1.36.12 and protoc 3.21.12.
package onnxpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative onnx.proto
