package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"cfq/onnxio/ort"
)

// member is a file of an archive.
type member struct {
	name string
	data []byte
	mode fs.FileMode
}

// pack puts files into the folder name of an archive, as if all had been made at one time.
func pack(name string, zipped bool, files []member, at time.Time) (file string, data []byte, err error) {
	var b bytes.Buffer
	if zipped {
		w := zip.NewWriter(&b)
		for _, f := range files {
			h := &zip.FileHeader{Name: name + "/" + f.name, Method: zip.Deflate, Modified: at}
			h.SetMode(f.mode)
			to, err := w.CreateHeader(h)
			if err == nil {
				_, err = to.Write(f.data)
			}
			if err != nil {
				return "", nil, err
			}
		}
		err := w.Close()
		return name + ".zip", b.Bytes(), err
	}
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{
			Name: name + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR,
		})
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			return "", nil, err
		}
	}
	err = errors.Join(w.Close(), z.Close())
	return name + ".tar.gz", b.Bytes(), err
}

// billOf is the bill of materials of a program: the modules in it, and the library beside it.
func billOf(path, version string, r ort.Release, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	components := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: "onnxruntime", Name: "onnxruntime", Version: ort.Version,
		PackageURL: fmt.Sprintf("pkg:npm/%s@%s", ort.Package, ort.Version),
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: r.SHA256}},
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "MIT"}}},
	}, {
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: "std", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		url := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
		components = append(components, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: m.Path, Version: m.Version, PackageURL: url,
		})
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: at.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeApplication, BOMRef: "cfq", Name: "cfq", Version: version,
		},
	}
	bom.Components = &components
	var b bytes.Buffer
	e := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON)
	err = e.SetPretty(true).Encode(bom)
	return b.Bytes(), err
}

// try unpacks an archive for this platform and runs the program, which must find the library beside it, without any
// other variable than PATH and HOME: from training to the verdict of a gate.
func try(p platform, archive, name string) error {
	if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
		log.Printf("%s: not tried, this is %s/%s", p, runtime.GOOS, runtime.GOARCH)
		return nil
	}
	dir, err := os.MkdirTemp("", "release-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking: %w: %s", err, out)
	}
	loans, err := filepath.Abs("testdata/loans")
	if err != nil {
		return err
	}
	of := func(data string) []string {
		return []string{"-d", filepath.Join(loans, data), "-t", filepath.Join(loans, "task.yaml")}
	}
	for _, args := range [][]string{
		{"version"},
		{"doctor"},
		append([]string{"train", "--arch", "mlp:32,16", "-o", "m.onnx"}, of("train.csv")...),
		append([]string{"quantize", "m.onnx", "-o", "q.onnx", "--budget", "8"}, of("train.csv")...),
		append([]string{"gate", "m.onnx", "q.onnx", "--max-vd", "0.2"}, of("test.csv")...),
	} {
		c := exec.Command(filepath.Join(dir, name, "cfq"), args...)
		c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			return fmt.Errorf("cfq %s: %w\n%s", args[0], err, out)
		}
		if args[0] == "doctor" && !strings.Contains(string(out), "program") {
			return fmt.Errorf("cfq doctor found another library than the one beside it:\n%s", out)
		}
	}
	log.Printf("%s: unpacked and tried, doctor, train, quantize and gate pass", p)
	return nil
}
