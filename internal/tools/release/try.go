package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// try installs a file of a release for this platform into a new folder, as its users would, and runs the program from
// training to the verdict of a gate, without any other variable than PATH and HOME: it must find its own library.
func try(p platform, file string) error {
	if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
		log.Printf("%s: not tried, this is %s/%s", filepath.Base(file), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	dir, err := os.MkdirTemp("", "release-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var steps [][]string
	program := filepath.Join(dir, "*", "cfq")
	switch {
	case strings.HasSuffix(file, ".whl"):
		python := "python3"
		if out, err := exec.Command(python, "-c", "import ensurepip, venv").CombinedOutput(); err != nil {
			log.Printf("%s: not tried, python3 makes no virtual environments: %v %s", filepath.Base(file), err, out)
			return nil
		}
		pip := filepath.Join(dir, "venv", "bin", "pip")
		steps = [][]string{
			{python, "-m", "venv", filepath.Join(dir, "venv")},
			{pip, "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", file},
		}
		program = filepath.Join(dir, "venv", "bin", "cfq")
	case strings.HasSuffix(file, ".deb"):
		steps = [][]string{{"dpkg-deb", "-x", file, dir}}
		program = filepath.Join(dir, "usr", "bin", "cfq")
	case strings.HasSuffix(file, ".zip"):
		steps = [][]string{{"unzip", "-q", file, "-d", dir}}
		program += ".exe"
	default:
		steps = [][]string{{"tar", "-xzf", file, "-C", dir}}
	}
	for _, s := range steps {
		if out, err := exec.Command(s[0], s[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(s, " "), err, out)
		}
	}
	found, err := filepath.Glob(program)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%s: no program at %s", file, program)
	}
	if err := errors.Join(err, scenario(dir, strings.Join(found, ""))); err != nil {
		return err
	}
	log.Printf("%s: installed and tried, doctor, train, quantize and gate pass", filepath.Base(file))
	return nil
}

// scenario runs the program in a folder.
func scenario(dir, program string) error {
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
		c := exec.Command(program, args...)
		c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			return fmt.Errorf("cfq %s: %w\n%s", args[0], err, out)
		}
		if args[0] == "doctor" && !strings.Contains(string(out), "program") {
			return fmt.Errorf("cfq doctor found another library than its own:\n%s", out)
		}
	}
	return nil
}
