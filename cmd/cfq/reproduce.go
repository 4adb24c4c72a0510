package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio/ort"
	"cfq/reproduce"
)

type reproduceFlags struct {
	data, out     string
	seeds, sample int
}

func (f *reproduceFlags) variables() variables {
	return variables{"data": &f.data, "output": &f.out, "seeds": &f.seeds, "sample": &f.sample}
}

func tableNames() []string { return append(reproduce.Names(reproduce.Tables()), "all") }

func (f *reproduceFlags) run(ctx context.Context, e *env, args []string) error {
	tables, err := f.check(args)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	version := release()
	if version == "(devel)" { // builds between releases are told apart by their bytes
		_, sum, err := fileHash(program)
		if err != nil {
			return err
		}
		version += " " + sum[:12]
	}
	engine, err := ort.Find(e.lib)
	if err != nil {
		return err
	}
	show := e.progress()
	l := &reproduce.Lab{
		Data: f.data, Out: f.out, Seeds: f.seeds, Sample: f.sample, Workers: e.workers,
		Version: version + " with ONNX Runtime " + engine.Version,
		Run: func(ctx context.Context, args []string, stdout io.Writer) (float64, error) {
			return again(ctx, program, e.lib, args, stdout)
		},
		Progress: func(done, total int) { show(eval.Event{Stage: "measuring", Done: done, Total: total}) },
	}
	path, page := filepath.Join(f.out, "results.csv"), filepath.Join(f.out, "report.html")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return cli.WithCode(err, cli.Unusable)
	}
	old, err := reproduce.ReadResults(bytes.NewReader(text)) // before hours of measuring
	if err != nil {
		return cli.WithCode(fmt.Errorf("%s: %w", path, err), cli.Unusable)
	}
	results, all, failed := l.Measure(ctx, tables, old)
	if ctx.Err() != nil {
		e.msg.Warn("the same command goes on from there")
		return ctx.Err()
	}
	if results == nil {
		return cli.WithCode(failed, cli.Unusable)
	}
	err = cmp.Or(cli.Write(path, func(w io.Writer) error { return reproduce.WriteResults(w, all) }),
		cli.Write(page, func(w io.Writer) error { return reproduce.HTML(w, all) }))
	if err != nil {
		return err
	}
	return errors.Join(e.show(results, func(w *textView) { fmt.Fprintf(w, "%s\n%s\n", path, page) }), failed)
}

func (f *reproduceFlags) check(args []string) ([]reproduce.Table, error) {
	all := reproduce.Tables()
	names := reproduce.Names(all)
	if len(args) == 0 {
		return nil, cli.Usagef(cli.HintArguments, "missing TABLE: want %s or all", strings.Join(names, ", "))
	}
	var tables []reproduce.Table
	for i, name := range args {
		at := slices.Index(names, name)
		switch {
		case name == "all" && len(args) == 1:
			tables = all
		case at < 0:
			return nil, cli.Usagef(cli.HintArguments, "unknown table %q%s", name, message.DidYouMean(name, append(names, "all")))
		case !slices.Contains(args[:i], name):
			tables = append(tables, all[at])
		}
	}
	if f.data == "" {
		return nil, cli.Usagef(hintMissingData, "--data is missing: the folder with the data sets")
	}
	_, err := outputFolder(f.out)
	return tables, err
}

const patience = 10 * time.Second

// again runs this program with other arguments, on one core, and returns the processor's seconds. Settings of the
// environment that stand for flags do not reach it: the recorded commands would not show them.
func again(ctx context.Context, program, lib string, args []string, stdout io.Writer) (float64, error) {
	cmd := exec.CommandContext(ctx, program, append(slices.Clone(args), "--workers", "1", "--quiet")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = patience
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "CFQ_") && name != ort.LibEnv && name != "CFQ_CACHE_DIR"
	})
	if lib != "" {
		cmd.Env = append(cmd.Env, ort.LibEnv+"="+lib)
	}
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("cfq %s: %w: %s", strings.Join(args, " "), err, errorLines(stderr.String()))
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}

func errorLines(stderr string) string {
	var lines []string
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(line, "cfq: error: "); ok {
			lines = append(lines, strings.TrimRight(text, "\n"))
		}
	}
	if lines == nil {
		return strings.TrimSpace(stderr)
	}
	return strings.Join(lines, "\n")
}
