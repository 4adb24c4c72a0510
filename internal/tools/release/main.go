// Release builds archives, Python wheels and Debian packages that hold the program, its library and what a user may
// want to read.
//
// In: the source of this module, a C compiler for other platforms (zig), and the npm package with the libraries of ONNX
// Runtime; or, for this platform alone, the machine's compiler and the cached library. Out: in the output folder an
// archive, packages and a bill of materials for each platform, install.sh, and SHA256SUMS. The
// invariants: the same commit gives the same bytes, every library has its pinned hash, and what is for the
// platform that this runs on has been installed and tried, without anything else in the environment.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"cfq/internal/tools/ortpackage"
	"cfq/onnxio/ort"
)

// platform is one to build for.
type platform struct {
	os, arch string
	target   string // what zig calls it
}

const oldGlibc = "2.28" // the oldest version that ONNX Runtime runs with

func platforms() []platform {
	return []platform{
		{"linux", "amd64", "x86_64-linux-gnu." + oldGlibc},
		{"linux", "arm64", "aarch64-linux-gnu." + oldGlibc},
		{"windows", "amd64", "x86_64-windows-gnu"},
		{"darwin", "arm64", "aarch64-macos"},
	}
}

func (p platform) String() string { return p.os + "/" + p.arch }

// builder is one run.
type builder struct {
	out, version, tarball string
	own                   bool     // this platform alone, with the machine's compiler
	zig                   []string // command line of zig
	glibc                 string   // the oldest version that the programs for Linux run with
	date                  time.Time
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	b := &builder{}
	flag.StringVar(&b.out, "o", "build/release", "`folder` for the archives")
	flag.StringVar(&b.version, "version", "", "`version` in the names; else that of git describe")
	flag.StringVar(&b.tarball, "tarball", "", "take libraries from this `file` instead of running npm")
	flag.BoolVar(&b.own, "own", false, "build for this platform alone, with its C compiler and the library in the cache")
	only := flag.String("platforms", "", "`list` such as linux/amd64,windows/amd64; all when empty")
	flag.Parse()
	if err := b.run(*only); err != nil {
		log.Fatal("error: ", err)
	}
}

func (b *builder) run(only string) error {
	list := slices.DeleteFunc(platforms(), func(p platform) bool {
		return only != "" && !slices.Contains(strings.Split(only, ","), p.String())
	})
	if b.own {
		list = []platform{{os: runtime.GOOS, arch: runtime.GOARCH}}
	}
	if len(list) == 0 {
		return fmt.Errorf("no such platform: %s; there are %v", only, platforms())
	}
	if err := b.prepare(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.tarball == "" && !b.own {
		if b.tarball, err = ortpackage.Pack(dir); err != nil {
			return err
		}
	}
	var sums []string
	for _, p := range list {
		if p.os == "darwin" && !b.own { // to link a program needs Apple's frameworks: it is built on a Mac, with -own
			log.Printf("%s: checking types", p)
			if err := b.compile(p, "vet", "./cmd/cfq"); err != nil {
				return err
			}
			continue
		}
		files, err := b.release(p, filepath.Join(dir, p.os+"-"+p.arch))
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		sums = append(sums, files...)
	}
	script, err := os.ReadFile("examples/ci/install.sh")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.out, "install.sh"), script, 0o755); err != nil {
		return err
	}
	sums = append(sums, sumOf("install.sh", script))
	slices.Sort(sums)
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644)
}

// prepare looks for what a build needs before it begins.
func (b *builder) prepare() error {
	b.zig = strings.Fields(os.Getenv("ZIG"))
	if len(b.zig) == 0 {
		b.zig = []string{"zig"}
	}
	b.glibc = oldGlibc
	if b.own && runtime.GOOS == "linux" {
		out, err := exec.Command("getconf", "GNU_LIBC_VERSION").Output()
		if err != nil {
			return fmt.Errorf("getconf GNU_LIBC_VERSION: %w", err)
		}
		b.glibc = strings.TrimSpace(strings.TrimPrefix(string(out), "glibc"))
	}
	if !b.own {
		out, err := exec.Command(b.zig[0], append(b.zig[1:], "version")...).Output()
		if err != nil {
			return fmt.Errorf("%s: %w; other platforms need a C compiler for them: install zig, or `pip install ziglang` "+
				"and ZIG='python3 -m ziglang'", strings.Join(b.zig, " "), err)
		}
		log.Printf("C compiler: zig %s", strings.TrimSpace(string(out)))
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	stamp, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return fmt.Errorf("the date of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return err
	}
	b.date = time.Unix(seconds, 0).UTC()
	if b.version == "" {
		b.version, err = git("describe", "--tags", "--match", "v[0-9]*", "--always", "--dirty")
		if strings.HasSuffix(b.version, "-dirty") {
			err = errors.New("files differ from the commit: commit them, or name a -version")
		}
	}
	if err != nil {
		return err
	}
	earlier, _ := filepath.Glob(filepath.Join(b.out, "cfq[-_]*")) // SHA256SUMS would not list them
	for _, path := range earlier {
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, os.MkdirAll(b.out, 0o755))
}

// release builds, packs and tries one platform, and returns the lines of SHA256SUMS.
func (b *builder) release(p platform, dir string) ([]string, error) {
	r, err := ort.PinnedFor(p.String())
	if err != nil {
		return nil, err
	}
	lib, err := b.library(r)
	if err != nil {
		return nil, err
	}
	program := "cfq"
	if p.os == "windows" {
		program += ".exe"
	}
	path := filepath.Join(dir, program)
	log.Printf("%s: building", p)
	if err := b.compile(p, "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/cfq"); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := []member{{program, binary, 0o755}, {r.Name, lib, 0o644}, {"ONNXRUNTIME-LICENSE", []byte(ortLicense), 0o644}}
	for _, f := range []member{
		{"LICENSE", nil, 0o644},
		{"NOTICE", nil, 0o644},
		{"README.md", nil, 0o644},
		{"CHANGELOG.md", nil, 0o644},
		{"examples/ci/gate.sh", nil, 0o755},
	} {
		data, err := os.ReadFile(f.name)
		if err != nil {
			return nil, err
		}
		files = append(files, member{filepath.Base(f.name), data, f.mode})
	}
	name := fmt.Sprintf("cfq-%s-%s-%s", b.version, p.os, p.arch)
	archive, data, err := pack(name, p.os == "windows", files, b.date)
	if err != nil {
		return nil, err
	}
	made := []member{{archive, data, 0o644}}
	add := func(name string, data []byte, e error) {
		err = errors.Join(err, e)
		made = append(made, member{name, data, 0o644})
	}
	if p.os != "darwin" {
		add(wheel(p, b.glibc, b.version, files, b.date))
	}
	if _, missing := exec.LookPath("dpkg-deb"); p.os == "linux" && missing == nil {
		add(deb(p, b.glibc, b.version, dir, files, b.date))
	} else if p.os == "linux" {
		log.Printf("%s: no Debian package: %v", p, missing)
	}
	bill, e := billOf(path, b.version, r, b.date)
	add(name+".cdx.json", bill, e)
	if err != nil {
		return nil, err
	}
	return b.write(p, made)
}

// compile runs the go command for a platform.
func (b *builder) compile(p platform, args ...string) error {
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS="+p.os, "GOARCH="+p.arch)
	if !b.own {
		c.Env = append(c.Env, "CC="+strings.Join(append(slices.Clone(b.zig), "cc", "-target", p.target), " "))
	}
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("go %s for %s: %w", args[0], p, err)
	}
	return nil
}

// write writes files of a platform, tries those that can be installed, and returns their lines of SHA256SUMS.
func (b *builder) write(p platform, made []member) (sums []string, err error) {
	for _, f := range made {
		path, err := filepath.Abs(filepath.Join(b.out, f.name))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, f.data, f.mode); err != nil {
			return nil, err
		}
		sums = append(sums, sumOf(f.name, f.data))
		if strings.HasSuffix(f.name, ".json") {
			continue
		}
		log.Printf("%s: %s, %.1f MB", p, f.name, float64(len(f.data))/1e6)
		if err := b.try(p, path); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return sums, nil
}

// library is the one for a release: out of the package, or out of the cache.
func (b *builder) library(r ort.Release) ([]byte, error) {
	if b.tarball != "" {
		return ortpackage.Library(b.tarball, r)
	}
	path, err := ort.CachePath()
	if err != nil {
		return nil, err
	}
	lib, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w; `make ort` fetches it", err)
	}
	if ortpackage.Hash(lib) != r.SHA256 {
		return nil, fmt.Errorf("%s has not the pinned hash: remove it and run `make ort`", path)
	}
	return lib, nil
}

// sumOf is the line of a file in SHA256SUMS.
func sumOf(name string, data []byte) string {
	return fmt.Sprintf("%s  %s\n", ortpackage.Hash(data), name)
}
