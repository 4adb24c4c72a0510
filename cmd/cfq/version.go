package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"time"

	"cfq/onnxio/ort"
)

func version(_ context.Context, e *env, _ []string) error {
	return e.page("version", buildVersion())
}

type build struct {
	Version  string `json:"version"` // of the module, "(devel)" without one
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // the working tree differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// release is the version for reports and recipes: a tag, or "(devel)" for a build between tags, so that commits that
// change nothing leave the bytes of quantized files as they are.
func release() string {
	v := buildVersion().Version
	untagged := regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}(\+dirty)?$`)
	if untagged.MatchString(v) {
		return "(devel)"
	}
	return v
}

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
