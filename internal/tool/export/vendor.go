package export

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/internal/tool/export/cel"
)

// check is one validation of a Service.
type check struct {
	subject  subject
	severity finding.Severity
	// holds returns the expression in a scope.
	holds func(s scope) (string, error)
	// key is the annotation that it validates, and unless the name that takes precedence over it if it is an alias.
	key, unless string
	field       string
	message     string
	id          string
}

// subject is what a check validates.
type subject int

const (
	// aService is a Service as a whole.
	aService subject = iota
	// aCombination is a key together with other keys or fields, so that it may become invalid although it is unchanged.
	aCombination
	// aValue is the value of a key.
	aValue
	// everyKey is every key k, to find those of a family and unknown ones.
	everyKey
)

// vendor converts a catalog to checks. unsaid lists the findings that it cannot express.
type vendor struct {
	catalog  *library.Catalog
	document document.Document
	entries  entries
	checks   []check
	unsaid   []Unsaid
}

func newVendor(c *library.Catalog) *vendor {
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
		v.serviceCheck(&d.Checks[i])
	}
	return v
}

// add adds a check, or lists its finding as unsaid if there is no expression for it.
func (v *vendor) add(c check) {
	c.id = v.catalog.ID(c.id)
	if _, err := c.holds(inPolicy.after); err != nil {
		v.unsaid = append(v.unsaid, Unsaid{Catalog: v.document.Name, Finding: c.id, Field: c.field, Why: err.Error()})
		return
	}
	v.checks = append(v.checks, c)
}

// omit lists a finding as unsaid.
func (v *vendor) omit(id, field, why string) {
	u := Unsaid{Catalog: v.document.Name, Finding: v.catalog.ID(id), Field: field, Why: why}
	// Several requirements of a key may share an id.
	if !slices.Contains(v.unsaid, u) {
		v.unsaid = append(v.unsaid, u)
	}
}

// path returns the path of a key or field. Parts in braces differ from port to port.
func (v *vendor) path(at string) string {
	if name, ofPort := strings.CutPrefix(at, "spec.ports."); ofPort {
		return "spec.ports[{index}]." + name
	}
	if a := v.entries[at]; a != nil && a.PortForm {
		at += "{.port}"
	}
	return catalog.Path(at)
}

// unknownKeys checks for unknown keys under the catalog's own prefixes. Under shared prefixes, CEL cannot recognise
// typos.
func (v *vendor) unknownKeys() {
	var known, patterns []string
	for _, a := range v.document.Annotations {
		for _, name := range a.Names() {
			if strings.Contains(name, "{") {
				patterns = append(patterns, document.KeyPattern(name))
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
			id: "unknown-key", severity: finding.Error, subject: everyKey, field: finding.Annotations,
			message: finding.Annotations + ": the keys under " + prefix + " must be annotations of " + v.document.Title,
			holds: func(scope) (string, error) {
				ok := cel.In("k", known)
				if len(patterns) > 0 {
					ok += " || " + cel.Matches("k", strings.Join(patterns, "|"))
				}
				return "k.startsWith(" + cel.Quote(prefix) + ") ? " + ok + " : true", nil
			},
		})
	}
	v.portForms()
	if v.document.Own {
		v.unsaid = append(v.unsaid, Unsaid{
			Catalog: v.document.Name, Finding: review.IDMisspelledKey, Field: finding.Annotations, Why: "typos are not searched",
		})
	}
	if len(v.document.SharedPrefixes) > 0 {
		v.omit("unknown-key", finding.Annotations,
			"other controllers also have keys under "+strings.Join(v.document.SharedPrefixes, " and "))
	}
}

// portForms checks the ports in forms for ports. The check of unknown keys covers suffixes of keys without such a form.
func (v *vendor) portForms() {
	var withForm, patterns []string
	for _, a := range v.document.Annotations {
		if a.PortForm {
			withForm = append(withForm, a.Name)
			patterns = append(patterns, regexp.QuoteMeta(a.Name))
		}
	}
	if len(withForm) == 0 {
		return
	}
	v.add(check{
		id: "unknown-port", severity: finding.Error, field: finding.Annotations, subject: everyKey,
		message: finding.Annotations + ": the suffix of a key must be the number or the name of a port of the Service",
		holds: func(scope) (string, error) {
			return cel.In("k", withForm) + " || !" + cel.Matches("k", "("+strings.Join(patterns, "|")+`)\.[^.]+`) +
				" || object.spec.?ports.orValue([]).exists(p, k.endsWith('.' + string(p.port)) || " +
				"(p.?name.orValue('') != '' && k.endsWith('.' + p.?name.orValue(''))))", nil
		},
	})
	v.omit("ambiguous-port", finding.Annotations, "it compares two keys for one port")
}

func (v *vendor) annotation(a *document.Annotation) {
	if a.WrittenByController() {
		return
	}
	for _, name := range a.Names() {
		unless := ""
		if name != a.Name {
			unless = a.Name
		}
		field := finding.FieldOf(name)
		family := strings.Contains(name, "{")
		if family || a.PortForm {
			v.family(a, name)
		}
		if family {
			continue
		}
		for _, one := range kinds(a) {
			v.add(check{
				id: "invalid-value", severity: one.severity(a), subject: aValue, key: name, unless: unless,
				field: field, message: one.message(a),
				holds: v.ifRead(a, func(s scope) (string, error) {
					return v.entries.ofKind(one, s, s.at(name))
				}),
			})
		}
		if a.PortForm {
			continue
		}
		if len(a.ReadIf) > 0 {
			v.add(check{
				id: "requirement", severity: finding.Warning, subject: aCombination, key: name, unless: unless,
				field: field, message: "has no effect: " + document.RequirementText(a.ReadIf, nil),
				holds: func(s scope) (string, error) { return v.entries.reads(a, s) },
			})
		}
		for _, q := range a.Requires {
			v.requirement(a, name, unless, q)
		}
		for _, c := range a.Checks {
			v.omit(cmp.Or(c.ID, "invalid-value"), field, "the check "+c.Name+" is not implemented in CEL")
		}
	}
	if a.OnChange != "" {
		v.omit(cmp.Or(a.ChangeID, "changed"), finding.FieldOf(a.Name), "changes are not compared")
	}
}

// ifValid limits the expression of a requirement to Services on which the key is read, unless that is what it decides.
func (v *vendor) ifValid(a *document.Annotation, q document.Requirement, holds func(s scope) (string, error)) func(s scope) (string, error) {
	if q.Unread {
		return func(s scope) (string, error) { return v.entries.implies("true", q.If, q.Any, s) }
	}
	return v.ifRead(a, holds)
}

// ifRead limits an expression to Services on which a key is read.
func (v *vendor) ifRead(a *document.Annotation, holds func(s scope) (string, error)) func(s scope) (string, error) {
	return func(s scope) (string, error) {
		expression, err := holds(s)
		if err != nil {
			return "", err
		}
		read, err := v.entries.reads(a, s)
		if err != nil {
			return "", err
		}
		return cel.Or(cel.Not(read), "("+expression+")"), nil
	}
}

// reads returns an expression that is true unless the controller is known not to read a key on the Service.
func (e entries) reads(a *document.Annotation, s scope) (string, error) {
	if slices.ContainsFunc(a.Checks, func(c document.Call) bool { return c.Unread }) {
		return "", unsupported("a function decides whether the key is read")
	}
	all := "true"
	for _, c := range a.ReadIf {
		may, err := e.mayHold([]document.Condition{c}, s)
		if err != nil {
			return "", err
		}
		all = cel.And(all, "("+may+")")
	}
	for _, q := range a.Requires {
		if !q.Unread {
			continue
		}
		met, err := e.implies("true", q.If, q.Any, s)
		if err != nil {
			return "", err
		}
		all = cel.And(all, "("+met+")")
	}
	return all, nil
}

// belongs returns an expression that is true if k belongs to a family, or is the form of a key for a port.
func belongs(a *document.Annotation, name string) string {
	if a.PortForm {
		return "k.startsWith(" + cel.Quote(name+".") + ")"
	}
	literal, _, _ := strings.Cut(name, "{")
	return "k.startsWith(" + cel.Quote(literal) + ") && " + cel.Matches("k", document.KeyPattern(name))
}

// family validates the values of all keys of a family, or of the forms of a key for ports.
func (v *vendor) family(a *document.Annotation, name string) {
	for _, one := range kinds(a) {
		v.add(check{
			id: "invalid-value", severity: one.severity(a), subject: everyKey, field: v.path(name),
			message: finding.FieldOf(name) + ": " + one.message(a),
			holds: func(s scope) (string, error) {
				valid, err := v.entries.ofKind(one, s, s.annotations+"[k]")
				if err != nil {
					return "", err
				}
				read, err := v.entries.reads(a, s)
				if err != nil {
					return "", err
				}
				return belongs(a, name) + " ? " + cel.Or(cel.Not(read), "("+valid+")") + " : true", nil
			},
		})
	}
	field := v.path(name)
	for _, q := range a.Requires {
		v.omit(cmp.Or(q.ID, "requirement"), field, "it depends on several keys or ports")
	}
	if len(a.Checks) > 0 {
		v.omit(cmp.Or(a.Checks[0].ID, "invalid-value"), field,
			"the check "+a.Checks[0].Name+" is not implemented in CEL")
	}
	if strings.Contains(name, "{port") {
		v.omit("unknown-port", field, "ports in keys are not compared with those of the Service")
	}
}

func (v *vendor) requirement(a *document.Annotation, name, unless string, q document.Requirement) {
	field := finding.FieldOf(name)
	message := q.Text(nil)
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
		v.omit(cmp.Or(q.ID, "requirement"), field, why)
		return
	}
	v.add(check{
		id: cmp.Or(q.ID, "requirement"), severity: q.OnBreach.Severity(), subject: aCombination, key: name, unless: unless,
		field: field, message: message,
		holds: v.ifValid(a, q, func(s scope) (string, error) {
			applies, err := typeExpression(&a.Type, s.at(name))
			if err != nil {
				return "", err
			}
			if a.Empty == annotation.Absent {
				applies = cel.And(normal(&a.Type, s.at(name))+" != ''", applies)
			}
			if q.Values != nil {
				hasValue, err := present(document.Condition{Is: q.Values}, a, s.at(name))
				if err != nil {
					return "", err
				}
				applies = cel.And("("+applies+")", hasValue)
			}
			return v.entries.implies(applies, q.If, q.Any, s)
		}),
	})
}

// implies returns an expression that is false if applies is true, all conditions hold, and none of the required ones
// does, and the values of all of them are valid.
func (e entries) implies(applies string, conditions, required []document.Condition, s scope) (string, error) {
	var parts []string
	for _, list := range [][]document.Condition{conditions, required} {
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
	met, err := e.anyOf(required, s)
	if err != nil {
		return "", err
	}
	return cel.Or(cel.Not(cel.And(cel.And(applies, cel.And(parts[0], parts[1])), holds)), met), nil
}

// serviceCheck converts a check of the Service as a whole.
func (v *vendor) serviceCheck(c *document.Check) {
	field := catalog.Path(c.At)
	if c.Call != nil {
		// The field depends on the problem that the function reports.
		v.omit(c.ID, "", "the check "+c.Call.Name+" is not implemented in CEL")
		return
	}
	if c.EachPort && (len(c.If) > 0 || len(c.Any) != 1 || c.Any[0].Not == nil) {
		v.omit(c.ID, v.path(c.At), "it validates each port separately")
		return
	}
	v.add(check{
		id: c.ID, severity: c.OnBreach.Severity(), field: field, message: field + ": " + c.Text() + "; " + c.Remedy,
		holds: func(s scope) (string, error) { return v.entries.implies("true", c.If, c.Any, s) },
	})
}
