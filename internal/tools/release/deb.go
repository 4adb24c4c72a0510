package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// deb is a Debian package of the files of an archive, made by dpkg-deb: the program and its library in /usr/lib/cfq, a
// link to it in /usr/bin, completions for the shells.
func deb(p platform, glibc, version, dir string, files []member, at time.Time) (name string, data []byte, err error) {
	version = released(version, "~")
	root := filepath.Join(dir, "deb")
	put := func(name string, data []byte, mode os.FileMode) {
		path := filepath.Join(root, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, mode))
	}
	size := 0
	for _, f := range files {
		size += len(f.data)
		switch {
		case f.runs():
			put("usr/lib/cfq/"+f.name, f.data, f.mode)
		case f.name == "LICENSE":
			put("usr/share/doc/cfq/copyright", f.data, f.mode)
		default:
			put("usr/share/doc/cfq/"+f.name, f.data, f.mode)
		}
	}
	for shell, file := range map[string]string{
		"bash": "bash-completion/completions/cfq", "zsh": "zsh/vendor-completions/_cfq",
		"fish": "fish/vendor_completions.d/cfq.fish",
	} {
		c := exec.Command("go", "run", "./cmd/cfq", "completion", shell) // the same on all platforms
		c.Stderr = os.Stderr
		script, e := c.Output()
		err = errors.Join(err, e)
		put("usr/share/"+file, script, 0o644)
	}
	put("DEBIAN/control", fmt.Appendf(nil, "Package: cfq\nVersion: %s\nArchitecture: %s\nMaintainer: The cfq authors "+
		"<cfq@localhost>\nInstalled-Size: %d\nDepends: libc6 (>= %s), libstdc++6, libgcc-s1\nSection: science\n"+
		"Priority: optional\nDescription: quantize ONNX classifiers so that algorithmic recourse survives\n"+
		" Quantizes an exported classifier, measures how many promises of recourse break,\n and stops a release when too "+
		"many do. ONNX Runtime is included.\n", version, p.arch, size/1024, glibc), 0o644)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755),
			os.Symlink("../lib/cfq/cfq", filepath.Join(root, "usr/bin/cfq")))
	}
	if err != nil {
		return "", nil, err
	}
	name = fmt.Sprintf("cfq_%s_%s.deb", version, p.arch)
	path := filepath.Join(dir, name)
	c := exec.Command("dpkg-deb", "--root-owner-group", "--build", root, path)
	c.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", at.Unix()))
	if out, err := c.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("dpkg-deb: %w: %s", err, out)
	}
	data, err = os.ReadFile(path)
	return name, data, err
}
