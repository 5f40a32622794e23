package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// published may export what nobody here uses: it is a library for programs that
// are not in this tree.
var published = []string{"lockcmd/zklock", "lockcmd/zklock/ensemble"}

// export is one exported name at the top of a package.
type export struct {
	pos      token.Pos
	surface  []string // the package's exported names that whoever uses it meets
	constant string   // the type of a constant, if it has one of the package's
	methods  []string // of an interface
}

// room is what a package exports, by name.
type room struct {
	exports map[string]*export
	types   map[string][]string // the exported methods of each of its types
}

// TestExportsAreUsed wants a user outside its package for every exported name at
// the top of one. A name is used by being named; by standing in the signature,
// the fields or the methods of a name that is; a constant with its type; an
// interface by a type of another package that has its methods.
func TestExportsAreUsed(t *testing.T) {
	fset := token.NewFileSet()
	files := goFiles(t, fset)
	rooms := map[string]*room{}
	for _, src := range files {
		if src.test() || src.file.Name.Name == "main" {
			continue
		}
		if rooms[src.dir] == nil {
			rooms[src.dir] = &room{map[string]*export{}, map[string][]string{}}
		}
		rooms[src.dir].collect(src.file)
	}
	named := map[string]map[string]bool{} // names of a package in files of others
	for _, src := range files {
		for dir, names := range selected(t, src) {
			if named[dir] == nil {
				named[dir] = map[string]bool{}
			}
			maps.Copy(named[dir], names)
		}
	}
	for dir, r := range rooms {
		if slices.Contains(published, dir) {
			continue
		}
		used := r.used(named[dir])
		for name, e := range r.exports {
			if !used[name] && !implemented(rooms, dir, e.methods) {
				t.Errorf("%s: %s has no user outside %s", fset.Position(e.pos), name, dir)
			}
		}
	}
}

// selected returns what src names of our other packages, by their directories.
func selected(t *testing.T, src source) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	local := map[string]string{} // directories by what src calls their packages
	for _, imp := range src.file.Imports {
		dir, ours := strings.CutPrefix(importPath(t, imp), module+"/")
		if !ours || dir == src.dir {
			continue // a test beside its package is no user
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

// used adds to names what comes with them.
func (r *room) used(names map[string]bool) map[string]bool {
	used := map[string]bool{}
	var use func(name string)
	use = func(name string) {
		e := r.exports[name]
		if e == nil || used[name] {
			return
		}
		used[name] = true
		for _, met := range e.surface {
			use(met)
		}
		for constant, c := range r.exports {
			if c.constant == name {
				use(constant)
			}
		}
	}
	for name := range names {
		use(name)
	}
	return used
}

// implemented reports whether a type outside dir has all the methods.
func implemented(rooms map[string]*room, dir string, methods []string) bool {
	if len(methods) == 0 {
		return false
	}
	for other, r := range rooms {
		for _, has := range r.types {
			lacks := slices.ContainsFunc(methods, func(m string) bool { return !slices.Contains(has, m) })
			if other != dir && !lacks {
				return true
			}
		}
	}
	return false
}

// collect adds what file exports.
func (r *room) collect(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			r.collectFunc(d)
		case *ast.GenDecl:
			typ := ""
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					e := r.export(s.Name, s.Type)
					if i, ok := s.Type.(*ast.InterfaceType); ok {
						for _, m := range i.Methods.List {
							for _, name := range m.Names {
								e.methods = append(e.methods, name.Name)
							}
						}
					}
				case *ast.ValueSpec:
					if s.Type != nil || len(s.Values) > 0 { // or iota goes on
						typ = receiver(s.Type)
					}
					for _, name := range s.Names {
						r.export(name, s.Type).constant = typ
					}
				}
			}
		}
	}
}

// collectFunc adds a function, or a method to the surface of its type.
func (r *room) collectFunc(d *ast.FuncDecl) {
	if d.Recv == nil {
		r.export(d.Name, d.Type)
		return
	}
	if !d.Name.IsExported() {
		return
	}
	typ := receiver(d.Recv.List[0].Type)
	r.types[typ] = append(r.types[typ], d.Name.Name)
	if ast.IsExported(typ) {
		r.export(ast.NewIdent(typ), d.Type)
	}
}

// export notes a name with what it shows of others. A type comes several times,
// with its methods.
func (r *room) export(name *ast.Ident, shows ast.Expr) *export {
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
				e.surface = append(e.surface, id.Name)
			}
			return true
		})
	}
	return e
}

// receiver is the name of a method's type, or of any other expression that is
// one, behind a star and before type parameters.
func receiver(typ ast.Expr) string {
	switch x := typ.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	}
	return ""
}

// Every exported name tells what it is for. Error and the like need no words,
// nor do methods that nobody can name because their type is not exported.
func TestExportsAreDocumented(t *testing.T) {
	plain := []string{"Error", "String", "Unwrap", "Is"}
	fset := token.NewFileSet()
	want := func(src source, name *ast.Ident, docs ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d != nil }) {
			t.Errorf("%s: %s.%s has no comment", fset.Position(name.Pos()), src.dir, name.Name)
		}
	}
	for _, src := range sources(t, fset) {
		for _, decl := range src.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) && !slices.Contains(plain, d.Name.Name) {
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
