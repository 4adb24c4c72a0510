package ort

import (
	"strings"
	"testing"
)

func TestPinned(t *testing.T) {
	for _, r := range releases() {
		got, err := pinnedFor(r.Platform)
		if err != nil || got != r {
			t.Errorf("%s: %+v, %v", r.Platform, got, err)
		}
		if len(r.SHA256) != 64 || !strings.HasPrefix(r.Member, "package/") || !strings.HasSuffix(r.Member, "/"+r.Name) {
			t.Errorf("%s: %+v is not well formed", r.Platform, r)
		}
	}
	_, err := pinnedFor("darwin/amd64")
	for _, w := range []string{"no library for darwin/amd64", LibEnv} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v does not say %q", err, w)
		}
	}
}
