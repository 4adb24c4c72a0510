package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"cfq/onnxio/ort"
)

type checkup struct {
	OK       bool   `json:"ok"`
	Version  string `json:"version"` // of cfq
	Platform string `json:"platform"`
	Go       string `json:"go"`
	Cores    int    `json:"cores"`
	// features by which ONNX Runtime chooses its kernels
	CPU       []string `json:"cpu"`
	Saturates bool     `json:"saturates"` // sums of 8-bit weights beyond 64
	Library   library  `json:"library"`
	Cache     string   `json:"cache"` // where make puts the library
	SelfTest  string   `json:"self_test"`
	Millis    int64    `json:"self_test_ms"`
	Error     string   `json:"error,omitempty"`
}

type library struct {
	ort.Info
	Pinned string `json:"pinned"` // version that the project is tested with
}

func doctor(ctx context.Context, e *env, _ []string) error {
	c := checkup{
		Version: release(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Cores: runtime.NumCPU(),
		CPU: ort.CPUFeatures(), Saturates: ort.Saturates(), Library: library{Pinned: ort.Version}, SelfTest: "not run",
	}
	c.Cache, _ = ort.CachePath() // "" where there is none
	var err error
	if c.Library.Info, err = ort.Find(e.lib); err == nil {
		start := time.Now()
		c.SelfTest = "passed"
		if err = ort.SelfTest(ctx, e.engine()); err != nil {
			c.SelfTest, err = "failed", fmt.Errorf("self-test of %s: %w", c.Library.Path, err)
		}
		c.Millis = time.Since(start).Milliseconds()
	}
	if c.OK = err == nil; err != nil {
		c.Error = err.Error()
	}
	return cmp.Or(e.page("checkup", c), err)
}
