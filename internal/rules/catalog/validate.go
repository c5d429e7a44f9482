package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/check"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/catalog/spec"
	"quaymaster.dev/internal/rules/finding"
)

// validate validates a Service that the controller acts on, except for unknown keys.
func (v *View) validate() []finding.Finding {
	var findings []finding.Finding
	for _, s := range v.settings {
		findings = v.validateSetting(s, findings)
	}
	for i := range v.Checks {
		findings = v.check(&v.Checks[i], findings)
	}
	return findings
}

// validateSetting appends the findings about one annotation.
func (v *View) validateSetting(s *Setting, findings []finding.Finding) []finding.Finding {
	switch unread := s.Base.NotIn(v.catalog.Selected); {
	case s.ReadOnly && v.set.o.Unstored:
		return append(findings, v.finding(s, library.IDReadOnly, document.Ignored,
			"has no effect: the controller writes it, and overwrites what users set", "remove it"))
	case s.WrittenByController():
		return findings
	case unread != "":
		return append(findings, v.finding(s, library.IDVersion, document.Ignored, unread,
			"remove it, or select the version of your controller"))
	case s.shadowed:
		if s.Raw == v.Service.Annotations[s.name] {
			return findings
		}
		return append(findings, v.finding(s, library.IDShadowed, document.Ignored,
			"is not read, because "+s.name+" is also set", "remove one of the two"))
	case s.suffix != "" && !s.PortForm:
		return append(findings, v.finding(s, library.IDPortForm, document.Refused,
			s.name+" cannot be set for a single port", "write "+s.name+", which is for the whole load balancer"))
	case s.suffix != "" && len(s.ports) == 0:
		findings = append(findings, v.unknownPort(s))
	}
	if port, known := v.port(s); !known {
		outcome := s.UnknownPort
		if outcome == "" {
			outcome = document.Ignored
		}
		findings = append(findings, v.finding(s, library.IDUnknownPort, outcome,
			"must be for a port of the Service, which has no port "+port, "correct or remove the key"))
		if outcome == document.Ignored {
			return findings
		}
	}
	if f, deprecated := v.deprecated(s); deprecated {
		findings = append(findings, f)
	}
	if missing, unread := v.notRead(s.Annotation, s.bindings); unread {
		conditions := []document.Condition{missing}
		return append(findings, v.finding(s, library.IDRequirement, document.Ignored,
			"has no effect: "+document.RequirementText(conditions, s.bindings), document.Requirement{Any: conditions}.RemedyFor(s.bindings)))
	}
	if unread := v.unread(s); len(unread) > 0 {
		return append(findings, unread...)
	}
	switch {
	case errors.Is(s.Err, errPlaceholder):
		findings = append(findings, v.placeholder(s))
	case s.Err != nil:
		findings = append(findings, v.invalid(s))
	}
	findings = append(findings, v.ambiguous(s)...)
	if s.Err != nil || s.Value.Absent {
		return findings
	}
	findings = append(findings, v.withoutEffect(s)...)
	if path, known, found := s.UnreadField(s.Value); found {
		findings = append(findings, v.unreadField(s, path, known))
	}
	findings = append(findings, v.misspelledEntries(s)...)
	for _, q := range s.Requirements {
		if !q.Unread {
			findings = v.require(s, q, findings)
		}
	}
	for i := range s.Checks {
		if !s.Checks[i].Unread {
			findings = v.call(s, i, findings)
		}
	}
	return findings
}

// unread returns the findings that say why the controller does not read an annotation.
func (v *View) unread(s *Setting) []finding.Finding {
	var findings []finding.Finding
	for _, q := range s.Requirements {
		if q.Unread {
			findings = v.require(s, q, findings)
		}
	}
	for i := range s.Checks {
		if s.Checks[i].Unread {
			findings = v.call(s, i, findings)
		}
	}
	return findings
}

// call applies the function of one of the checks of an annotation.
func (v *View) call(s *Setting, index int, findings []finding.Finding) []finding.Finding {
	c := &s.Checks[index]
	f, _ := check.Lookup(c.Name)
	problem := f.Check(check.Subject{
		Service: v.Service, Value: s.Value, Raw: s.Raw, With: c.With, View: v.at(scope{bindings: s.bindings}),
	})
	if problem == "" {
		return findings
	}
	outcome, id := c.OnBreach, c.ID
	if outcome == "" {
		outcome = s.OnInvalid
	}
	if id == "" {
		id = library.IDInvalidValue
	}
	found := v.finding(s, id, outcome, "must "+problem, "correct the value")
	found.Check = "checks " + strconv.Itoa(index) + ": " + reason(problem)
	return append(findings, found)
}

// reason returns the text of a function's problem without details, which follow ( or ;, and without numbers. A function
// looks at more than one value, and its text says which of them is at fault: with another reason, the problem is new.
func reason(text string) string {
	if at := strings.IndexAny(text, "(;"); at >= 0 {
		text = text[:at]
	}
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// notRead reports whether the controller is known not to read a key, and the condition that does not hold.
func (v *View) notRead(a *document.Annotation, b document.Bindings) (missing document.Condition, unread bool) {
	for _, c := range a.ReadIf {
		if holds, known := v.holds(c, scope{bindings: b}); known && !holds {
			return c, true
		}
	}
	return document.Condition{}, false
}

// port returns the port in a family's key and reports whether the Service has it; true for a key without a port.
func (v *View) port(s *Setting) (text string, known bool) {
	for _, place := range []string{check.PlacePort, check.PlacePortName, check.PlacePortRef} {
		text, bound := s.bindings[place]
		if !bound {
			continue
		}
		ports, named := v.ports.Resolve(text, nil)
		return text, len(ports) > 0 && (place == check.PlacePortRef || named == (place == check.PlacePortName))
	}
	return "", true
}

func (v *View) deprecated(s *Setting) (finding.Finding, bool) {
	switch {
	case s.Deprecated != "":
		return v.finding(s, library.IDDeprecated, document.Ignored, "is deprecated", s.Deprecated), true
	case s.AliasesDeprecated && s.Key != s.name:
		return v.finding(s, library.IDDeprecated, document.Ignored, "is deprecated", "use "+s.name), true
	}
	return finding.Finding{}, false
}

// withoutEffect reports a setting that has no effect on any port, which its author cannot have intended.
func (v *View) withoutEffect(s *Setting) []finding.Finding {
	if len(s.Applies) == 0 || !s.Applies[0].Concerns(s.Value) || s.undecided {
		return nil
	}
	failing := -1
	if !s.PortForm {
		failing = v.failing(s.Base, scope{bindings: s.bindings})
	}
	for _, i := range s.governs {
		at := v.failing(s.Base, service.atPort(i))
		if at < 0 {
			return nil
		}
		failing = max(failing, at)
	}
	if failing < 0 {
		return nil
	}
	return []finding.Finding{v.breach(s, s.Applies[failing], s.bindings)}
}

// require appends the findings about a requirement of a setting.
func (v *View) require(s *Setting, q *library.Requirement, findings []finding.Finding) []finding.Finding {
	switch {
	case q.SomePort, s.PortForm && len(s.governs) == 0:
	case q.EachPort:
		for _, i := range s.governs {
			if v.breaks(s, q, service.atPort(i)) {
				f := v.breach(s, q, s.bindings)
				f.Listeners = []string{spec.Listener(v.Service.Spec.Ports[i])}
				findings = append(findings, f)
			}
		}
	case v.breaks(s, q, scope{bindings: s.bindings}):
		findings = append(findings, v.breach(s, q, s.bindings))
	}
	return findings
}

func (v *View) breaks(s *Setting, q *library.Requirement, sc scope) bool {
	return q.Concerns(s.Value) && v.all(q.If, sc) && v.none(q.Any, sc)
}

func (v *View) breach(s *Setting, q *library.Requirement, b document.Bindings) finding.Finding {
	id := q.ID
	if id == "" {
		id = library.IDRequirement
	}
	f := v.finding(s, id, q.OnBreach, q.Text(b), q.RemedyFor(b))
	f.Check = "requires " + strconv.Itoa(q.Index)
	return f
}

// check appends the findings about the Service as a whole, or about each of its ports.
func (v *View) check(c *document.Check, findings []finding.Finding) []finding.Finding {
	if !c.EachPort {
		return append(findings, v.breachesOf(c, service)...)
	}
	for i, p := range v.Service.Spec.Ports {
		for _, f := range v.breachesOf(c, service.atPort(i)) {
			f.Listeners = []string{spec.Listener(p)}
			findings = append(findings, f)
		}
	}
	return findings
}

func (v *View) breachesOf(c *document.Check, sc scope) []finding.Finding {
	if !v.all(c.If, sc) {
		return nil
	}
	var problems []check.Problem
	switch {
	case c.Call != nil:
		f, _ := check.Lookup(c.Call.Name)
		problems = f.Find(check.Subject{Service: v.Service, With: c.Call.With, View: v.at(sc)})
	case v.none(c.Any, sc):
		problems = []check.Problem{{}}
	}
	var findings []finding.Finding
	for _, p := range problems {
		f := finding.Finding{
			ID: v.catalog.ID(c.ID), Check: "check " + c.ID + ": " + reason(p.Must), Catalog: v.catalog.Name,
			Severity: c.OnBreach.Severity(), Outcome: string(c.OnBreach), Type: field.ErrorTypeInvalid,
			Message: "must " + p.Must, Remedy: c.Remedy,
		}
		if c.Message != "" || c.Call == nil {
			f.Message = c.Text()
		}
		if v.locate(&f, cmp.Or(p.At, c.At), sc); p.Path != "" {
			f.Subject, f.Field, f.Value, f.Type = c.At, p.Path, p.Value, field.ErrorTypeInvalid
		}
		findings = append(findings, f)
	}
	return findings
}

// locate sets the field that the finding points to, and its value.
func (v *View) locate(f *finding.Finding, at string, sc scope) {
	f.Field = Path(at)
	if spec.Has(at) {
		values, _ := v.field(nil, sc, at)
		f.Value = strings.Join(values, ",")
		if name, ofPort := strings.CutPrefix(at, "spec.ports."); ofPort && sc.port > 0 {
			f.Subject, f.Field = at, field.NewPath("spec", "ports").Index(sc.port-1).Child(name).String()
			if f.Value == "" {
				f.Type = field.ErrorTypeRequired
			}
		}
		return
	}
	s := v.blamed(at, sc)
	if s == nil {
		f.Type = field.ErrorTypeRequired
		return
	}
	f.Field, f.Value = Path(s.Key), s.Raw
}

// blamed returns the setting of a key that is read; at the port of the scope, if it has one.
func (v *View) blamed(key string, sc scope) *Setting {
	if sc.port > 0 && v.ByName[key].PortForm {
		return v.Governor(key, sc.port-1)
	}
	for _, s := range v.settingsOf(key, sc.bindings) {
		return s
	}
	return nil
}

// changes reports immutable values that changed. An invalid old value may change.
func (v *View) changes(was *View) []finding.Finding {
	inUse := len(was.Service.Status.LoadBalancer.Ingress) > 0
	var findings []finding.Finding
	for _, e := range v.Entries {
		if e.OnChange == "" && len(e.Alternatives) == 0 {
			continue
		}
		e = v.variantOf(e)
		if e.OnChange == "" || e.Family() || !inUse && !e.Immutable {
			continue
		}
		before, knew := was.values(e.Name, scope{certain: true})
		after, knows := v.values(e.Name, scope{certain: true})
		if _, unread := v.notRead(e.Annotation, nil); unread || !knew || !knows || slices.Equal(before, after) {
			continue
		}
		hadNoEffect := func(s *Setting) bool { return len(was.withoutEffect(s)) > 0 }
		if slices.ContainsFunc(was.settingsOf(e.Name, nil), hadNoEffect) {
			continue
		}
		s := &Setting{Entry: e, Key: e.Name}
		if settings := v.settingsOf(e.Name, nil); len(settings) > 0 {
			s = settings[0]
		}
		outcome, id := e.OnChange, e.ChangeID
		if (len(before) == 0 || len(after) == 0) && !e.NoDefault {
			// The value without the key is not known, and may be the same.
			outcome = document.Ignored
		}
		if id == "" {
			id = library.IDChanged
		}
		message := "must not change from " + orUnset(before)
		if !e.Immutable {
			message += " while the Service has a load balancer"
		}
		f := v.finding(s, id, outcome, message, "create a new Service instead")
		f.Check = "" // no change is old
		findings = append(findings, f)
	}
	return findings
}

func orUnset(values []string) string {
	if len(values) == 0 {
		return "unset"
	}
	return fmt.Sprintf("%q", strings.Join(values, ","))
}

// subject implements the access of functions to a Service.
type subject struct {
	*View
	scope scope
}

var _ check.View = (*subject)(nil)

// at returns the access of one function. It is valid until the next one is called.
func (v *View) at(sc scope) *subject {
	v.subject = subject{v, sc}
	return &v.subject
}

func (s *subject) Value(key string) (value annotation.Value, found bool) {
	key = s.Expand(key)
	e, known := s.ByName[key]
	if known && e.PortForm && s.scope.port > 0 {
		value, found = s.valueAt(e, s.scope.port-1)
		return value, found && value.List != nil
	}
	for _, setting := range s.settingsOf(key, nil) {
		return setting.Value, setting.Err == nil
	}
	if known {
		if d, holds := s.defaultOf(e, s.scope); holds && d.Raw != "" {
			return d.Value, true
		}
	}
	return annotation.Value{}, false
}

func (s *subject) Set(key string) bool { return len(s.settingsOf(key, nil)) > 0 }

func (s *subject) Written(key string) (raw string, set bool) {
	if written := s.blamed(key, s.scope); written != nil {
		return written.Raw, true
	}
	return "", false
}

func (s *subject) Expand(name string) string { return s.scope.bindings.Expand(name) }

func (s *subject) Placeholder(name string) (text string, bound bool) {
	text, bound = s.scope.bindings[name]
	return text, bound
}
