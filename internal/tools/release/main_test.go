package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cfq/onnxio/ort"
)

// TestPack: the same files make the same bytes, in the folder of the archive, with their permissions.
func TestPack(t *testing.T) {
	files := []member{{"cfq", []byte("program"), 0o755}, {"LICENSE", []byte("text"), 0o644}}
	at := time.Unix(1_700_000_000, 0).UTC()
	want := map[string]string{"cfq-v1/cfq": "-rwxr-xr-x program", "cfq-v1/LICENSE": "-rw-r--r-- text"}
	for _, zipped := range []bool{false, true} {
		name, data, err := pack("cfq-v1", zipped, files, at)
		if err != nil {
			t.Fatal(err)
		}
		if _, again, _ := pack("cfq-v1", zipped, files, at); !bytes.Equal(data, again) {
			t.Errorf("%s is another one each time", name)
		}
		if diff := cmp.Diff(want, members(t, name, data, at)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func members(t *testing.T, name string, data []byte, at time.Time) map[string]string {
	t.Helper()
	got := map[string]string{}
	add := func(name string, mode fs.FileMode, made time.Time, r io.Reader) {
		text, err := io.ReadAll(r)
		if err != nil || !made.Equal(at) {
			t.Errorf("%s: made at %v: %v", name, made, err)
		}
		got[name] = mode.String() + " " + string(text)
	}
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(f.Name, f.Mode(), f.Modified, r)
		}
		return got
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		add(h.Name, fs.FileMode(h.Mode), h.ModTime, r)
	}
}

// TestBill: the bill of materials of a program names the modules in it and the library, with its hash.
func TestBill(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := ort.PinnedFor("linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	data, err := billOf(path, "v1", r, time.Unix(0, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Components []struct {
			Name, Version, Purl string
			Hashes              []struct{ Content string }
		}
	}
	if err := json.Unmarshal(data, &bill); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, c := range bill.Components {
		found[c.Name] = c.Purl
		if c.Name == "onnxruntime" && (c.Version != ort.Version || len(c.Hashes) != 1 || c.Hashes[0].Content != r.SHA256) {
			t.Errorf("%+v", c)
		}
	}
	binding := found["github.com/yalue/onnxruntime_go"]
	if bill.BOMFormat != "CycloneDX" || !strings.HasPrefix(binding, "pkg:golang/github.com/yalue/") {
		t.Errorf("%s", data)
	}
}

// TestReleased: versions are ordered by package managers as they were made.
func TestReleased(t *testing.T) {
	for version, want := range map[string][2]string{
		"v1.2.3":          {"1.2.3", "1.2.3"},
		"v1.2.3-rc1":      {"1.2.3rc1", "1.2.3~rc1"},
		"v1.2.3-4-gabc12": {"1.2.3+4.gabc12", "1.2.3+4.gabc12"},
		"abc1234":         {"0+gabc1234", "0+gabc1234"},
	} {
		if got := [2]string{released(version, ""), released(version, "~")}; got != want {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}
