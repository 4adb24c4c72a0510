package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// folder is a top-level folder with Go code and the top-level folders that its packages may import.
type folder struct {
	name    string
	imports string // separated by spaces; "*" is every folder above it in the table
}

// table is the architecture. A folder comes after those that it imports, so the
// table itself shows that imports go one way.
func table() []folder {
	return []folder{
		{"internal", ""},
		{"allocate", ""},
		{"onnxio", "internal"},
		{"task", "internal"},
		{"recourse", "task internal"},
		{"quant", "onnxio internal"},
		{"calib", "quant recourse onnxio internal"},
		{"sensitivity", "calib quant onnxio"},
		{"qat", "quant recourse task onnxio internal"},
		{"eval", "quant recourse task onnxio internal"},
		{"ptq", "qat eval sensitivity calib quant recourse task onnxio allocate internal"},
		{"reproduce", "eval task internal"},
		{"cmd", "*"},
	}
}

// Limits of the whole, so that it stays comprehensible.
const (
	maxFolders = 13 // top-level folders with Go code
	maxImports = 44 // imports between them
)

// tools is a module of its own that may import everything; it holds generators and the tests that need heavy modules.
const tools = "internal/tools"

// boundaries says which packages may import a module from which the rest of the project stays independent.
func boundaries() []folder {
	return []folder{
		{"github.com/yalue/onnxruntime_go", "onnxio/ort"},
		{"google.golang.org/protobuf", "internal/onnxpb onnxio/codec"},
		{"github.com/parquet-go/parquet-go", "task eval/records"},
		{"github.com/goccy/go-yaml", "internal/config task task/draft eval/gate"},
		{"github.com/spf13/pflag", "internal/cli cmd/cfq"},
		{"github.com/schollz/progressbar/v3", "internal/cli cmd/cfq"},
		{"golang.org/x/term", "internal/cli cmd/cfq"},
		{"golang.org/x/sys", "onnxio/ort"},
		{"gonum.org/v1/plot", "internal/chart"},
	}
}

// top is the top-level folder of a package.
func top(pkg string) string {
	name, _, _ := strings.Cut(pkg, "/")
	return name
}

func isTool(pkg string) bool { return pkg == tools || strings.HasPrefix(pkg, tools+"/") }

func TestTableGoesOneWay(t *testing.T) {
	rows := table()
	for i, r := range rows {
		for _, imp := range strings.Fields(r.imports) {
			at := slices.IndexFunc(rows, func(o folder) bool { return o.name == imp })
			if imp != "*" && (at < 0 || at >= i) {
				t.Errorf("%s may import %s, which is not above it in the table", r.name, imp)
			}
		}
	}
}

func TestImports(t *testing.T) {
	arrows := map[string]bool{}
	folders := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test || isTool(f.pkg) {
			continue // tests and tools may use anything
		}
		folders[top(f.pkg)] = true
		for _, problem := range check(f) {
			t.Error(problem)
		}
		for _, imp := range f.imports {
			if own, ok := ownPackage(imp); ok && top(own) != top(f.pkg) {
				arrows[top(f.pkg)+" -> "+top(own)] = true
			}
		}
	}
	t.Logf("%d top-level folders with Go code, %d imports between them", len(folders), len(arrows))
	if len(folders) > maxFolders {
		t.Errorf("%d top-level folders hold Go code: more than %d", len(folders), maxFolders)
	}
	if len(arrows) > maxImports {
		t.Errorf("there are %d imports between top-level folders: more than %d", len(arrows), maxImports)
	}
}

// check returns what is wrong with the imports of f.
func check(f source) []string {
	if f.pkg == "." {
		return []string{f.path + ": no Go file belongs at the root: the library is ptq, the command cmd/cfq"}
	}
	rows := table()
	at := slices.IndexFunc(rows, func(r folder) bool { return r.name == top(f.pkg) })
	if at < 0 {
		return []string{fmt.Sprintf("%s: folder %s has no row in the table of internal/arch", f.path, top(f.pkg))}
	}
	var problems []string
	allowed := strings.Fields(rows[at].imports)
	for _, imp := range f.imports {
		if own, ok := ownPackage(imp); ok {
			above := func(r folder) bool { return r.name == top(own) }
			switch {
			case top(own) == top(f.pkg) && !isTool(own):
			case slices.Contains(allowed, top(own)) && !isTool(own):
			case slices.Contains(allowed, "*") && slices.ContainsFunc(rows[:at], above) && !isTool(own):
			default:
				problems = append(problems,
					fmt.Sprintf("%s: %s must not import %s; it may import: %s", f.path, top(f.pkg), own, rows[at].imports))
			}
			continue
		}
		for _, b := range boundaries() {
			if (imp == b.name || strings.HasPrefix(imp, b.name+"/")) && !slices.Contains(strings.Fields(b.imports), f.pkg) {
				problems = append(problems, fmt.Sprintf("%s: %s must not import %s; only %s may", f.path, f.pkg, imp, b.imports))
			}
		}
	}
	return problems
}

// The check finds what it is there to find.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		pkg     string
		imports string // "./" is the module
		want    string // "" for no problem
	}{
		{"onnxio/ort", "./onnxio/graph ./onnxio context github.com/yalue/onnxruntime_go", ""},
		{"onnxio/graph", "./task", "onnxio must not import task"},
		{"recourse", "./onnxio/classifier", "recourse must not import onnxio/classifier"},
		{"eval", "github.com/yalue/onnxruntime_go", "only onnxio/ort may"},
		{"onnxio/graph", "google.golang.org/protobuf/proto", "only internal/onnxpb onnxio/codec may"},
		{"onnxio/graph", ".", "onnxio must not import ."},
		{".", "./ptq", "no Go file belongs at the root"},
		{"helpers", "", "no row"},
		{"cmd/cfq", "./ptq ./eval/report ./quant/qdq", ""},
		{"cmd/cfq", "./internal/tools/docgen", "must not import internal/tools/docgen"},
		{"internal/cli", "./internal/tools/docgen", "must not import internal/tools/docgen"},
	} {
		f := source{pkg: c.pkg, imports: strings.Fields(c.imports)}
		for i, imp := range f.imports {
			if own, ok := strings.CutPrefix(imp, "."); ok {
				f.imports[i] = module + own
			}
		}
		got := strings.Join(check(f), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s importing %q: got %q, want %q", c.pkg, c.imports, got, c.want)
		}
	}
}
