package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"cfq/autodiff"
	"cfq/eval"
	"cfq/quant"
	"cfq/task"
)

// pages lists what is generated.
func pages() []page {
	plain := func(text func() string) func() (string, error) {
		return func() (string, error) { return text(), nil }
	}
	return []page{
		{"operators.md", "package autodiff", plain(autodiff.Markdown)},
		{"metrics.md", "package eval", plain(eval.MetricsMarkdown)},
		{"formats.md", "package quant", plain(formats)},
		{"task.md", "package task", plain(task.Markdown)},
		{"task.schema.json", "package task", plain(func() string { return string(task.Schema()) })},
		{"command.md", "cmd/cfq", command},
	}
}

// formats shows the number formats of weights.
func formats() string {
	var b strings.Builder
	b.WriteString(`# Number formats of weights

A weight is a signed integer code times a scale, with zero point 0; a scale belongs to the whole
tensor or to one output of the layer. Codes are stored in the container below and are int8 by the
time an integer kernel sees them: what unpacks them is folded when the file is loaded, so every
width runs at the speed of 8 bits. The container is chosen per layer by its size in the file.

| bits | codes | container |
|---|---|---|
`)
	for _, f := range quant.Formats() {
		fmt.Fprintf(&b, "| %d | %d to %d | %s |\n", f.Bits, f.QMin, f.QMax, f.Doc)
	}
	fmt.Fprintf(&b, `
8-bit codes are kept within -%d to %d when a layer is marked reduced: two products with an 8-bit
activation then fit the 16-bit sums of x64 CPUs without VNNI, and every machine computes the same.
Narrower codes are always within that range.

Activations are unsigned 8-bit codes with a scale and a zero point (0 behind a Relu). Fewer bits are
a Clip between quantization and dequantization, which keeps the integer kernels. The last layer has no output
quantizer: logits are float32.
`, quant.ReducedMax, quant.ReducedMax)
	return b.String()
}

// command is the help of the command, as the command prints it.
func command() (string, error) {
	var out, errs strings.Builder
	c := exec.Command("go", "run", "./cmd/cfq", "help", "--markdown")
	c.Dir, c.Stdout, c.Stderr = root(), &out, &errs
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("running %s: %w\n%s", c, err, errs.String())
	}
	return "# The command\n\nWhat `cfq help` and `cfq help SUBCOMMAND` print.\n\n" + out.String(), nil
}

// root is the directory of the module: the nearest one above with a go.mod.
func root() string {
	dir := "."
	for range 8 {
		if _, err := os.Stat(dir + "/go.mod"); err == nil {
			return dir
		}
		dir += "/.."
	}
	return "."
}
