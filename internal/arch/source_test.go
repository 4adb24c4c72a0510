package arch

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cfq/internal/must"
)

const (
	module = "cfq"
	root   = "../.." // of the source tree, seen from this package
)

// source is one Go file.
type source struct {
	path    string // below the root
	pkg     string // its directory below the root, "." for the root
	test    bool
	imports []string
}

// ownPackage returns the path below the module of an import, if it is the project's.
func ownPackage(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

// walk calls visit for every file of the project: not for what git, builds or editors put there.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch base := path.Base(name); {
			case name == "bin" || name == "build":
				return fs.SkipDir
			case strings.HasPrefix(base, ".") && base != "." && base != ".ci":
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && name != ".git" { // of a linked worktree: a file with a path of this machine
			visit(name)
		}
		return nil
	})
	must.Do(t, err)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join(root, filepath.FromSlash(name))))(t)
}

func goFiles(t *testing.T) []source {
	t.Helper()
	var files []source
	walk(t, func(name string) {
		if path.Ext(name) != ".go" {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		s := source{path: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go")}
		for _, i := range f.Imports {
			imp := must.Get(strconv.Unquote(i.Path.Value))(must.In(t, name))
			s.imports = append(s.imports, imp)
		}
		files = append(files, s)
	})
	if len(files) < 10 {
		t.Fatalf("found only %d Go files: is %s the root of the project?", len(files), root)
	}
	return files
}

// Each package says what it is for, once.
func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, read(t, f.path),
			parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			continue
		}
		list := comments[f.pkg]
		if parsed.Doc != nil && !strings.HasSuffix(f.path, ".pb.go") {
			list = append(list, f.path)
		}
		comments[f.pkg] = list
	}
	for pkg, files := range comments {
		must.Same(must.In(t, pkg), 1, len(files))
	}
}

// Nothing in the project knows the machine that it was written on.
func TestForeignWords(t *testing.T) {
	// In two parts each, so that this file does not hold them.
	words := []string{"/wo" + "rk/", "/ro" + "ot/", "/tm" + "p/w/", "registry." + "npmjs", "regi" + "stry.yarnpkg"}
	walk(t, func(name string) {
		data := read(t, name)
		for _, w := range words {
			if at := bytes.Index(data, []byte(w)); at >= 0 {
				t.Errorf("%s:%d holds %q", name, 1+bytes.Count(data[:at], []byte("\n")), w)
			}
		}
	})
}
