package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// entry is the Python package: it runs the program that is in it.
const entry = `"""cfq quantizes ONNX classifiers so that algorithmic recourse survives: the program, as a package."""

import os
import subprocess
import sys


def main():
    """Run the program in place of this process; on Windows, which cannot, as its child."""
    name = "cfq.exe" if os.name == "nt" else "cfq"
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    args = [program, *sys.argv[1:]]
    if os.name == "nt":
        sys.exit(subprocess.call(args))
    os.execv(program, args)
`

// wheel is a Python wheel of the files of an archive: the program and its library in one folder, and a command that
// runs them. It has no dependencies and takes any Python from 3.8 on.
func wheel(p platform, glibc, version string, files []member, at time.Time) (name string, data []byte, err error) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.arch]
	tag := "manylinux_" + strings.ReplaceAll(glibc, ".", "_") + "_" + arch
	if p.os == "windows" {
		tag = "win_" + p.arch
	}
	version = released(version, "")
	info := "cfq-" + version + ".dist-info/"
	all := []member{
		{"cfq/__init__.py", []byte(entry), 0o644},
		{"cfq/__main__.py", []byte("from cfq import main\n\nmain()\n"), 0o644},
	}
	readme := ""
	for _, f := range files {
		switch {
		case f.runs():
			f.name = "cfq/bin/" + f.name
		case f.name == "README.md":
			readme = string(f.data)
			continue
		default:
			f.name = info + "licenses/" + f.name
		}
		all = append(all, f)
	}
	all = append(all,
		member{info + "METADATA", fmt.Appendf(nil, "Metadata-Version: 2.1\nName: cfq\nVersion: %s\nSummary: Quantize ONNX "+
			"classifiers so that algorithmic recourse survives\nLicense: Apache-2.0\nRequires-Python: >=3.8\n"+
			"Description-Content-Type: text/markdown\n\n%s", version, readme), 0o644},
		member{info + "WHEEL", fmt.Appendf(nil, "Wheel-Version: 1.0\nGenerator: cfq\nRoot-Is-Purelib: false\n"+
			"Tag: py3-none-%s\n", tag), 0o644},
		member{info + "entry_points.txt", []byte("[console_scripts]\ncfq = cfq:main\n"), 0o644})
	var record strings.Builder
	for _, f := range all {
		sum := sha256.Sum256(f.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	all = append(all, member{info + "RECORD", []byte(record.String()), 0o644})
	data, err = zipOf("", all, at)
	return fmt.Sprintf("cfq-%s-py3-none-%s.whl", version, tag), data, err
}

// released is a version of git describe as package managers order it: v1.2.3 is 1.2.3, v1.2.3-rc1 is before it (before
// is what they write for that), v1.2.3-4-gabc is after it, and a commit without a version is before all.
func released(version, before string) string {
	form := regexp.MustCompile(`^v([0-9]+(?:\.[0-9]+)*)(?:-(rc[0-9]+))?(?:-([0-9]+)-(g[0-9a-f]+))?$`)
	m := form.FindStringSubmatch(version)
	if m == nil {
		return "0+g" + regexp.MustCompile(`[^0-9A-Za-z.]+`).ReplaceAllString(version, ".")
	}
	s := m[1]
	if m[2] != "" {
		s += before + m[2]
	}
	if m[3] != "" {
		s += "+" + m[3] + "." + m[4]
	}
	return s
}
