package catalog

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/finding"
)

// judge finds everything that is wrong with a Service that the controller acts on, unknown keys apart.
func (r *reading) judge() []finding.Finding {
	var findings []finding.Finding
	for _, s := range r.settings {
		findings = append(findings, r.setting(s)...)
	}
	for i := range r.Rules {
		if f, broken := r.rule(&r.Rules[i]); broken {
			findings = append(findings, f)
		}
	}
	return findings
}

func (r *reading) setting(s *setting) []finding.Finding {
	switch {
	case s.Written:
		return nil
	case s.shadowed:
		if s.raw == r.svc.Annotations[s.name] {
			return nil
		}
		return []finding.Finding{r.finding(s, idShadowed, finding.Warning, "is not read, because "+s.name+" is there, too", "remove one of the two")}
	}
	var findings []finding.Finding
	if port, known := r.port(s); !known {
		outcome := s.UnknownPort
		if outcome == "" {
			outcome = Ignored
		}
		findings = append(findings, r.finding(s, idUnknownPort, outcome.Severity(),
			fmt.Sprintf("the key must be for a port of the Service; %s is none", port), "correct or remove the key"))
	}
	if f, old := r.deprecated(s); old {
		findings = append(findings, f)
	}
	if missing, unread := r.unread(s.Annotation, s.bindings); unread {
		return append(findings, r.finding(s, idRequirement, finding.Warning,
			"has no effect, because it is read only beside "+missing.words(s.bindings), "add that or remove the key"))
	}
	if s.err != nil {
		return append(findings, r.invalid(s))
	}
	if s.parsed.Absent {
		return findings
	}
	for _, q := range s.Requires {
		if f, broken := r.requirement(s, q); broken {
			findings = append(findings, f)
		}
	}
	for _, check := range s.Checks {
		problem := behaviours[check.Name].Judge(Subject{Service: r.svc, Value: s.parsed, Raw: s.raw, With: check.With, reading: r, bindings: s.bindings})
		if problem == "" {
			continue
		}
		outcome := check.OnBreach
		if outcome == "" {
			outcome = s.OnInvalid
		}
		findings = append(findings, r.finding(s, idInvalidValue, outcome.Severity(), "must "+problem, "correct the value"))
	}
	return findings
}

// unread tells whether the controller is known not to read a key, and for want of what.
func (r *reading) unread(a *Annotation, b bindings) (missing Condition, unread bool) {
	for _, c := range a.ReadIf {
		if holds, known := r.holds(c, b); known && !holds {
			return c, true
		}
	}
	return Condition{}, false
}

// port tells whether the port in a family's key is one of the Service.
func (r *reading) port(s *setting) (text string, known bool) {
	for _, place := range []string{placePort, placePortName, placePortRef} {
		text, bound := s.bindings[place]
		if !bound {
			continue
		}
		byNumber := place != placePortName && slices.Contains(fields["spec.ports.port"](r.svc), text)
		byName := place != placePort && slices.Contains(fields["spec.ports.name"](r.svc), text)
		return text, byNumber || byName
	}
	return "", true
}

func (r *reading) deprecated(s *setting) (finding.Finding, bool) {
	switch {
	case s.Deprecated != "":
		return r.finding(s, idDeprecated, finding.Warning, "the key is deprecated", s.Deprecated), true
	case s.AliasesDeprecated && s.key != s.name:
		return r.finding(s, idDeprecated, finding.Warning, "the key is deprecated", "write "+s.name), true
	}
	return finding.Finding{}, false
}

func (r *reading) requirement(s *setting, q Requirement) (finding.Finding, bool) {
	if q.Values != nil && !slices.ContainsFunc(s.parsed.List, func(v string) bool { return slices.Contains(q.Values, v) }) {
		return finding.Finding{}, false
	}
	if !r.all(q.If, s.bindings) || !r.none(q.Any, s.bindings) {
		return finding.Finding{}, false
	}
	remedy := q.Remedy
	if remedy == "" {
		remedy = "add that or remove the key"
	}
	return r.finding(s, idRequirement, q.OnBreach.Severity(), "must "+q.must(s.bindings), remedy), true
}

func (r *reading) rule(rule *Rule) (finding.Finding, bool) {
	if !r.all(rule.If, nil) {
		return finding.Finding{}, false
	}
	message := rule.Must()
	if rule.Check != nil {
		problem := behaviours[rule.Check.Name].Judge(Subject{Service: r.svc, With: rule.Check.With, reading: r})
		if problem == "" {
			return finding.Finding{}, false
		}
		if rule.Message == "" {
			message = problem
		}
	} else if !r.none(rule.Any, nil) {
		return finding.Finding{}, false
	}
	f := finding.Finding{
		ID: r.catalog.id(rule.ID), Catalog: r.catalog.Name, Severity: rule.OnBreach.Severity(), Type: field.ErrorTypeInvalid,
		Field: Path(rule.At), Message: "must " + message, Remedy: rule.Remedy,
	}
	if ask, isField := fields[rule.At]; isField {
		f.Value = strings.Join(ask(r.svc), ",")
	} else if settings := r.of(rule.At, nil); len(settings) > 0 {
		f.Field, f.Value = Path(settings[0].key), settings[0].raw
	} else {
		f.Type = field.ErrorTypeRequired
	}
	return f, true
}

// changes are the keys whose values may not change, and do. Only what was good can be kept.
func (r *reading) changes(was *reading) []finding.Finding {
	if len(was.svc.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	var findings []finding.Finding
	for _, e := range r.entries {
		e = e.on(r)
		if e.OnChange == "" || e.templates != nil {
			continue
		}
		before, _, knew := was.values(e.Name, nil)
		after, _, knows := r.values(e.Name, nil)
		if _, unread := r.unread(e.Annotation, nil); unread || !knew || !knows || slices.Equal(before, after) {
			continue
		}
		s := &setting{entry: e, key: e.Name}
		if settings := r.of(e.Name, nil); len(settings) > 0 {
			s = settings[0]
		}
		severity := e.OnChange.Severity()
		if len(before) == 0 || len(after) == 0 {
			// Nobody knows what holds without the key: it may be the same.
			severity = finding.Warning
		}
		findings = append(findings, r.finding(s, idChanged, severity, "must stay "+orUnset(before),
			"create a new Service to have it otherwise"))
	}
	return findings
}

func orUnset(values []string) string {
	if len(values) == 0 {
		return "unset"
	}
	return strings.Join(values, ",")
}

// unowned warns of keys that the controller would read if it acted on the Service.
func (c *Catalog) unowned(svc *corev1.Service, key string) finding.Finding {
	message := "has no effect, because " + c.Title + " does not act on this Service"
	if class := svc.Spec.LoadBalancerClass; class != nil {
		message += " of the loadBalancerClass " + *class
	}
	return finding.Finding{
		ID: c.id(idNotOwned), Catalog: c.Name, Severity: finding.Warning, Field: Path(key), Message: message, Remedy: "remove the key",
	}
}
