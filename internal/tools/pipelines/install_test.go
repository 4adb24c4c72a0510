package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cfq/internal/must"
)

// TestInstall runs install.sh on releases that are whole, damaged, of another platform and of a program that does not
// run: what is not whole leaves an earlier installation as it was.
func TestInstall(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script is for Linux and macOS")
	}
	home := t.TempDir()
	dir := filepath.Join(home, "share", "cfq")
	install := func(releases string) (string, error) {
		c := exec.Command("sh", "../../../examples/ci/install.sh")
		c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "CFQ_RELEASES=" + releases, "CFQ_DIR=" + dir}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	version := func() string {
		out, _ := exec.Command(filepath.Join(dir, "cfq")).Output()
		return strings.TrimSpace(string(out))
	}
	own := runtime.GOOS + "-" + runtime.GOARCH
	good := folderOf(t, "cfq-v1-"+own, "echo v1")
	if out, err := install(good); err != nil || !strings.HasSuffix(out, "\n"+dir+"/cfq\n") || version() != "v1" {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := install("file://" + folderOf(t, "cfq-v2-"+own, "echo v2")); err != nil || version() != "v2" {
		t.Fatalf("%v: %s", err, out)
	}
	damaged := folderOf(t, "cfq-v3-"+own, "echo v3")
	must.Do(t, os.WriteFile(filepath.Join(damaged, "cfq-v3-"+own+".tar.gz"), []byte("other"), 0o600))
	for want, releases := range map[string]string{
		"has not the hash":     damaged,
		"no archive for":       folderOf(t, "cfq-v3-plan9-amd64", "echo v3"),
		"does not run here":    folderOf(t, "cfq-v3-"+own, "exit 1"),
		"several versions":     folderOf(t, "cfq-v3-"+own, "echo v3", "cfq-v4-"+own),
		"SHA256SUMS cannot be": t.TempDir(),
	} {
		if out, err := install(releases); err == nil || !strings.Contains(out, want) || version() != "v2" {
			t.Errorf("want %q: %v, %s, %s is installed", want, err, out, version())
		}
	}
	left := must.Get(os.ReadDir(filepath.Dir(dir)))(t)
	must.Same(t, 1, len(left))
}

// folderOf is a folder with an archive of a program that is a script, and with sums that list others, too.
func folderOf(t *testing.T, name, script string, others ...string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	program := []byte("#!/bin/sh\n" + script + "\n")
	must.Do(t, os.WriteFile(filepath.Join(dir, name, "cfq"), program, 0o700))
	archive := filepath.Join(dir, name+".tar.gz")
	if out, err := exec.Command("tar", "-C", dir, "-czf", archive, name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data := must.Get(os.ReadFile(archive))(t)
	sums := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(data), name)
	for _, other := range others {
		sums += fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(nil), other)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums), 0o600))
	return dir
}
