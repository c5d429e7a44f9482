package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/tool/export/cel"
)

// scope holds the expressions for a Service and its annotations.
type scope struct{ annotations, object string }

func (s scope) has(key string) string { return cel.Quote(key) + " in " + s.annotations }
func (s scope) at(key string) string  { return s.annotations + "[" + cel.Quote(key) + "]" }

// entries holds annotations by name.
type entries map[string]*document.Annotation

// listFields holds the expressions for fields of Services that are lists; each returns a list of strings.
var listFields = map[string]string{
	"spec.loadBalancerSourceRanges": "%[1]s.spec.?loadBalancerSourceRanges.orValue([])",
	"spec.externalIPs":              "%[1]s.spec.?externalIPs.orValue([])",
	"spec.ipFamilies":               "%[1]s.spec.?ipFamilies.orValue([])",
	"spec.ports.port":               "%[1]s.spec.?ports.orValue([]).map(p, string(p.port))",
	"spec.ports.name":               "%[1]s.spec.?ports.orValue([]).map(p, p.?name.orValue('')).filter(n, n != '')",
	"spec.ports.protocol":           "%[1]s.spec.?ports.orValue([]).map(p, p.?protocol.orValue('TCP'))",
	"spec.ports.appProtocol": "%[1]s.spec.?ports.orValue([]).map(p, p.?appProtocol.orValue(''))" +
		".filter(n, n != '')",
	"spec.selector": "%[1]s.spec.?selector.orValue({}).map(k, k)",
}

// textFields holds the expressions for the other fields; each returns a string, which is empty for an unset field.
var textFields = map[string]string{
	"metadata.name":                      "%[1]s.metadata.?name.orValue('')",
	"metadata.namespace":                 "%[1]s.metadata.?namespace.orValue('')",
	"spec.loadBalancerIP":                "%[1]s.spec.?loadBalancerIP.orValue('')",
	"spec.externalTrafficPolicy":         "%[1]s.spec.?externalTrafficPolicy.orValue('Cluster')",
	"spec.sessionAffinity":               "%[1]s.spec.?sessionAffinity.orValue('None')",
	"spec.loadBalancerClass":             "%[1]s.spec.?loadBalancerClass.orValue('')",
	"spec.ipFamilyPolicy":                "%[1]s.spec.?ipFamilyPolicy.orValue('')",
	"spec.internalTrafficPolicy":         "%[1]s.spec.?internalTrafficPolicy.orValue('')",
	"spec.allocateLoadBalancerNodePorts": "string(%[1]s.spec.?allocateLoadBalancerNodePorts.orValue(true))",
}

// condition returns an expression that is true if the condition holds.
func (e entries) condition(c document.Condition, s scope) (string, error) {
	if c.Field != "" {
		return field(c, s)
	}
	a, found := e[c.Key]
	family := strings.Contains(c.Key, "{")
	switch {
	case found && family && c.Set != nil && !c.ComparesValues():
		pattern := cel.Matches("k", document.KeyPattern(c.Key))
		return fmt.Sprintf("%s.exists(k, %s) == %t", s.annotations, pattern, *c.Set), nil
	case !found || family:
		return "", unsupported("a condition tests a family of keys")
	case len(a.Variants) > 0:
		return "", unsupported("the type of " + c.Key + " depends on the Service")
	case a.PortForm:
		return "", unsupported(c.Key + " may differ from port to port")
	}
	// An alias applies if the name itself is absent.
	expression, err := e.absent(c, a)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Backward(a.Names()) {
		holds, err := present(c, a, s.at(name))
		if err != nil {
			return "", err
		}
		isSet := s.has(name)
		if a.Empty == annotation.Absent {
			isSet += " && " + normal(&a.Type, s.at(name)) + " != ''"
		}
		expression = fmt.Sprintf("(%s ? %s : %s)", isSet, holds, expression)
	}
	return expression, nil
}

// absent returns "true" or "false": whether the condition holds if the key is not set, so that the default applies.
func (e entries) absent(c document.Condition, a *document.Annotation) (string, error) {
	holds := c.Set == nil || !*c.Set
	if c.ComparesValues() {
		if len(a.Defaults) > 0 {
			return "", unsupported("the default of " + a.Name + " depends on the Service")
		}
		var values []string
		if a.Default != "" {
			p, err := a.Parse(a.Default)
			if err != nil {
				return "", err
			}
			values = p.List
		}
		holds = holds && c.HoldsFor(values)
	}
	return strconv.FormatBool(holds), nil
}

// present returns an expression that is true if the condition holds for a value v that is set and valid.
func present(c document.Condition, a *document.Annotation, v string) (string, error) {
	set := strconv.FormatBool(c.Set == nil || *c.Set)
	if !c.ComparesValues() {
		return set, nil
	}
	v = normal(&a.Type, v)
	list := "[" + v + "]"
	spellings := func(words []string) []string { return words }
	switch a.Type.Type {
	case annotation.Bool:
		yes, no := a.BoolWords()
		spellings = func(words []string) []string {
			var all []string
			for _, word := range words {
				all = append(all, map[string][]string{"true": yes, "false": no}[word]...)
			}
			return all
		}
	case annotation.List:
		list = v + ".split(" + cel.Quote(a.Separator) + ").map(e, " + element(&a.Type, "e") + ")"
	case annotation.Int:
		if a.Dialect == annotation.AnyBase {
			return "", unsupported("CEL parses only decimal numbers")
		}
		list = "[string(int(" + v + "))]"
	case annotation.Map, annotation.JSON:
		return "", unsupported("the content of " + a.Name + " is not parsed in CEL")
	case annotation.Text, annotation.Enum, annotation.Float, annotation.Duration, annotation.Selector:
	}
	return cel.And(set, members(c, list, spellings)), nil
}

// members returns an expression that is true if the elements of a list satisfy the condition. spellings returns the
// texts of the condition's values.
func members(c document.Condition, list string, spellings func([]string) []string) string {
	all := "true"
	if c.Is != nil {
		all = cel.And(all, list+".exists(v, "+cel.In("v", spellings(c.Is))+")")
	}
	if c.Not != nil {
		all = cel.And(all, "!"+list+".exists(v, "+cel.In("v", spellings(c.Not))+")")
	}
	if c.Only != nil {
		all = cel.And(all, list+".all(v, "+cel.In("v", spellings(c.Only))+")")
	}
	return all
}

// field returns an expression that is true if a condition on a field holds.
func field(c document.Condition, s scope) (string, error) {
	same := func(words []string) []string { return words }
	if format, isList := listFields[c.Field]; isList {
		list := fmt.Sprintf(format, s.object)
		all := members(c, list, same)
		if c.Set != nil {
			all = cel.And(all, fmt.Sprintf("(size(%s) > 0) == %t", list, *c.Set))
		}
		return all, nil
	}
	format, found := textFields[c.Field]
	if !found {
		return "", unsupported("there is no expression for the field " + c.Field)
	}
	text := fmt.Sprintf(format, s.object)
	all := members(c, "["+text+"].filter(t, t != '')", same)
	if c.Set != nil {
		all = cel.And(all, fmt.Sprintf("(%s != '') == %t", text, *c.Set))
	}
	return all, nil
}

// allOf returns an expression that is true if every condition holds.
func (e entries) allOf(list []document.Condition, s scope) (string, error) {
	all := "true"
	for _, c := range list {
		one, err := e.condition(c, s)
		if err != nil {
			return "", err
		}
		all = cel.And(all, one)
	}
	return all, nil
}

// anyOf returns an expression that is true if at least one condition holds.
func (e entries) anyOf(list []document.Condition, s scope) (string, error) {
	result := ""
	for _, c := range list {
		one, err := e.condition(c, s)
		if err != nil {
			return "", err
		}
		if result == "" {
			result = "(" + one + ")"
		} else {
			result = cel.Or(result, "("+one+")")
		}
	}
	return result, nil
}

// knownToHold returns an expression that is true if a condition is known to hold.
func (e entries) knownToHold(c document.Condition, s scope) (string, error) {
	readable, err := e.readable([]document.Condition{c}, s)
	if err != nil {
		return "", err
	}
	holds, err := e.condition(c, s)
	return cel.And(readable, holds), err
}

// mayHold returns an expression that is true unless all conditions are known not to hold. Without conditions it is
// true.
func (e entries) mayHold(list []document.Condition, s scope) (string, error) {
	if len(list) == 0 {
		return "true", nil
	}
	one, err := e.anyOf(list, s)
	if err != nil {
		return "", err
	}
	readable, err := e.readable(list, s)
	if err != nil || readable == "true" {
		return one, err
	}
	return cel.Or(cel.Not(readable), one), nil
}

// readable returns an expression that is true if every value that the conditions depend on is valid. Otherwise it is
// not known whether they hold.
func (e entries) readable(list []document.Condition, s scope) (string, error) {
	all := "true"
	for _, c := range list {
		a, found := e[c.Key]
		if !found || !c.ComparesValues() {
			continue
		}
		for _, name := range a.Names() {
			one, err := typeExpression(&a.Type, s.at(name))
			if err != nil {
				return "", err
			}
			all = cel.And(all, cel.Or("!("+s.has(name)+")", "("+one+")"))
		}
	}
	return all, nil
}
