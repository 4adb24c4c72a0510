package trouble

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every row can be found, read and followed.
func TestTable(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, e := range Errors() {
		if !id.MatchString(e.ID) || seen[e.ID] {
			t.Errorf("%q is no ID, or stands twice in the table", e.ID)
		}
		seen[e.ID] = true
		if len(e.Messages) == 0 || !strings.HasSuffix(e.Meaning, ".") || e.Hint == "" || strings.HasSuffix(e.Hint, ".") {
			t.Errorf("%s: no message, a meaning that is no sentence, or a hint that is one", e.ID)
		}
		if e.Code < Missed || e.Code > Inconclusive {
			t.Errorf("%s: exit code %d", e.ID, e.Code)
		}
		if have, ok := Find(e.ID); !ok || have.Meaning != e.Meaning {
			t.Errorf("%s is not found", e.ID)
		}
	}
	if _, ok := Find(""); ok {
		t.Error("there is an error without an ID")
	}
}

// What makes an error names its row by a literal, and no row is left over.
func TestUses(t *testing.T) {
	used := map[string]bool{}
	for _, dir := range []string{"../../cmd/cfq", "../cli"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no Go files in %s: %v", dir, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") || path == filepath.Join("../cli", "error.go") {
				continue
			}
			set := token.NewFileSet()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if arg := idOf(call); arg != nil {
						t.Run(set.Position(call.Pos()).String(), func(t *testing.T) { use(t, arg, used) })
					}
				}
				return true
			})
		}
	}
	for _, e := range Errors() {
		if !used[e.ID] {
			t.Errorf("nothing makes the error %s", e.ID)
		}
	}
}

// idOf is the argument of a call of cli.Wrap or cli.Usagef that is an ID, nil for another call.
func idOf(call *ast.CallExpr) ast.Expr {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); !ok || x.Name != "cli" {
			return nil
		}
		name = f.Sel.Name
	}
	switch {
	case name == "Usagef" && len(call.Args) > 1:
		return call.Args[0]
	case name == "Wrap" && len(call.Args) == 2:
		return call.Args[1]
	}
	return nil
}

func use(t *testing.T, arg ast.Expr, used map[string]bool) {
	t.Helper()
	lit, ok := arg.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		t.Fatal("the ID is no literal")
	}
	id, err := strconv.Unquote(lit.Value)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := Find(id); !ok && id != "" {
		t.Errorf("the table has no error %q", id)
	}
	used[id] = true
}
