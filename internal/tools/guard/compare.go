package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cfq/onnxio/codec"
)

// renamedFlags are flags of the earlier program by the setting that the later one has in their place.
func renamedFlags() map[string]string {
	return map[string]string{
		"write.compute": "--compute", "train.steps": "--train-steps", "calibrate.teacher-sample": "--teacher-sample",
	}
}

// earlierArgs are the arguments of a case as the earlier program reads them.
func earlierArgs(args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		if args[i] != "--set" {
			out = append(out, args[i])
			continue
		}
		i++
		key, value, _ := strings.Cut(args[i], "=")
		out = append(out, renamedFlags()[key], value)
	}
	return out
}

// renamedKeys are keys of JSON of the earlier program; "" is one that was deleted.
func renamedKeys() map[string]string {
	return map[string]string{
		"psi": "", "shift": "", "approval_ratio": "", "classes": "", "changes": "", "steps": "",
		"ks_full": "", "ks_quant": "", "brier_full": "", "brier_quant": "", "calibration_full": "", "calibration_quant": "",
	}
}

// provenance are keys, and metrics of comparisons, that name the program, the command and files that hold both.
func provenance() []string {
	return []string{"tool", "command", "sha256", "bytes", "recipe", "cfq", "model_sha256", "fingerprint"}
}

// compare runs the case on both sides and returns the first difference.
func (c testCase) compare(ctx context.Context, before, after side) error {
	a, codeA, err := c.run(ctx, before, earlierArgs(c.args))
	if err != nil {
		return err
	}
	b, codeB, err := c.run(ctx, after, c.args)
	if err != nil {
		return err
	}
	if codeA != codeB {
		return fmt.Errorf("exit code %d, before %d", codeB, codeA)
	}
	if slices.Contains(c.args, "--json") {
		if err := sameJSON(a, b); err != nil {
			return err
		}
	}
	for _, f := range c.files {
		if err := sameFile(filepath.Join(before.dir, f), filepath.Join(after.dir, f)); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	return nil
}

func (c testCase) run(ctx context.Context, s side, args []string) (stdout []byte, code int, err error) {
	for _, f := range c.files {
		if err := os.Remove(filepath.Join(s.dir, f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, 0, err
		}
	}
	cmd := exec.CommandContext(ctx, s.program, append(args, "-q")...)
	if len(c.files) > 0 {
		cmd.Args = append(cmd.Args, "--overwrite")
	}
	cmd.Dir = s.dir
	var problems bytes.Buffer
	cmd.Stderr = &problems
	stdout, err = cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 5): // a verdict
		return stdout, exit.ExitCode(), nil
	case err != nil:
		return nil, 0, fmt.Errorf("%s: %w: %s", s.name, err, problems.String())
	}
	return stdout, 0, nil
}

func sameFile(a, b string) error {
	x, errX := content(a)
	y, errY := content(b)
	switch {
	case errX != nil || errY != nil:
		return errors.Join(errX, errY)
	case filepath.Ext(a) == ".plan":
		return sameJSON(x, y)
	case !bytes.Equal(x, y):
		return fmt.Errorf("%d bytes, before %d, and they differ", len(y), len(x))
	}
	return nil
}

// content is a file; of a model it is the graph without metadata.
func content(name string) ([]byte, error) {
	if filepath.Ext(name) != ".onnx" {
		return os.ReadFile(name)
	}
	m, err := codec.ReadFile(name)
	if err != nil {
		return nil, err
	}
	m.Metadata = nil
	m.ProducerVersion = ""
	return codec.Marshal(m)
}

func sameJSON(a, b []byte) error {
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		return err
	}
	return same("", x, y)
}

// same compares decoded JSON; path says where a difference is.
func same(path string, before, after any) error {
	switch x := before.(type) {
	case map[string]any:
		y, ok := after.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is no longer an object", path)
		}
		return sameObjects(path, x, y)
	case []any:
		y, ok := after.([]any)
		if !ok || len(x) != len(y) {
			return fmt.Errorf("%s has other elements: %.200v, before %.200v", path, after, before)
		}
		for i := range x {
			if err := same(fmt.Sprintf("%s[%d]", path, i), x[i], y[i]); err != nil {
				return err
			}
		}
		return nil
	case float64:
		y, ok := after.(float64)
		if !ok || math.Abs(x-y) > 1e-12*max(1, math.Abs(x)) {
			return fmt.Errorf("%s is %v, before %v", path, after, before)
		}
		return nil
	}
	if before != after {
		return fmt.Errorf("%s is %.200v, before %.200v", path, after, before)
	}
	return nil
}

func sameObjects(path string, before, after map[string]any) error {
	if metric, _ := before["metric"].(string); slices.Contains(provenance(), metric) && metric == after["metric"] {
		return nil
	}
	left := map[string]bool{}
	for key := range after {
		left[key] = !slices.Contains(provenance(), key)
	}
	for key, x := range before {
		now, renamed := renamedKeys()[key]
		if !renamed {
			now = key
		}
		if now == "" || slices.Contains(provenance(), key) {
			continue
		}
		y, ok := after[now]
		if !ok {
			return fmt.Errorf("%s.%s is gone", path, now)
		}
		if err := same(path+"."+now, x, y); err != nil {
			return err
		}
		delete(left, now)
	}
	maps.DeleteFunc(left, func(_ string, is bool) bool { return !is })
	if added := slices.Sorted(maps.Keys(left)); len(added) > 0 {
		return fmt.Errorf("%s has new keys: %s", path, strings.Join(added, ", "))
	}
	return nil
}
