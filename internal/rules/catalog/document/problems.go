package document

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/check"
	"quaymaster.dev/internal/rules/catalog/spec"
)

// Problem is something that is missing or wrong in the file of a catalog.
type Problem struct {
	// Annotation is the name of the annotation, or Check the id of the check, that the problem is in; both are empty for
	// anything else.
	Annotation, Check string
	Text              string
}

func (p Problem) String() string { return p.Text }

// Problems returns everything that is missing or wrong in the file of a catalog.
func (d Document) Problems() []Problem {
	p := &problems{names: map[string]bool{}, isField: spec.Has}
	if len(d.Kinds) > 0 {
		p.isField = fieldPath.MatchString
	}
	if !catalogName.MatchString(d.Name) {
		p.add("the head must have a name of lower-case letters, digits and dashes; got %q", d.Name)
	}
	p.requireTexts("the head", map[string]string{
		"title": d.Title, "controller": d.Controller, "version": d.Version, "help": d.Help,
	})
	if _, err := time.Parse(time.DateOnly, d.Date); err != nil && !d.Own {
		p.add("the head must have a date such as 2026-08-19; got %q", d.Date)
	}
	if len(d.Prefixes)+len(d.SharedPrefixes) == 0 && len(d.Annotations) > 0 {
		p.add("the head lacks prefixes and sharedPrefixes")
	}
	for i := range d.Annotations {
		for _, name := range d.Annotations[i].Names() {
			if p.names[name] {
				p.add("%s occurs twice", name)
			}
			p.names[name] = true
		}
	}
	for i := range d.Annotations {
		p.at = Problem{Annotation: d.Annotations[i].Name}
		p.annotation(d, &d.Annotations[i])
	}
	for i := range d.Checks {
		p.at = Problem{Check: d.Checks[i].ID}
		p.check(&d.Checks[i])
	}
	p.at = Problem{}
	p.renamed(d)
	conditions := slices.Concat(d.Owns.When, d.Owns.Any, d.Owns.Also)
	p.conditions("owns", conditions)
	if d.Own && len(conditions) > 0 {
		p.add("owns must not have conditions in the catalog of Quaymaster's own controller: only the class decides")
	}
	for _, left := range d.Left {
		p.requireTexts("left "+left.Name, map[string]string{"name": left.Name, "why": left.Why})
	}
	return p.found
}

// renamed reports ids that findings documents but nothing uses, and ids that findings does not document.
func (p *problems) renamed(d Document) {
	used := map[string]bool{}
	for i := range d.Annotations {
		a := &d.Annotations[i]
		used[a.ChangeID] = true
		for _, q := range a.Requires {
			used[q.ID] = true
		}
		for _, c := range a.Checks {
			used[c.ID] = true
		}
	}
	delete(used, "")
	for _, f := range d.Findings {
		if p.requireTexts("finding "+f.ID, map[string]string{"help": f.Help}); !used[f.ID] {
			p.add("no finding has the id %s", f.ID)
		}
		delete(used, f.ID)
	}
	for id := range used {
		p.add("findings lacks %s", id)
	}
}

// fieldPath matches the fields of objects of other kinds, such as spec.tls[].secretName.
var fieldPath = regexp.MustCompile(`^(metadata|spec)(\.[A-Za-z][A-Za-z0-9-]*(\[\])?)+$`)

var catalogName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

type problems struct {
	found []Problem
	// at is what the problems to be found are in.
	at Problem
	// names holds the names of annotations and their aliases.
	names map[string]bool
	// isField reports whether a path is one of a field that conditions can use.
	isField func(path string) bool
}

func (p *problems) add(format string, args ...any) {
	problem := p.at
	problem.Text = fmt.Sprintf(format, args...)
	p.found = append(p.found, problem)
}

// requireTexts reports empty texts.
func (p *problems) requireTexts(where string, texts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if strings.TrimSpace(texts[name]) == "" {
			p.add("%s lacks %s", where, name)
		}
	}
}

func (p *problems) annotation(d Document, a *Annotation) {
	p.requireTexts(a.Name, map[string]string{
		"help": a.Help, "type": string(a.Type.Type), "onInvalid": string(a.OnInvalid),
		"source": strings.Join(a.Source, ""),
	})
	p.outcome(a.Name, a.OnInvalid, a.OnChange, a.UnknownPort)
	if prefix, _ := d.Split(a.Name); prefix == "" {
		p.add("%s must have one of the prefixes", a.Name)
	}
	for _, name := range a.Names() {
		if unknown := unknownPlaceholders(name); len(unknown) > 0 {
			p.add("%s has an unknown placeholder %s", name, strings.Join(unknown, ", "))
		}
	}
	if p.typ(a.Name, &a.Type) {
		p.examples(d.Empty, *a)
	}
	for i := range a.Variants {
		p.variant(a.Name, &a.Variants[i])
	}
	if a.Invalid == nil && !a.WrittenByController() && !a.Free() {
		p.add("%s lacks an invalid example", a.Name)
	}
	p.versions(a)
	p.conditions(a.Name, a.ReadIf)
	p.conditions(a.Name, a.DefaultIf)
	for _, d := range a.Defaults {
		p.conditions(a.Name, d.If)
	}
	for _, q := range a.Requires {
		p.outcome(a.Name, q.OnBreach)
		p.conditions(a.Name, slices.Concat(q.If, q.Any))
		if len(q.Any) == 0 || q.OnBreach == "" {
			p.add("%s has a requirement without any or onBreach", a.Name)
		}
		if q.Unread && (q.OnBreach != Ignored || len(q.Values) > 0 || q.SomePort) {
			p.add("%s has a requirement that is unread but not ignored for every value and port", a.Name)
		}
	}
	for i := range a.Checks {
		p.call(a.Name, &a.Checks[i])
	}
}

func (p *problems) variant(where string, v *Variant) {
	p.requireTexts("a variant of "+where, map[string]string{
		"type": string(v.Type.Type), "onInvalid": string(v.OnInvalid),
	})
	p.outcome(where, v.OnInvalid, v.OnChange)
	p.typ(where, &v.Type)
	if v.Invalid == nil && !v.Free() {
		p.add("a variant of %s lacks an invalid example", where)
	}
	p.conditions(where, v.If)
	if len(v.If) == 0 || slices.ContainsFunc(v.If, func(c Condition) bool { return c.Key != "" }) {
		p.add("a variant of %s must have conditions, and only of fields", where)
	}
}

func (p *problems) check(c *Check) {
	p.requireTexts("check "+c.ID, map[string]string{
		"id": c.ID, "help": c.Help, "at": c.At, "onBreach": string(c.OnBreach), "remedy": c.Remedy,
		"source": strings.Join(c.Source, ""),
	})
	p.outcome("check "+c.ID, c.OnBreach)
	p.conditions("check "+c.ID, slices.Concat(c.If, c.Any))
	if (len(c.Any) == 0) == (c.Call == nil) {
		p.add("check %s must have either any or call", c.ID)
	}
	if c.Call != nil {
		p.call("check "+c.ID, c.Call)
	}
	if !spec.Has(c.At) && !p.names[c.At] {
		p.add("check %s is at %s, which is neither a field nor a key", c.ID, c.At)
	}
}

func (p *problems) conditions(where string, list []Condition) {
	for _, c := range list {
		switch {
		case (c.Key == "") == (c.Field == ""):
			p.add("%s has a condition without or with both key and field", where)
		case c.Field != "" && !p.isField(c.Field):
			p.add("%s has a condition on an unknown field %s", where, c.Field)
		case c.Key != "" && !p.names[c.Key]:
			p.add("%s has a condition on an unknown key %s", where, c.Key)
		case c.Set == nil && !c.ComparesValues():
			p.add("%s has a condition that tests nothing", where)
		}
	}
}

func (p *problems) outcome(where string, outcomes ...Outcome) {
	for _, o := range outcomes {
		if !slices.Contains([]Outcome{"", Refused, Misread, Ignored}, o) {
			p.add("%s has an unknown outcome %q", where, o)
		}
	}
}

func (p *problems) call(where string, c *Call) {
	f, known := check.Lookup(c.Name)
	if !known {
		p.add("%s names a function %q that does not exist", where, c.Name)
		return
	}
	p.outcome(where, c.OnBreach)
	for _, arg := range f.Args {
		if c.With[arg] == "" {
			p.add("%s lacks the argument %s of %s", where, arg, c.Name)
		}
	}
	for _, arg := range slices.Sorted(maps.Keys(c.With)) {
		if !slices.Contains(slices.Concat(f.Args, f.Optional), arg) {
			p.add("%s passes %s an unknown argument %s", where, c.Name, arg)
		}
		p.argument(where+" passes "+c.Name, arg, c.With[arg])
	}
}

// argument reports an argument that is not what its name says.
func (p *problems) argument(where, name, value string) {
	switch name {
	case "field":
		if !spec.Has(value) {
			p.add("%s an unknown field %s", where, value)
		}
	case "key", "than":
		if !p.names[value] {
			p.add("%s an unknown key %s", where, value)
		}
	case "max":
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			p.add("%s max %q, which must be a number", where, value)
		}
	case "rule":
		p.typ(where+" a value that", &annotation.Type{Type: annotation.Text, Rule: value})
	}
}

// typ reports whether a type is free of problems.
func (p *problems) typ(where string, t *annotation.Type) bool {
	found := t.Problems()
	for _, problem := range found {
		p.add("%s %s", where, problem)
	}
	return len(found) == 0
}

// examples reports values of a complete type that are not what the annotation says.
func (p *problems) examples(empty annotation.Empty, a Annotation) {
	a.Complete(empty)
	refuses := func(value string) bool {
		_, err := a.Parse(value)
		return err != nil
	}
	if !a.WrittenByController() && refuses(a.Valid) {
		p.add("%s refuses its valid example %q", a.Name, a.Valid)
	}
	for _, d := range append([]Default{{Value: a.Default}}, a.Defaults...) {
		if d.Value != "" && refuses(d.Value) {
			p.add("%s refuses its default %q", a.Name, d.Value)
		}
	}
}
