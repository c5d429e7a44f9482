package document

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// comments holds the doc comments of a package: of a type by its name, and of a field by type and name, such as
// Route.State.
type comments map[string]string

// readComments reads the comments of all types in the source of a package.
func readComments(source fs.FS) (comments, error) {
	names, err := fs.Glob(source, "*.go")
	if err != nil {
		return nil, fmt.Errorf("list source: %w", err)
	}
	c := comments{}
	for _, name := range names {
		raw, err := fs.ReadFile(source, name)
		if err != nil {
			return nil, fmt.Errorf("read source: %w", err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, raw, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse source: %w", err)
		}
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				c.add(g)
			}
		}
	}
	return c, nil
}

// add adds the comments of a declaration of one type.
func (c comments) add(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		c[t.Name.Name] = oneLine(g.Doc)
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				c[t.Name.Name+"."+name.Name] = oneLine(f.Doc)
			}
		}
	}
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// of returns the comment of a type.
func (c comments) of(t reflect.Type) string { return c[typeName(t)] }

// describe adds the comments of a type and its fields to its schema.
func (c comments) describe(s *huma.Schema, t reflect.Type) {
	s.Description = c.of(t)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := s.Properties[name]
		if property == nil {
			continue
		}
		owner := t
		if last := len(f.Index) - 1; last > 0 {
			owner = t.FieldByIndex(f.Index[:last]).Type
		}
		property.Description = c[typeName(owner)+"."+f.Name]
	}
}

// typeName returns the name of a type without its parameters.
func typeName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return name
}
