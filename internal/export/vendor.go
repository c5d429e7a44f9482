package export

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
)

// check is one validation: something that must hold of a Service.
type check struct {
	severity finding.Severity
	// holds is the expression in a scope.
	holds func(s scope) (string, error)
	// key is the annotation that it is about; empty for one that is about the Service as a whole, or about a family of keys.
	key     string
	field   string
	message string
	id      string
	// alone says that what was so before is known from the key alone, or is part of the expression.
	alone bool
}

// vendor turns a catalog into checks. What it cannot say is told.
type vendor struct {
	catalog  *catalog.Catalog
	document catalog.Document
	entries  entries
	checks   []check
	unsaid   []Unsaid
}

func newVendor(c *catalog.Catalog) *vendor {
	d := c.Document()
	v := &vendor{catalog: c, document: d, entries: entries{}}
	for i := range d.Annotations {
		v.entries[d.Annotations[i].Name] = &d.Annotations[i]
	}
	v.unknownKeys()
	for i := range d.Annotations {
		v.annotation(&d.Annotations[i])
	}
	for i := range d.Checks {
		v.rule(&d.Checks[i])
	}
	return v
}

// add takes a check whose expression can be written, and else tells that it cannot.
func (v *vendor) add(c check) {
	c.id = v.catalog.ID(c.id)
	if _, err := c.holds(now); err != nil {
		v.unsaid = append(v.unsaid, Unsaid{Catalog: v.document.Name, Finding: c.id, Field: c.field, Why: err.Error()})
		return
	}
	v.checks = append(v.checks, c)
}

func (v *vendor) leave(id, field, why string) {
	u := Unsaid{Catalog: v.document.Name, Finding: v.catalog.ID(id), Field: field, Why: why}
	// Several requirements of a key may share an id.
	if !slices.Contains(v.unsaid, u) {
		v.unsaid = append(v.unsaid, u)
	}
}

// path returns the path of a key or field. What is in braces differs from port to port.
func (v *vendor) path(at string) string {
	if name, ofPort := strings.CutPrefix(at, "spec.ports."); ofPort {
		return "spec.ports[{index}]." + name
	}
	if a := v.entries[at]; a != nil && a.PortForm {
		at += "{.port}"
	}
	return catalog.Path(at)
}

// unknownKeys are those under the catalog's own prefixes. Under shared ones nobody but our own code can tell what was meant.
func (v *vendor) unknownKeys() {
	var known, patterns []string
	for _, a := range v.document.Annotations {
		for _, name := range a.Names() {
			if strings.Contains(name, "{") {
				patterns = append(patterns, catalog.KeyPattern(name))
			} else {
				known = append(known, name)
			}
		}
		if a.PortForm {
			patterns = append(patterns, regexp.QuoteMeta(a.Name)+`\.[^.]+`)
		}
	}
	for _, name := range v.document.Elsewhere {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			patterns = append(patterns, regexp.QuoteMeta(prefix)+".*")
		} else {
			known = append(known, name)
		}
	}
	for _, prefix := range v.document.Prefixes {
		v.add(check{
			id: "unknown-key", severity: finding.Error, alone: true, field: "metadata.annotations",
			message: "metadata.annotations: the keys under " + prefix + " must be annotations of " + v.document.Title,
			holds: func(s scope) (string, error) {
				ok := "!k.startsWith(" + quote(prefix) + ") || " + in("k", known)
				if len(patterns) > 0 {
					ok += " || " + matches("k", strings.Join(patterns, "|"))
				}
				return s.annotations + ".all(k, " + ok + unchanged("k") + ")", nil
			},
		})
	}
	v.portForms()
	if len(v.document.SharedPrefixes) > 0 {
		v.leave("unknown-key", "metadata.annotations", "under "+strings.Join(v.document.SharedPrefixes, " and ")+" others have keys, too")
	}
}

// portForms checks the ports of keys with forms for ports. That a key has none is part of the check of unknown keys.
func (v *vendor) portForms() {
	var formed []string
	for _, a := range v.document.Annotations {
		if a.PortForm {
			formed = append(formed, regexp.QuoteMeta(a.Name))
		}
	}
	if len(formed) == 0 {
		return
	}
	v.add(check{
		id: "unknown-port", severity: finding.Error, field: "metadata.annotations", alone: true,
		message: "metadata.annotations: the suffix of a key must be the number or the name of a port of the Service",
		holds: func(s scope) (string, error) {
			ok := "!" + matches("k", "("+strings.Join(formed, "|")+`)\.[^.]+`) +
				" || object.spec.?ports.orValue([]).exists(p, k.endsWith('.' + string(p.port)) || (p.?name.orValue('') != '' && k.endsWith('.' + p.?name.orValue(''))))"
			return s.annotations + ".all(k, " + ok + unchanged("k") + ")", nil
		},
	})
	v.leave("ambiguous-port", "metadata.annotations", "it is about two keys for one port")
}

// unchanged goes on a check of the key k: what was there before passes.
func unchanged(k string) string {
	return fmt.Sprintf(" || (variables.wasBalancer && %[1]s in variables.before && variables.before[%[1]s] == variables.annotations[%[1]s])", k)
}

func (v *vendor) annotation(a *catalog.Annotation) {
	if a.Written {
		return
	}
	for _, name := range a.Names() {
		field := "metadata.annotations[" + name + "]"
		if strings.Contains(name, "{") || a.PortForm {
			v.family(a, name)
			continue
		}
		for _, one := range kinds(a) {
			v.add(check{
				id: "invalid-value", severity: one.severity(a), key: name, field: field, message: one.message(a), alone: true,
				holds: v.where(a, name, func(s scope) (string, error) { return v.entries.on(one, s, s.at(name)) }),
			})
		}
		if len(a.ReadIf) > 0 {
			v.add(check{
				id: "requirement", severity: finding.Warning, key: name, field: field,
				message: "has no effect: " + catalog.RequirementText(a.ReadIf),
				holds: func(s scope) (string, error) {
					read, err := v.entries.reads(a, s)
					return v.unread(a, name, s) + " || (" + read + ")", err
				},
			})
		}
		for _, q := range a.Requires {
			v.requirement(a, name, q)
		}
		for _, c := range a.Checks {
			v.leave(cmp.Or(c.ID, "invalid-value"), field, "the check "+c.Name+" is not written in CEL")
		}
	}
	if a.OnChange != "" {
		v.leave(cmp.Or(a.ChangeID, "changed"), "metadata.annotations["+a.Name+"]", "changes are not compared")
	}
}

// where limits an expression to Services that have the key, and where it is read.
func (v *vendor) where(a *catalog.Annotation, name string, holds func(s scope) (string, error)) func(s scope) (string, error) {
	return func(s scope) (string, error) {
		expression, err := holds(s)
		if err != nil {
			return "", err
		}
		read, err := v.entries.reads(a, s)
		if err != nil {
			return "", err
		}
		return v.unread(a, name, s) + " || " + or(not(read), "("+expression+")"), nil
	}
}

// unread is true where a key is not there, or is an alias beside the name itself.
func (v *vendor) unread(a *catalog.Annotation, name string, s scope) string {
	unread := "!(" + s.has(name) + ")"
	if name != a.Name {
		unread += " || " + s.has(a.Name)
	}
	return unread
}

// reads is true unless the controller is known not to read a key on the Service.
func (e entries) reads(a *catalog.Annotation, s scope) (string, error) {
	all := "true"
	for _, c := range a.ReadIf {
		may, err := e.mayHold([]catalog.Condition{c}, s)
		if err != nil {
			return "", err
		}
		all = and(all, "("+may+")")
	}
	return all, nil
}

// keyPattern matches the keys of a family, or a key and its forms for ports.
func keyPattern(a *catalog.Annotation, name string) string {
	if a.PortForm {
		return regexp.QuoteMeta(name) + `(\..*)?`
	}
	return catalog.KeyPattern(name)
}

// family checks the values of all keys of a family, or of a key and its forms for ports.
func (v *vendor) family(a *catalog.Annotation, name string) {
	for _, one := range kinds(a) {
		v.add(check{
			id: "invalid-value", severity: one.severity(a), alone: true, field: v.path(name),
			message: "metadata.annotations[" + name + "]: " + one.message(a),
			holds: func(s scope) (string, error) {
				valid, err := v.entries.on(one, s, s.annotations+"[k]")
				if err != nil {
					return "", err
				}
				read, err := v.entries.reads(a, s)
				if err != nil {
					return "", err
				}
				valid = or(not(read), "("+valid+")")
				return s.annotations + ".all(k, !" + matches("k", keyPattern(a, name)) + " || (" + valid + ")" + unchanged("k") + ")", nil
			},
		})
	}
	field := v.path(name)
	for _, q := range a.Requires {
		v.leave(cmp.Or(q.ID, "requirement"), field, "it depends on several keys or ports")
	}
	if len(a.Checks) > 0 {
		v.leave(cmp.Or(a.Checks[0].ID, "invalid-value"), field, "the check "+a.Checks[0].Name+" is not written in CEL")
	}
	if strings.Contains(name, "{port") {
		v.leave("unknown-port", field, "ports are not looked up")
	}
}

func (v *vendor) requirement(a *catalog.Annotation, name string, q catalog.Requirement) {
	message := q.Text()
	if q.Remedy != "" {
		message += "; " + q.Remedy
	}
	why := ""
	switch {
	case len(a.Variants) > 0:
		why = "the type of the key depends on the Service"
	case q.SomePort:
		why = "it depends on several keys or ports"
	}
	if why != "" {
		v.leave(cmp.Or(q.ID, "requirement"), "metadata.annotations["+name+"]", why)
		return
	}
	v.add(check{
		id: cmp.Or(q.ID, "requirement"), severity: q.OnBreach.Severity(), key: name, field: "metadata.annotations[" + name + "]", message: message,
		holds: v.where(a, name, func(s scope) (string, error) {
			applies, err := typeExpression(&a.Type, s.at(name))
			if err != nil {
				return "", err
			}
			if a.Empty == annotation.Absent {
				applies = and(normal(&a.Type, s.at(name))+" != ''", applies)
			}
			if q.Values != nil {
				of, err := present(catalog.Condition{Is: q.Values}, a, s.at(name))
				if err != nil {
					return "", err
				}
				applies = and("("+applies+")", of)
			}
			return v.entries.implies(applies, q.If, q.Any, s)
		}),
	})
}

// implies is false where it applies, all conditions hold, and none of what is demanded does. All of them are readable.
func (e entries) implies(applies string, conditions, demanded []catalog.Condition, s scope) (string, error) {
	var parts []string
	for _, list := range [][]catalog.Condition{conditions, demanded} {
		readable, err := e.readable(list, s)
		if err != nil {
			return "", err
		}
		parts = append(parts, readable)
	}
	holds, err := e.allOf(conditions, s)
	if err != nil {
		return "", err
	}
	demand, err := e.anyOf(demanded, s)
	if err != nil {
		return "", err
	}
	return or(not(and(and(applies, and(parts[0], parts[1])), holds)), demand), nil
}

func (v *vendor) rule(r *catalog.Check) {
	field := catalog.Path(r.At)
	if r.Call != nil {
		// The check decides which field is to blame.
		v.leave(r.ID, "", "the check "+r.Call.Name+" is not written in CEL")
		return
	}
	if r.EachPort && (len(r.If) > 0 || len(r.Any) != 1 || r.Any[0].Not == nil) {
		v.leave(r.ID, v.path(r.At), "it is about each port")
		return
	}
	v.add(check{
		id: r.ID, severity: r.OnBreach.Severity(), field: field, message: field + ": " + r.Text() + "; " + r.Remedy,
		holds: func(s scope) (string, error) { return v.entries.implies("true", r.If, r.Any, s) },
	})
}
