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

// runs says whether the file is the program or what it needs in its folder; the others are for people to read.
func (f *member) runs() bool { return f.mode == 0o755 || strings.Contains(f.name, "onnxruntime.") }

// pack puts files into the folder name of an archive, as if all had been made at one time.
func pack(name string, zipped bool, files []member, at time.Time) (file string, data []byte, err error) {
	if zipped {
		data, err = zipOf(name+"/", files, at)
		return name + ".zip", data, err
	}
	var b bytes.Buffer
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

// zipOf is a zip archive of files, whose names begin with prefix.
func zipOf(prefix string, files []member, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: prefix + f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		to, err := w.CreateHeader(h)
		if err == nil {
			_, err = to.Write(f.data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
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
