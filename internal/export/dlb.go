package export

import (
	"fmt"
	"regexp"
	"strings"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
)

// What loadbalancer calls the findings that can be said in CEL.
const (
	dlbUnknownKey  = "unknown-key"
	dlbInvalid     = "invalid-value"
	dlbUnknownPort = "unknown-port"
	dlbSCTP        = "sctp"
	dlbPrefix      = "dlb"
)

// dlb are the checks of the DLB's own annotations: which keys there are, their values, and their ports.
func dlb() *vendor {
	v := &vendor{document: catalog.Document{Head: catalog.Head{Name: dlbPrefix}}}
	var plain, formed []string
	for _, d := range loadbalancer.Keys() {
		name := regexp.QuoteMeta(d.Name)
		plain = append(plain, name)
		if d.PortForm {
			formed = append(formed, name)
		}
	}
	prefix := regexp.QuoteMeta(loadbalancer.Prefix)
	withPort := prefix + "(" + strings.Join(formed, "|") + `)\.[^.]+`
	v.each(dlbUnknownKey, "!k.startsWith("+quote(loadbalancer.Prefix)+") || "+
		matches("k", prefix+"("+strings.Join(plain, "|")+")")+" || "+matches("k", withPort),
		"the keys under "+loadbalancer.Prefix+" must be known ones, and those for one port must have such a form")
	v.each(dlbUnknownPort, "!"+matches("k", withPort)+
		" || object.spec.?ports.orValue([]).exists(p, k.endsWith('.' + string(p.port)) || (p.?name.orValue('') != '' && k.endsWith('.' + p.?name.orValue(''))))",
		"the key's suffix must be the number or the name of a port of the Service")
	for _, d := range loadbalancer.Keys() {
		v.descriptor(d, prefix)
	}
	v.add(check{
		id: dlbSCTP, severity: finding.Error, field: "spec.ports", message: "spec.ports: must not use SCTP, which the DLB does not carry",
		holds: func(s scope) (string, error) {
			return s.object + ".spec.?ports.orValue([]).all(p, p.?protocol.orValue('TCP') != 'SCTP')", nil
		},
	})
	said := map[string]bool{"dlb-port-form": true} // by the check of unknown keys
	for _, c := range v.checks {
		said[c.id] = true
	}
	for _, r := range loadbalancer.Docs() {
		if !said[r.ID] {
			v.unsaid = append(v.unsaid, Unsaid{Catalog: loadbalancer.Catalog, Finding: r.ID, Why: "it depends on several keys and ports at once"})
		}
	}
	for i := range v.unsaid {
		v.unsaid[i].Catalog = loadbalancer.Catalog
	}
	return v
}

// each checks all keys, k.
func (v *vendor) each(id, ok, message string) {
	v.add(check{
		id: id, severity: finding.Error, field: "metadata.annotations", message: "metadata.annotations: " + message, alone: true,
		holds: func(s scope) (string, error) {
			return s.annotations + ".all(k, " + ok + unchanged("k") + ")", nil
		},
	})
}

// unchanged goes on a check of the key k: what was so before passes.
func unchanged(k string) string {
	return fmt.Sprintf(" || (variables.wasBalancer && %[1]s in variables.before && variables.before[%[1]s] == variables.annotations[%[1]s])", k)
}

// descriptor judges the values of a key and of its forms for ports.
func (v *vendor) descriptor(d *annotation.Descriptor, prefix string) {
	field := "metadata.annotations[" + d.Key + "]"
	t, err := typeOf(d)
	if err != nil {
		v.leave(dlbInvalid, field, err.Error())
		return
	}
	pattern := prefix + regexp.QuoteMeta(d.Name)
	if d.PortForm {
		pattern += `(\..*)?`
	}
	valid, err := typeExpression(&t, "variables.annotations[k]")
	if err != nil {
		v.leave(dlbInvalid, field, err.Error())
		return
	}
	v.each(dlbInvalid, "!"+matches("k", pattern)+" || ("+valid+")", "the value of "+d.Key+" must be "+d.Allowed()+"; write for example "+d.Example)
}

// typeOf says a descriptor's rule as a type. White space is nowhere in a value.
func typeOf(d *annotation.Descriptor) (catalog.Type, error) {
	t := catalog.Type{Type: catalog.Text, Rule: d.Rule, Empty: catalog.Invalid, Separator: ",", Assign: "="}
	switch d.Type() {
	case "int":
		t.Type, t.Pattern = catalog.Int, `0|[1-9][0-9]{0,17}`
	case "duration":
		t.Type, t.Pattern = catalog.Duration, `((0|[1-9][0-9]{0,9})h)?((0|[1-9][0-9]{0,9})m)?((0|[1-9][0-9]{0,9})s)?((0|[1-9][0-9]{0,9})ms)?`
	case "bool":
		t.Type, t.Dialect = catalog.Bool, catalog.TrueFalse
	case "enum":
		t.Type, t.Values, t.Rule = catalog.Enum, d.Words(), ""
	case "tags":
		return t, unsayable("keys of tags are not compared")
	case "list":
		t.Type, t.Rule = catalog.List, "unique"
		of, err := elementOf(strings.TrimPrefix(d.Rule, "dive,"))
		t.Of = &of
		return t, err
	default:
		return elementOf(d.Rule)
	}
	return t, nil
}

// elementOf says a rule about one text.
func elementOf(rule string) (catalog.Type, error) {
	t := catalog.Type{Type: catalog.Text, Empty: catalog.Invalid}
	for tag := range strings.SplitSeq(rule, ",") {
		name, param, _ := strings.Cut(tag, "=")
		switch name {
		case "dnslabel", "dnsname":
			t.Rule = name
		case "prefixed":
			parts := strings.Fields(param)
			t.Pattern = regexp.QuoteMeta(parts[0]) + "[a-z0-9-]{" + parts[1] + "," + parts[2] + "}"
		case "urlpath":
			t.Pattern = `/[!-"$-~]{0,254}`
		case "not":
			t.Rule += ",excluded"
		default:
			return t, unsayable("there is no CEL for the rule " + name)
		}
	}
	if strings.HasSuffix(t.Rule, ",excluded") {
		return t, unsayable("words that are excluded are not compared")
	}
	return t, nil
}
