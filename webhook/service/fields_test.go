package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	module = "quaymaster.dev"
	core   = "k8s.io/api/core/v1"
	meta   = "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A rule that refers to another field of Services must not find it empty in every request. Fields that nothing refers to
// are not worth the time.
func TestFieldsThatAreUsedAreRead(t *testing.T) {
	used, filled := map[string]bool{}, map[string]bool{}
	for _, f := range fieldsOfServices(t) {
		if filepath.Base(f.file) != "read.go" {
			used[f.name] = true
		}
	}
	decoded(reflect.TypeFor[decodable](), "Service", filled)
	for name := range used {
		if !filled[name] {
			t.Errorf("read.go must read the field %s, to which other code refers", name)
		}
	}
	for name := range filled {
		if !used[name] && name != "ObjectMeta.GenerateName" && name != "ObjectMeta.DeletionTimestamp" { // there are methods
			t.Errorf("read.go reads the field %s, to which nothing refers", name)
		}
	}
}

// decoded adds the fields that the type of an object has, each with the name of the API's type that it belongs to.
func decoded(t reflect.Type, owner string, all map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[intstr.IntOrString]() || t == reflect.TypeFor[metav1.Time]() {
		return
	}
	if t.PkgPath() == core || t.PkgPath() == meta {
		owner = t.Name()
	}
	parts := map[string]string{"Metadata": "ObjectMeta", "Spec": "ServiceSpec", "Status": "ServiceStatus", "LoadBalancer": "LoadBalancerStatus"}
	for f := range t.Fields() {
		part := parts[f.Name]
		if !f.Anonymous && part != "ObjectMeta" {
			all[owner+"."+f.Name] = true
		}
		if f.Anonymous && part == "ObjectMeta" {
			part = owner // its fields are those of metadata
		}
		decoded(f.Type, part, all)
	}
}

type fieldUse struct{ name, file string }

// fieldsOfServices returns the fields of Services that the code behind the webhooks refers to.
func fieldsOfServices(t *testing.T) []fieldUse {
	t.Helper()
	packages := dependencies(t)
	files := token.NewFileSet()
	imports := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(packages[path].Export)
	})
	var uses []fieldUse
	for path, p := range packages {
		if !strings.HasPrefix(path, module+"/") {
			continue
		}
		info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
		config := types.Config{Importer: imports}
		if _, err := config.Check(path, files, p.parse(t, files), info); err != nil {
			t.Fatal(err)
		}
		for expression, selection := range info.Selections {
			for _, name := range fieldsOn(selection) {
				uses = append(uses, fieldUse{name, files.Position(expression.Pos()).Filename})
			}
		}
	}
	return uses
}

// goPackage is a package as go list describes it. Export is the file with its types.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// dependencies returns this package and all that it imports, by import path.
func dependencies(t *testing.T) map[string]goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]goPackage{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p goPackage
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
	return all
}

func (p goPackage) parse(t *testing.T, files *token.FileSet) []*ast.File {
	t.Helper()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	return parsed
}

// fieldsOn returns the fields of Services on the path of a selection, such as TypeMeta.Kind for svc.Kind; none for
// methods, and for fields that only lead to others.
func fieldsOn(selection *types.Selection) []string {
	if selection.Kind() != types.FieldVal {
		return nil
	}
	var names []string
	parts := []string{
		core + ".Service", core + ".ServiceSpec", core + ".ServicePort", core + ".ServiceStatus", core + ".LoadBalancerStatus",
		core + ".SessionAffinityConfig", core + ".ClientIPConfig", meta + ".ObjectMeta", meta + ".TypeMeta",
	}
	of := selection.Recv()
	if root := named(of); !slices.Contains(parts, root) {
		return nil // such as the name of a policy
	}
	for _, i := range selection.Index() {
		owner := named(of)
		structure, _ := types.Unalias(dereferenced(of)).Underlying().(*types.Struct)
		field := structure.Field(i)
		if slices.Contains(parts, owner) && !field.Embedded() {
			names = append(names, fmt.Sprintf("%s.%s", owner[strings.LastIndexByte(owner, '.')+1:], field.Name()))
		}
		of = field.Type()
	}
	return names
}

func named(t types.Type) string { return types.TypeString(dereferenced(t), nil) }

func dereferenced(t types.Type) types.Type {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		return pointer.Elem()
	}
	return t
}
