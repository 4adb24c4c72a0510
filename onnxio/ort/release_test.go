package ort

import (
	"strings"
	"testing"
)

func TestPinnedFor(t *testing.T) {
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

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"1.24.0": true, "1.24": true, "1.30.0": true, "2.0.0": true, "1.100.1-rc1": true, "unheard of": true,
		"1.23.2": false, "1.9.1": false, "0.99.0": false,
	} {
		if err := checkVersion(Info{Version: version}); (err == nil) != ok {
			t.Errorf("%s: %v", version, err)
		}
	}
}
