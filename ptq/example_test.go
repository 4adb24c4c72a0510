package ptq_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"cfq/onnxio"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/task"
)

// Quantize a loan model so that its recourse holds, and write it.
func Example() {
	ctx := context.Background()
	model, err := onnxio.Load(ctx, "../testdata/loans/model.onnx", ort.Options{})
	if err != nil {
		log.Fatal(err)
	}
	t, err := task.Load("../testdata/loans/task.yaml")
	if err != nil {
		log.Fatal(err)
	}
	people, err := task.Read(ctx, "../testdata/loans/train.csv", t, task.ReadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	recipe, err := ptq.NewRecipe(ptq.CFPTQ, "allocate.budget=4", "calibrate.rows=300")
	if err != nil {
		log.Fatal(err)
	}
	result, err := ptq.Quantize(ctx, model, t, people, recipe, ptq.Run{})
	if err != nil {
		log.Fatal(err)
	}
	if err := result.Verified.Err(); err != nil {
		log.Fatal(err)
	}
	for _, l := range result.Layers {
		fmt.Printf("%s: %.1f bits\n", l.Node, l.Bits)
	}
	fmt.Println("smaller:", result.Bytes < result.FloatBytes)
	if err := os.WriteFile(os.DevNull, result.Model, 0o600); err != nil {
		log.Fatal(err)
	}
	// Output:
	// /layers.0/Gemm: 8.0 bits
	// /layers.2/Gemm: 2.6 bits
	// /layers.4/Gemm: 4.0 bits
	// smaller: true
}
