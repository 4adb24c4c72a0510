package main

import (
	_ "embed" // the prefaces of pages
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cfq/eval/gate"
	"cfq/eval/metrics"
	"cfq/internal/config"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/refuse"
	"cfq/ptq"
	"cfq/quant"
	"cfq/reproduce"
	"cfq/task"
)

// pages lists what is generated.
func pages() []page {
	plain := func(text func() string) func() (string, error) {
		return func() (string, error) { return text(), nil }
	}
	gateKeys, checkKeys := gate.Keys()
	return append([]page{
		{"models.md", "packages refuse and autodiff", plain(models)},
		{"metrics.md", "package eval", plain(metricsPage)},
		{"files.md#formats", "package quant", plain(formats)},
		{"method.md#methods", "package ptq", plain(methods)},
		{"pipeline.md#gate-keys", "package gate", plain(func() string { return keyTable(gateKeys) })},
		{"pipeline.md#check-keys", "package gate", plain(func() string { return keyTable(checkKeys) })},
		{"gate.schema.json", "package gate", plain(func() string { return string(gate.Schema()) })},
		{"task.md", "package task", plain(task.Markdown)},
		{"task.schema.json", "package task", plain(func() string { return string(task.Schema()) })},
		{"results.md", "docs/results.csv", results},
		{"command.md", "cmd/cfq", command},
		{"../NOTICE", "the modules that are linked", notice},
	}, layouts()...)
}

// models says which models work, and by which operators.
func models() string { return refuse.Markdown() + "\n" + autodiff.Markdown() }

// metricsPreface says how to read the page of the metrics.
//
//go:embed metrics.txt
var metricsPreface string

// metricsPage defines every metric.
func metricsPage() string {
	var b strings.Builder
	b.WriteString(metricsPreface)
	text := strings.NewReplacer("<", "&lt;", ">", "&gt;")
	section := ""
	for _, m := range metrics.All() {
		if m.Section != section {
			section = m.Section
			fmt.Fprintf(&b, "\n## %s\n", section)
		}
		title := m.Name
		if m.Symbol != "" {
			title = m.Symbol + ": " + title
		}
		fmt.Fprintf(&b, "\n### %s\n\n`%s`, %s, %s. %s", title, m.Key(), m.Unit, m.Better, text.Replace(m.Definition))
		if m.Source != metrics.Own {
			fmt.Fprintf(&b, " Source: %s.", m.Source)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// resultsPreface says how the results are measured and what they show.
//
//go:embed results.txt
var resultsPreface string

// results shows what cfq reproduce measured.
func results() (string, error) {
	f, err := os.Open(filepath.Join(root(), "docs", "results.csv"))
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it is only read
	all, err := reproduce.ReadResults(f)
	if err != nil {
		return "", fmt.Errorf("docs/results.csv: %w", err)
	}
	return resultsPreface + reproduce.Markdown(all), nil
}

// keyTable shows the keys of a mapping of a gate file.
func keyTable(keys []config.Key) string {
	var b strings.Builder
	b.WriteString("| key | meaning | default |\n|---|---|---|\n")
	for _, k := range keys {
		fallback := k.Fallback
		if fallback == config.Required {
			fallback = "**required**"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, k.Doc, fallback)
	}
	return b.String()
}

// formats shows the number formats of weights.
func formats() string {
	var b strings.Builder
	b.WriteString(
		`A weight is a signed integer code times a scale, with zero point 0. The container is chosen per layer by its
size in the file.

| bits | codes | container |
|---|---|---|
`,
	)
	for _, f := range quant.Formats() {
		fmt.Fprintf(&b, "| %d | %d to %d | %s |\n", f.Bits, f.QMin, f.QMax, f.Doc)
	}
	fmt.Fprintf(&b, `
In layers that compute on integers 8-bit codes stay within -%d to %d: two products with an 8-bit activation then fit
the 16-bit sums of x64 CPUs without VNNI, and every machine computes the same. `+"`write.full-range`"+` gives them all
codes, for servers that are known to have VNNI, or ARM processors. Activations are unsigned 8-bit codes;
fewer bits are a Clip between quantization and dequantization, which keeps the integer kernels.
`, quant.ReducedMax, quant.ReducedMax)
	return b.String()
}

// methods shows the settings that a method stands for.
func methods() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, m := range ptq.Methods() {
		fmt.Fprintf(&b, " `%s` |", m.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(ptq.Methods())) + "\n")
	line := func(name string, of func(*ptq.Method) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, m := range ptq.Methods() {
			fmt.Fprintf(&b, " %s |", of(&m))
		}
		b.WriteString("\n")
	}
	for _, k := range ptq.Distinguishing() {
		line("`"+k.Name+"`", func(m *ptq.Method) string { return k.Get(&m.Recipe) })
	}
	line("row of the paper", func(m *ptq.Method) string { return m.Paper })
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
	return "# The command\n\nThe help of `cfq`. Flags that all subcommands share are described once.\n\n" +
		"" + out.String(), nil
}

// root is the directory of the project: the nearest one at or above this with the command, since the tools are a module
// of their own.
func root() string {
	dir := "."
	for range 8 {
		if _, err := os.Stat(dir + "/cmd/cfq"); err == nil {
			return dir
		}
		dir += "/.."
	}
	return "."
}
