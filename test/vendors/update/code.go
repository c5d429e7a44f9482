package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// code is the Go source of a repository. Its packages are checked without those of other modules, which need not be on this
// machine: constants are evaluated nevertheless, because they rarely depend on others' packages, and errors do not matter.
type code struct {
	catalog    *catalog
	root       string
	repository string
	files      *token.FileSet
	folders    map[string][]*ast.File // by import path
	packages   map[string]*types.Package
	info       types.Info
	keys       map[string][]use
}

// use is a place in the source that mentions a key.
type use struct {
	file string
	line int
	// function has the name of the function or variable, empty for the declaration of a constant, and text its code.
	function, text string
}

func (u use) String() string { return fmt.Sprintf("%s:%d", u.file, u.line) }

var _ types.Importer = (*code)(nil)

// readCode reads the source in a folder. Tests and documentation are not part of it.
func readCode(root, repository string, c *catalog) (*code, error) {
	r := &code{
		catalog: c, root: root, repository: repository,
		files: token.NewFileSet(), folders: map[string][]*ast.File{}, packages: map[string]*types.Package{},
		info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}},
		keys: map[string][]use{},
	}
	if err := r.walk(root, repository); err != nil {
		return nil, fmt.Errorf("read the source of %s: %w", repository, err)
	}
	if len(r.folders) == 0 {
		return nil, fmt.Errorf("read the source of %s: %s has no Go files", repository, root)
	}
	for name, files := range r.folders {
		if _, err := r.Import(name); err != nil {
			return nil, err
		}
		for _, f := range files {
			r.collect(f)
		}
	}
	for _, uses := range r.keys {
		slices.SortFunc(uses, func(a, b use) int { return strings.Compare(a.String(), b.String()) })
	}
	return r, nil
}

// walk parses the files of a folder, whose import path is known, and of those below it.
func (r *code) walk(folder, importPath string) error {
	if raw, err := os.ReadFile(filepath.Join(folder, "go.mod")); err == nil {
		if module := modulePath(raw); module != "" {
			importPath = module
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, at := entry.Name(), filepath.Join(folder, entry.Name())
		switch {
		case entry.IsDir() && !foreign(name):
			if err := r.walk(at, path.Join(importPath, name)); err != nil {
				return err
			}
		case entry.Type().IsRegular() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			// A file that does not parse completely still has constants.
			if file, _ := parser.ParseFile(r.files, at, nil, parser.SkipObjectResolution); file != nil {
				r.folders[importPath] = append(r.folders[importPath], file)
			}
		}
	}
	return nil
}

// foreign reports whether a folder has no code of the controller.
func foreign(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
		slices.Contains([]string{"vendor", "testdata", "test", "tests", "e2e", "e2etest", "hack", "docs", "examples"}, name)
}

func modulePath(raw []byte) string {
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		if name, found := strings.CutPrefix(lines.Text(), "module "); found {
			return strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	return ""
}

// Import checks a package of the repository. Those of other modules are empty.
func (r *code) Import(name string) (*types.Package, error) {
	if known := r.packages[name]; known != nil {
		return known, nil
	}
	empty := types.NewPackage(name, path.Base(name))
	empty.MarkComplete()
	r.packages[name] = empty // also ends cycles, which files for different systems may have
	if files := r.folders[name]; len(files) > 0 {
		config := types.Config{Importer: r, Error: func(error) {}, FakeImportC: true, DisableUnusedImportCheck: true}
		if checked, _ := config.Check(name, r.files, files, &r.info); checked != nil {
			r.packages[name] = checked
		}
	}
	return r.packages[name], nil
}

// collect notes the keys that a file mentions.
func (r *code) collect(file *ast.File) {
	for _, declaration := range file.Decls {
		function, text := "", ""
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			function, text = functionName(d), r.text(d)
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				function, text = "a variable", r.text(d)
			}
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			value, name := r.constant(e)
			keys := r.catalog.keys(name, value)
			for _, key := range keys {
				at := r.files.Position(e.Pos())
				file := filepath.ToSlash(strings.TrimPrefix(at.Filename, r.root+string(filepath.Separator)))
				r.keys[key] = append(r.keys[key], use{file, at.Line, function, text})
			}
			return len(keys) == 0
		})
	}
}

// constant returns the value of an expression that is a constant text, and the name of the constant if it is one.
func (r *code) constant(e ast.Expr) (value, name string) {
	if identifier, ok := e.(*ast.Ident); ok {
		object := r.info.Uses[identifier]
		if object == nil {
			object = r.info.Defs[identifier]
		}
		if c, ok := object.(*types.Const); ok && c.Val().Kind() == constant.String {
			return constant.StringVal(c.Val()), c.Name()
		}
		return "", ""
	}
	if v := r.info.Types[e].Value; v != nil && v.Kind() == constant.String {
		if selector, ok := e.(*ast.SelectorExpr); ok {
			name = selector.Sel.Name
		}
		return constant.StringVal(v), name
	}
	return "", ""
}

// text returns the code of a declaration without comments.
func (r *code) text(node ast.Node) string {
	var b strings.Builder
	if err := printer.Fprint(&b, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return b.String()
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	return "(" + types.ExprString(d.Recv.List[0].Type) + ")." + d.Name.Name
}

// keyShape is that of keys, which may have verbs of fmt; other texts are messages.
var keyShape = regexp.MustCompile(`^[A-Za-z0-9.-]+/([A-Za-z0-9._-]|%[dsv])+$`)

// keys returns the keys that a constant stands for.
func (c *catalog) keys(name, value string) (keys []string) {
	candidates := []string{value}
	for _, one := range c.Composed {
		if matches(one.Names, name) && matches(one.Values, value) {
			for _, prefix := range one.Prefixes {
				candidates = append(candidates, prefix+value)
			}
		}
	}
	for _, key := range candidates {
		prefixed := func(prefix string) bool { return len(key) > len(prefix) && strings.HasPrefix(key, prefix) }
		// What ends in punctuation is the beginning of other keys.
		whole := strings.TrimRight(key, punctuation) == key
		if keyShape.MatchString(key) &&
			(c.knows(key) || whole && slices.ContainsFunc(slices.Concat(c.Prefixes, c.SharedPrefixes), prefixed)) {
			keys = append(keys, key)
		}
	}
	return keys
}

func matches(pattern, text string) bool {
	matched, err := path.Match(pattern, text)
	return pattern == "" || matched && err == nil && text != ""
}

// merge returns the keys of several repositories.
func merge(all []*code) map[string][]use {
	keys := map[string][]use{}
	for _, one := range all {
		for key, uses := range one.keys {
			keys[key] = append(keys[key], uses...)
		}
	}
	return keys
}
