package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"strings"
)

// fault is a small change of a function. It is found again by what it says, not by its position.
type fault struct {
	file, function, kind string
	original             string // the code, on one line
	ordinal              int    // among faults with all of the above equal, from 1

	path     string // where the code is now; file is where it was when the fault was drawn
	from, to int    // the bytes that are replaced
	with     string
}

func kinds() []string { return []string{"comparison", "sign", "off-by-one", "error", "loop"} }

func (f fault) fields() []string {
	return []string{f.file, f.function, f.kind, f.original, fmt.Sprint(f.ordinal)}
}

func key(fields []string) string { return strings.Join(fields[:5], "\x00") }

// parse lists the faults that the functions of a file can have. Some do not compile.
func parse(file string, src []byte) ([]fault, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(parsed) {
		return nil, err
	}
	var found []fault
	ordinals := map[string]int{}
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			receiver, _, _ := strings.Cut(strings.TrimLeft(text(fn.Recv.List[0].Type), "*"), "[")
			name = receiver + "." + name
		}
		ast.PreorderStack(fn.Body, nil, func(n ast.Node, above []ast.Node) bool {
			visit(n, above, func(kind string, original ast.Node, from, to token.Pos, with string) {
				f := fault{file: file, function: name, kind: kind, original: text(original), path: file}
				f.from, f.to = fset.File(from).Offset(from), fset.File(to).Offset(to)
				f.with = strings.ReplaceAll(with, "X", string(src[f.from:f.to]))
				ordinals[key(f.fields())]++
				f.ordinal = ordinals[key(f.fields())]
				found = append(found, f)
			})
			return true
		})
	}
	return found, nil
}

// visit adds the faults of a node. X in the faulty code is the code that it replaces.
func visit(n ast.Node, above []ast.Node, add func(kind string, original ast.Node, from, to token.Pos, with string)) {
	flip := func(kind string, at token.Pos, op token.Token) {
		with := map[token.Token]string{
			token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
			token.ADD: "-", token.SUB: "+", token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=",
		}[op]
		if with != "" {
			add(kind, n, at, at+token.Pos(len(op.String())), with)
		}
	}
	next := func(index ast.Expr) {
		if _, literal := index.(*ast.BasicLit); index != nil && !literal { // a literal has a fault of its own
			add("off-by-one", n, index.Pos(), index.End(), "(X + 1)")
		}
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch {
		case text(n.Y) == "nil" && strings.HasSuffix(strings.ToLower(text(n.X)), "err"):
			if n.Op == token.NEQ {
				add("error", n, n.Pos(), n.End(), "(false && X)") // the variable is still used
			}
		case n.Op != token.ADD && n.Op != token.SUB:
			flip("comparison", n.OpPos, n.Op)
		case !strings.Contains(text(n), `"`): // strings are not subtracted
			flip("sign", n.OpPos, n.Op)
		}
	case *ast.AssignStmt:
		flip("sign", n.TokPos, n.Tok)
	case *ast.UnaryExpr:
		flip("sign", n.OpPos, n.Op)
	case *ast.BasicLit:
		around := above[len(above)-1] // a number alone identifies little
		if len(text(around)) > 100 {
			around = n
		}
		if n.Kind == token.INT {
			add("off-by-one", around, n.Pos(), n.End(), "(X + 1)")
		}
	case *ast.IndexExpr:
		next(n.Index)
	case *ast.SliceExpr:
		next(n.Low)
		next(n.High)
	case *ast.ForStmt:
		header := &ast.ForStmt{Init: n.Init, Cond: n.Cond, Post: n.Post, Body: &ast.BlockStmt{}}
		add("loop", header, n.Body.Lbrace, n.Body.Lbrace+1, "X break;")
	case *ast.RangeStmt:
		header := &ast.RangeStmt{Key: n.Key, Value: n.Value, Tok: n.Tok, X: n.X, Body: &ast.BlockStmt{}}
		add("loop", header, n.Body.Lbrace, n.Body.Lbrace+1, "X break;")
	}
}

// text prints code on one line, however the source is formatted.
func text(n ast.Node) string {
	var out strings.Builder
	if err := printer.Fprint(&out, token.NewFileSet(), n); err != nil {
		return fmt.Sprintf("%T", n)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// find takes the fault in the file where it was drawn or, if the code has moved, the only one like it.
func find(all []fault, was fault) (found fault, ok bool) {
	alike := 0
	for _, f := range all {
		if f.file = was.file; key(f.fields()) != key(was.fields()) {
			continue
		}
		if f.path == was.file {
			return f, true
		}
		found = f
		alike++
	}
	return found, alike == 1
}
