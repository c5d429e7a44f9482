package main

import (
	"encoding/json"
	"go/ast"
	"go/constant"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/settings"
)

// catalogFolders hold the types of catalogs, settingsFolders those of the linter's config file.
var (
	catalogFolders  = []string{"internal/rules/catalog/document", "internal/rules/annotation", "internal/rules/finding"}
	settingsFolders = []string{"internal/tool/settings", "internal/tool/suppress", "internal/rules/template"}
)

// catalogSchema returns the JSON schema of catalog files, whose two documents an editor checks one by one.
func catalogSchema() (string, error) {
	s, err := newSchema(catalogFolders)
	if err != nil {
		return "", err
	}
	head, body := s.of(reflect.TypeFor[document.Head]()), s.of(reflect.TypeFor[document.Body]())
	// A file that changes a catalog names it, and sets what is different.
	s.definitions["Head"].(map[string]any)["required"] = []string{"name"} //nolint:forcetypeassert // of stores only these
	return s.text("A catalog of Quaymaster: its head, or its body", map[string]any{"anyOf": []any{head, body}})
}

// settingsSchema returns the JSON schema of the linter's config file.
func settingsSchema() (string, error) {
	s, err := newSchema(settingsFolders)
	if err != nil {
		return "", err
	}
	s.words["Severity"] = []string{string(finding.Error), string(finding.Warning), string(finding.Note)}
	return s.text("The config file of quayctl lint", s.of(reflect.TypeFor[settings.Settings]()))
}

func newSchema(folders []string) (*schema, error) {
	s := &schema{definitions: map[string]any{}, comments: map[string]string{}, words: map[string][]string{}}
	for _, folder := range folders {
		if err := s.read(folder); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// text returns the schema of a document with what its root must match.
func (s *schema) text(title string, root map[string]any) (string, error) {
	root["$schema"], root["title"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", title, s.definitions
	text, err := json.MarshalIndent(root, "", "  ")
	return string(text) + "\n", err
}

// schema builds the definitions of types.
type schema struct {
	definitions map[string]any
	// comments are those of fields, by type and field; words are the constants of types.
	comments map[string]string
	words    map[string][]string
}

// read reads the comments and constants of a package.
func (s *schema) read(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				s.fields(n)
			case *ast.ValueSpec:
				s.constant(n)
			}
			return true
		})
	}
	return nil
}

func (s *schema) fields(t *ast.TypeSpec) {
	fields, isStruct := t.Type.(*ast.StructType)
	if !isStruct {
		return
	}
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			s.comments[t.Name.Name+"."+name.Name] = new(doc.Package).Synopsis(f.Doc.Text())
		}
	}
}

func (s *schema) constant(v *ast.ValueSpec) {
	of, isNamed := v.Type.(*ast.Ident)
	if !isNamed {
		return
	}
	for _, value := range v.Values {
		if text, isLiteral := value.(*ast.BasicLit); isLiteral && text.Kind == token.STRING {
			s.words[of.Name] = append(s.words[of.Name], constant.StringVal(constant.MakeFromLiteral(text.Value, token.STRING, 0)))
		}
	}
}

// of returns the schema of a type.
func (s *schema) of(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if _, known := s.definitions[t.Name()]; !known {
			definition := map[string]any{"type": "object", "additionalProperties": false}
			s.definitions[t.Name()] = definition // before its fields, which may have the same type
			properties, required := s.properties(t)
			definition["properties"] = properties
			if len(required) > 0 {
				definition["required"] = required
			}
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.String:
		if words := s.words[t.Name()]; words != nil {
			return map[string]any{"enum": words}
		}
		return map[string]any{"type": "string"}
	default:
		return map[string]any{} // anything, as in the spec of an example
	}
}

// properties returns the fields of a struct and of those that it embeds.
func (s *schema) properties(t reflect.Type) (properties map[string]any, required []string) {
	properties = map[string]any{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner, more := s.properties(f.Type)
			maps.Copy(properties, inner)
			required = append(required, more...)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		property := s.of(f.Type)
		if text := s.comments[t.Name()+"."+f.Name]; text != "" {
			property["description"] = text
		}
		properties[name] = property
		if options == "" {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return properties, required
}
