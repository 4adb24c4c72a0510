package main

import (
	"context"
	"regexp"
	"runtime"
	"runtime/debug"
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
