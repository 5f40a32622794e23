package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// publicAPI lists the packages that may export names without a use in this tree, because
// they are libraries for other programs.
var publicAPI = []string{"lockcmd/zklock", "lockcmd/zklock/ensemble"}

// An export is an exported package-level name.
type export struct {
	pos          token.Pos
	refers       []string // exported names of the package in its signature, fields or methods
	constantType string   // for a constant: the name of its type, or ""
	methods      []string // methods of an interface
}

// packageExports holds the exported names of a package.
type packageExports struct {
	exports map[string]*export
	methods map[string][]string // exported methods, by type
}

// Every exported package-level name is used outside its package. A name counts as used if
// another package mentions it, or if it occurs in the signature, the fields or the methods of
// a used name. A constant is used if its type is, and an interface if a type of another
// package has its methods.
func TestExportsAreUsed(t *testing.T) {
	fset := token.NewFileSet()
	files := goFiles(t, fset)
	exported := map[string]*packageExports{}
	for _, src := range files {
		if src.test() || src.file.Name.Name == "main" {
			continue
		}
		if exported[src.dir] == nil {
			exported[src.dir] = &packageExports{map[string]*export{}, map[string][]string{}}
		}
		exported[src.dir].collect(src.file)
	}
	named := map[string]map[string]bool{} // by package: names that other packages mention
	for _, src := range files {
		for dir, names := range usedExports(t, src) {
			if named[dir] == nil {
				named[dir] = map[string]bool{}
			}
			maps.Copy(named[dir], names)
		}
	}
	for dir, r := range exported {
		if slices.Contains(publicAPI, dir) {
			continue
		}
		used := r.withImplied(named[dir])
		for name, e := range r.exports {
			if !used[name] && !implemented(exported, dir, e.methods) {
				t.Errorf("%s: %s has no user outside %s", fset.Position(e.pos), name, dir)
			}
		}
	}
}

// usedExports returns the names of other packages of this module that src mentions, by their
// directories.
func usedExports(t *testing.T, src source) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	local := map[string]string{} // directory of each package, by its name in src
	for _, imp := range src.file.Imports {
		dir, ours := strings.CutPrefix(importPath(t, imp), module+"/")
		if !ours || dir == src.dir {
			continue // uses in external tests of the package do not count
		}
		name := dir[strings.LastIndex(dir, "/")+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		local[name], found[dir] = dir, map[string]bool{}
	}
	ast.Inspect(src.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && local[x.Name] != "" {
				found[local[x.Name]][sel.Sel.Name] = true
			}
		}
		return true
	})
	return found
}

// withImplied returns names and all names that count as used because of them.
func (r *packageExports) withImplied(names map[string]bool) map[string]bool {
	used := map[string]bool{}
	var use func(name string)
	use = func(name string) {
		e := r.exports[name]
		if e == nil || used[name] {
			return
		}
		used[name] = true
		for _, met := range e.refers {
			use(met)
		}
		for constant, c := range r.exports {
			if c.constantType == name {
				use(constant)
			}
		}
	}
	for name := range names {
		use(name)
	}
	return used
}

// implemented reports whether a type of a package outside dir has all the methods.
func implemented(exported map[string]*packageExports, dir string, methods []string) bool {
	if len(methods) == 0 {
		return false
	}
	for other, r := range exported {
		for _, has := range r.methods {
			lacks := slices.ContainsFunc(methods, func(m string) bool { return !slices.Contains(has, m) })
			if other != dir && !lacks {
				return true
			}
		}
	}
	return false
}

// collect adds the exported names of a file.
func (r *packageExports) collect(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			r.collectFunc(d)
		case *ast.GenDecl:
			typ := ""
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					e := r.add(s.Name, s.Type)
					if i, ok := s.Type.(*ast.InterfaceType); ok {
						for _, m := range i.Methods.List {
							for _, name := range m.Names {
								e.methods = append(e.methods, name.Name)
							}
						}
					}
				case *ast.ValueSpec:
					if s.Type != nil || len(s.Values) > 0 { // otherwise the previous type is repeated
						typ = baseTypeName(s.Type)
					}
					for _, name := range s.Names {
						r.add(name, s.Type).constantType = typ
					}
				}
			}
		}
	}
}

// collectFunc adds a function, or adds a method to its type.
func (r *packageExports) collectFunc(d *ast.FuncDecl) {
	if d.Recv == nil {
		r.add(d.Name, d.Type)
		return
	}
	if !d.Name.IsExported() {
		return
	}
	typ := baseTypeName(d.Recv.List[0].Type)
	r.methods[typ] = append(r.methods[typ], d.Name.Name)
	if ast.IsExported(typ) {
		r.add(ast.NewIdent(typ), d.Type)
	}
}

// add adds an exported name, and the exported names in the expression shows to its refers. It
// is called several times for a type: once for each exported method.
func (r *packageExports) add(name *ast.Ident, shows ast.Expr) *export {
	if !name.IsExported() {
		return &export{}
	}
	e := r.exports[name.Name]
	if e == nil {
		e = &export{}
		r.exports[name.Name] = e
	}
	if name.Pos().IsValid() {
		e.pos = name.Pos()
	}
	if shows != nil {
		ast.Inspect(shows, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.IsExported() {
				e.refers = append(e.refers, id.Name)
			}
			return true
		})
	}
	return e
}

// baseTypeName returns the name of a type, without a star and type parameters, or "".
func baseTypeName(typ ast.Expr) string {
	switch x := typ.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return baseTypeName(x.X)
	case *ast.IndexExpr:
		return baseTypeName(x.X)
	}
	return ""
}

// Every exported name has a comment. Exceptions are methods such as Error, and methods of
// types that are not exported.
func TestExportsAreDocumented(t *testing.T) {
	plain := []string{"Error", "String", "Unwrap", "Is"}
	fset := token.NewFileSet()
	want := func(src source, name *ast.Ident, docs ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d != nil }) {
			t.Errorf("%s: %s.%s has no comment", fset.Position(name.Pos()), src.dir, name.Name)
		}
	}
	for _, src := range nonTestSources(t, fset) {
		for _, decl := range src.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || ast.IsExported(baseTypeName(d.Recv.List[0].Type)) && !slices.Contains(plain, d.Name.Name) {
					want(src, d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						want(src, s.Name, d.Doc, s.Doc)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							want(src, name, d.Doc, s.Doc, s.Comment)
						}
					}
				}
			}
		}
	}
}
