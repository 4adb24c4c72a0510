package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// try installs a file of a release into a new folder, as its users would, and runs the program from training to the
// verdict of a gate, without any other variable than PATH and HOME: it must find its own library. Programs for another
// platform are run by an emulator, where this machine has one.
func (b *builder) try(p platform, file string) error {
	dir, err := os.MkdirTemp("", "release-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	run, why := b.emulator(p, dir)
	if why == "" && run != nil && strings.HasSuffix(file, ".whl") {
		why = "pip takes no wheels for another platform"
	}
	if why != "" {
		log.Printf("%s: not tried: %s", filepath.Base(file), why)
		return nil
	}
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
	run = append(run, found...)
	if err := errors.Join(err, scenario(dir, run)); err != nil {
		return err
	}
	by := ""
	if len(run) > 1 {
		by = " by an emulator"
	}
	log.Printf("%s: installed and tried%s, doctor, train, quantize and gate pass", filepath.Base(file), by)
	return nil
}

// scenario runs the program of a command in a folder.
func scenario(dir string, program []string) error {
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
		c := exec.Command(program[0], append(program[1:len(program):len(program)], args...)...)
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
