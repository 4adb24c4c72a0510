package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// row says what a package may import of the project. Packages are listed after
// those that they import, so the table itself shows that data flows one way.
type row struct {
	pkg     string // path below the module; "." is the module's root, "a/..." all below a
	imports string // space-separated; "*" is everything above
}

// table is the import table. A package below another one in a directory is a
// package of its own, except quant/qdq, which counts as a part of quant.
func table() []row {
	return []row{
		{"internal/onnxpb", ""},
		{"internal/message", ""},
		{"internal/config", "internal/message"},
		{"internal/cli", "internal/message"},
		{"internal/chart", ""},
		{"internal/cache", ""},
		{"internal/arch", ""},
		{"internal/realdata", ""},
		{"testdata/...", ""},

		{"onnxio/graph", ""},
		{"onnxio", "onnxio/graph internal/onnxpb"},
		{"onnxio/autodiff", "onnxio/graph"},
		{"onnxio/ort", "onnxio/graph onnxio"},
		{"onnxio/ort/orttest", "onnxio/graph onnxio/ort"},
		{"quant", "onnxio/graph"},
		{"quant/qdq", "onnxio/graph quant"},
		{"quant/verify", "onnxio/graph onnxio onnxio/ort quant quant/qdq"},
		{"task", "internal/config internal/message"},
		{"task/draft", "task internal/message"},
		{"calib/record", "task"},
		{"onnxio/classifier", "onnxio/graph onnxio onnxio/autodiff onnxio/ort"},
		{"recourse", "task"},
		{"recourse/promise", "task recourse"},
		{"calib", "recourse onnxio/classifier quant"},
		{"sensitivity", "onnxio/classifier quant"},
		{"calib/refine", "onnxio/classifier quant"},
		{"allocate", ""},
		{"qat", "onnxio/graph onnxio/autodiff onnxio/ort quant quant/qdq onnxio/classifier recourse"},
		{"eval", "recourse task internal/message"},
		{"eval/certify", "onnxio/graph onnxio onnxio/ort quant quant/qdq quant/verify onnxio/classifier eval"},
		{"eval/footprint", "onnxio/graph onnxio onnxio/ort quant quant/qdq eval"},
		{"eval/gate", "eval internal/config internal/message"},
		{"eval/report", "recourse eval eval/gate internal/chart"},

		{"ptq", "internal/cache onnxio/graph onnxio onnxio/ort quant quant/qdq quant/verify task onnxio/classifier recourse calib sensitivity calib/refine allocate qat eval"},
		{"cmd/cfq", "*"},
		{"internal/tools/...", "*"},
	}
}

// boundaries says which packages may import certain modules: those that the
// rest of the project must not depend on.
func boundaries() []row {
	return []row{
		{"github.com/yalue/onnxruntime_go", "onnxio/ort"},
		{"google.golang.org/protobuf", "internal/onnxpb onnxio"},
		{"github.com/goccy/go-yaml", "internal/config task task/draft eval/gate internal/tools/pipelines"},
		{"github.com/spf13/pflag", "internal/cli cmd/cfq"},
		{"github.com/schollz/progressbar/v3", "internal/cli cmd/cfq"},
		{"golang.org/x/term", "internal/cli cmd/cfq"},
		{"gonum.org/v1/plot", "internal/chart"},
		{"codeberg.org/go-fonts/liberation", "internal/chart"},
		{"golang.org/x/image", "internal/chart"},
		{"github.com/invopop/jsonschema", "internal/tools/docgen"},
	}
}

func TestTableGoesOneWay(t *testing.T) {
	rows := table()
	for i, r := range rows {
		for _, imp := range strings.Fields(r.imports) {
			at := slices.IndexFunc(rows, func(o row) bool { return o.pkg == imp })
			if imp != "*" && (at < 0 || at >= i) {
				t.Errorf("%s may import %s, which is not above it in the table", r.pkg, imp)
			}
		}
	}
}

func TestImports(t *testing.T) {
	files := goFiles(t)
	for _, f := range files {
		if f.test {
			continue // tests may use anything
		}
		for _, problem := range check(f) {
			t.Error(problem)
		}
	}
}

// check returns what is wrong with the imports of f.
func check(f source) []string {
	rows := table()
	at := slices.IndexFunc(rows, func(r row) bool { return covers(r.pkg, f.pkg) })
	if at < 0 {
		return []string{fmt.Sprintf("package %s (%s) has no row in the import table of internal/arch", f.pkg, f.path)}
	}
	var problems []string
	allowed := strings.Fields(rows[at].imports)
	for _, imp := range f.imports {
		if own, ok := ownPackage(imp); ok {
			switch {
			case slices.Contains(allowed, own):
			case slices.Contains(allowed, "*") && slices.ContainsFunc(rows[:at], func(r row) bool { return covers(r.pkg, own) }):
			case strings.HasPrefix(own, f.pkg+"/internal/"):
			default:
				problems = append(problems, fmt.Sprintf("%s: package %s must not import %s; it may import: %s", f.path, f.pkg, own, rows[at].imports))
			}
			continue
		}
		for _, b := range boundaries() {
			if (imp == b.pkg || strings.HasPrefix(imp, b.pkg+"/")) && !slices.Contains(strings.Fields(b.imports), f.pkg) {
				problems = append(problems, fmt.Sprintf("%s: package %s must not import %s; only %s may", f.path, f.pkg, imp, b.imports))
			}
		}
	}
	return problems
}

// covers reports whether a row for pattern holds for pkg.
func covers(pattern, pkg string) bool {
	dir, below := strings.CutSuffix(pattern, "/...")
	return pkg == pattern || (below && (pkg == dir || strings.HasPrefix(pkg, dir+"/")))
}

// The check finds what it is there to find.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		f    source
		want string // "" for no problem
	}{
		{source{pkg: "onnxio/ort", imports: []string{"cfq/onnxio/graph", "cfq/onnxio", "context", "github.com/yalue/onnxruntime_go"}}, ""},
		{source{pkg: "onnxio/graph", imports: []string{"cfq/onnxio"}}, "package onnxio/graph must not import onnxio"},
		{source{pkg: "recourse", imports: []string{"cfq/onnxio/classifier"}}, "package recourse must not import onnxio/classifier"},
		{source{pkg: "eval", imports: []string{"github.com/yalue/onnxruntime_go"}}, "only onnxio/ort may"},
		{source{pkg: "onnxio/graph", imports: []string{"google.golang.org/protobuf/proto"}}, "only internal/onnxpb onnxio may"},
		{source{pkg: "onnxio/graph", imports: []string{"cfq"}}, "package onnxio/graph must not import ."},
		{source{pkg: "helpers"}, "no row"},
		{source{pkg: "cmd/cfq", imports: []string{"cfq/ptq", "cfq/eval/report", "cfq/quant/qdq"}}, ""},
		{source{pkg: "internal/tools/docgen", imports: []string{"cfq/cmd/cfq", "cfq/testdata/loans"}}, ""},
		{source{pkg: "cmd/cfq", imports: []string{"cfq/internal/tools/docgen"}}, "must not import internal/tools/docgen"},
	} {
		got := strings.Join(check(c.f), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s importing %q: got %q, want %q", c.f.pkg, c.f.imports, got, c.want)
		}
	}
}
