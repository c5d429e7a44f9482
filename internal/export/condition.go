package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
)

// scope is a Service in CEL: the new one or the old one.
type scope struct{ annotations, object string }

var (
	now    = scope{"variables.annotations", "object"}
	before = scope{"variables.before", "oldObject"}
)

func (s scope) has(key string) string { return quote(key) + " in " + s.annotations }
func (s scope) at(key string) string  { return s.annotations + "[" + quote(key) + "]" }

// entries are annotations by their names.
type entries map[string]*catalog.Annotation

// listOf are the fields of Services that are lists, in CEL as lists of strings; the others are texts.
var listOf = map[string]string{
	"spec.loadBalancerSourceRanges": "%[1]s.spec.?loadBalancerSourceRanges.orValue([])",
	"spec.externalIPs":              "%[1]s.spec.?externalIPs.orValue([])",
	"spec.ipFamilies":               "%[1]s.spec.?ipFamilies.orValue([])",
	"spec.ports.port":               "%[1]s.spec.?ports.orValue([]).map(p, string(p.port))",
	"spec.ports.name":               "%[1]s.spec.?ports.orValue([]).map(p, p.?name.orValue('')).filter(n, n != '')",
	"spec.ports.protocol":           "%[1]s.spec.?ports.orValue([]).map(p, p.?protocol.orValue('TCP'))",
	"spec.ports.appProtocol":        "%[1]s.spec.?ports.orValue([]).map(p, p.?appProtocol.orValue('')).filter(n, n != '')",
	"spec.selector":                 "%[1]s.spec.?selector.orValue({}).map(k, k)",
}

// textOf are the other fields; the empty text is none.
var textOf = map[string]string{
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

// condition is true where one holds.
func (e entries) condition(c catalog.Condition, s scope) (string, error) {
	if c.Field != "" {
		return field(c, s)
	}
	a, found := e[c.Key]
	family := strings.Contains(c.Key, "{")
	switch {
	case found && family && c.Set != nil && !c.ComparesValues():
		return fmt.Sprintf("%s.exists(k, %s) == %t", s.annotations, matches("k", catalog.KeyPattern(c.Key)), *c.Set), nil
	case !found || family:
		return "", unsayable("a condition is about a family of keys")
	case len(a.Variants) > 0:
		return "", unsayable("the type of " + c.Key + " depends on the Service")
	case a.PortForm:
		return "", unsayable(c.Key + " may differ from port to port")
	}
	// The alias holds where the name itself is absent.
	expression, err := e.absent(c, a)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Backward(a.Names()) {
		given, err := present(c, a, s.at(name))
		if err != nil {
			return "", err
		}
		there := s.has(name)
		if a.Empty == annotation.Absent {
			there += " && " + normal(&a.Type, s.at(name)) + " != ''"
		}
		expression = fmt.Sprintf("(%s ? %s : %s)", there, given, expression)
	}
	return expression, nil
}

// absent is what a condition is where the key is not set: what it is for the default.
func (e entries) absent(c catalog.Condition, a *catalog.Annotation) (string, error) {
	holds := c.Set == nil || !*c.Set
	if c.ComparesValues() {
		if len(a.Defaults) > 0 {
			return "", unsayable("the default of " + a.Name + " depends on the Service")
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

// present is what a condition is for a value that is set and of its type.
func present(c catalog.Condition, a *catalog.Annotation, v string) (string, error) {
	set := strconv.FormatBool(c.Set == nil || *c.Set)
	if !c.ComparesValues() {
		return set, nil
	}
	v = normal(&a.Type, v)
	list := "[" + v + "]"
	spell := func(words []string) []string { return words }
	switch a.Type.Type {
	case annotation.Bool:
		yes, no := a.BoolWords()
		spell = func(words []string) []string {
			var spelt []string
			for _, word := range words {
				spelt = append(spelt, map[string][]string{"true": yes, "false": no}[word]...)
			}
			return spelt
		}
	case annotation.List:
		list = v + ".split(" + quote(a.Separator) + ").map(e, " + element(&a.Type, "e") + ")"
	case annotation.Int:
		if a.Dialect == annotation.AnyBase {
			return "", unsayable("CEL reads decimal numbers alone")
		}
		list = "[string(int(" + v + "))]"
	case annotation.Map, annotation.JSON:
		return "", unsayable("CEL does not look into the value of " + a.Name)
	case annotation.Text, annotation.Enum, annotation.Float, annotation.Duration, annotation.Selector:
	}
	return and(set, members(c, list, spell)), nil
}

// members compares the elements of a list.
func members(c catalog.Condition, list string, spell func([]string) []string) string {
	all := "true"
	if c.Is != nil {
		all = and(all, list+".exists(v, "+in("v", spell(c.Is))+")")
	}
	if c.Not != nil {
		all = and(all, "!"+list+".exists(v, "+in("v", spell(c.Not))+")")
	}
	if c.Only != nil {
		all = and(all, list+".all(v, "+in("v", spell(c.Only))+")")
	}
	return all
}

func field(c catalog.Condition, s scope) (string, error) {
	same := func(words []string) []string { return words }
	if format, isList := listOf[c.Field]; isList {
		list := fmt.Sprintf(format, s.object)
		all := members(c, list, same)
		if c.Set != nil {
			all = and(all, fmt.Sprintf("(size(%s) > 0) == %t", list, *c.Set))
		}
		return all, nil
	}
	format, found := textOf[c.Field]
	if !found {
		return "", unsayable("there is no CEL for the field " + c.Field)
	}
	text := fmt.Sprintf(format, s.object)
	all := members(c, "["+text+"].filter(t, t != '')", same)
	if c.Set != nil {
		all = and(all, fmt.Sprintf("(%s != '') == %t", text, *c.Set))
	}
	return all, nil
}

// allOf is true where every condition holds.
func (e entries) allOf(list []catalog.Condition, s scope) (string, error) {
	all := "true"
	for _, c := range list {
		one, err := e.condition(c, s)
		if err != nil {
			return "", err
		}
		all = and(all, one)
	}
	return all, nil
}

// anyOf is true where one condition holds.
func (e entries) anyOf(list []catalog.Condition, s scope) (string, error) {
	result := ""
	for _, c := range list {
		one, err := e.condition(c, s)
		if err != nil {
			return "", err
		}
		if result == "" {
			result = "(" + one + ")"
		} else {
			result = or(result, "("+one+")")
		}
	}
	return result, nil
}

// known is true where a condition is known to hold.
func (e entries) known(c catalog.Condition, s scope) (string, error) {
	readable, err := e.readable([]catalog.Condition{c}, s)
	if err != nil {
		return "", err
	}
	holds, err := e.condition(c, s)
	return and(readable, holds), err
}

// mayHold is true unless each of some conditions is known not to hold; where there are none, it is true.
func (e entries) mayHold(list []catalog.Condition, s scope) (string, error) {
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
	return or(not(readable), one), nil
}

// readable is true where every value that the conditions depend on is of its type: else nothing can be said.
func (e entries) readable(list []catalog.Condition, s scope) (string, error) {
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
			all = and(all, or("!("+s.has(name)+")", "("+one+")"))
		}
	}
	return all, nil
}
