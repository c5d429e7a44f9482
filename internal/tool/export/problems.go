package export

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/tool/export/cel"
)

// names holds the expressions for a Service after and before a request.
type names struct {
	after, before scope
	// changed is a list of the keys that the request adds or changes. wasBalancer is true if the Service was a load
	// balancer before; otherwise it had no annotations that matter.
	changed, wasBalancer string
}

const (
	wasBalancer = "oldObject != null && oldObject.spec.type == 'LoadBalancer'"
	annotations = "object.metadata.?annotations.orValue({})"
	before      = "oldObject.metadata.?annotations.orValue({})"
)

// The validations of a policy refer to its variables. Match conditions cannot: inCondition holds the names that the
// condition binds, and inObject the expressions where nothing is bound.
var (
	inPolicy = names{
		scope{"variables.annotations", "object"}, scope{"variables.before", "oldObject"},
		"variables.changed", "variables.wasBalancer",
	}
	inCondition = names{
		scope{"annotations", "object"}, scope{"before", "oldObject"}, "changed", wasBalancer,
	}
	inObject = names{after: scope{annotations, "object"}, before: scope{before, "oldObject"}, wasBalancer: wasBalancer}
)

// variables returns the variables of a policy. The API server evaluates each at most once, when it is used.
func variables() []admissionregistrationv1.Variable {
	return []admissionregistrationv1.Variable{
		{Name: "tooLarge", Expression: tooLarge()},
		// Without annotations, there is nothing that the validations of keys could evaluate.
		{Name: "annotations", Expression: "variables.tooLarge ? {} : " + annotations},
		{Name: "wasBalancer", Expression: wasBalancer},
		{Name: "before", Expression: "variables.wasBalancer && !variables.tooLarge ? " + before + " : {}"},
		{Name: "changed", Expression: changed(inPolicy)},
	}
}

func changed(n names) string {
	return n.after.annotations + ".filter(k, !(k in " + n.before.annotations + " && " +
		n.before.annotations + "[k] == " + n.after.annotations + "[k]))"
}

// accepts returns an expression that is true unless the request introduces the problem. One that the old Service
// already has is accepted. Without every, an expression for every key is one for the key k.
func (c check) accepts(n names, every bool) (string, error) {
	holds, err := c.holds(n.after)
	if err != nil {
		return "", err
	}
	read := func(keys string, s scope) string {
		present := cel.Quote(c.key) + " in " + keys
		if c.unless != "" {
			present += " && !(" + s.has(c.unless) + ")"
		}
		return present
	}
	switch c.subject {
	case everyKey:
		if every {
			return n.changed + ".all(k, " + holds + ")", nil
		}
		return holds, nil
	case aValue:
		return read(n.changed, n.after) + " ? " + holds + " : true", nil
	case aCombination, aService:
	}
	held, err := c.holds(n.before)
	if err != nil {
		return "", err
	}
	if c.subject == aService {
		return "(" + holds + ") || (" + n.wasBalancer + " && !(" + held + "))", nil
	}
	// It held before, or the key was not set to the same value.
	accepted := "!(" + n.before.has(c.key) + ") || " + n.before.at(c.key) + " != " + n.after.at(c.key)
	accepted = cel.Not(accepted + " || (" + read(n.before.annotations, n.before) + " ? " + held + " : true)")
	return read(n.after.annotations, n.after) + " ? (" + holds + ") || " + accepted + " : true", nil
}

// validation returns the CEL validation of a check.
func (c check) validation() (admissionregistrationv1.Validation, error) {
	expression, err := c.accepts(inPolicy, true)
	if c.subject == aService {
		expression = "variables.tooLarge || " + expression
	}
	v := admissionregistrationv1.Validation{
		Expression: expression, Message: c.message, Reason: new(metav1.StatusReasonInvalid),
	}
	if c.key != "" {
		v.Message = c.field + ": " + c.message
		v.MessageExpression = cel.Quote(c.field+": Invalid value: ") + " + " +
			inPolicy.after.at(c.key) + " + " + cel.Quote(": "+c.message)
	}
	return v, err
}

const (
	// maxShown is the number of characters of a value in a list of problems, and maxProblems that of the list. The API server
	// shows only the fixed message instead of one with more than 5 KiB.
	maxShown    = 100
	maxProblems = 2500
)

// together returns a validation that reports all problems, for before those of the checks: of several that fail, the API
// server reports only the first one. It evaluates the messages of all validations, and ignores the policy if they exceed its
// budget, so there is a list only within the bounds of what match conditions validate. The list is no variable: for each
// validation, the API server checks the types of all variables again. One that is too long to be compiled is divided. exact is
// true if the match condition already shows that there are problems.
func (v *vendor) together(checks []check, exact bool) ([]admissionregistrationv1.Validation, error) {
	var problems []string
	for _, c := range checks {
		problem, err := c.problem()
		if err != nil {
			return nil, err
		}
		problems = append(problems, problem)
	}
	bounded := "!variables.tooLarge && size(" + inPolicy.after.annotations + ") <= " + maxAnnotations + " && !" +
		inPolicy.after.annotations + ".exists(k, (" + v.ours() + ") && size(" + inPolicy.after.annotations + "[k]) > " + maxValue + ")"
	parts := chunks(problems, maxCondition-len(bounded))
	var validations []admissionregistrationv1.Validation
	for _, part := range parts {
		list := "(" + bounded + " ? [" + strings.Join(part, ", ") + "].filter(m, m != '').join('; ').replace('\\n', ' ') : '')"
		passes := list + " == ''"
		if exact && len(parts) == 1 {
			passes = "!(" + bounded + ")"
		}
		validations = append(validations, admissionregistrationv1.Validation{
			Expression: passes, Reason: new(metav1.StatusReasonInvalid),
			Message: "metadata.annotations: must be valid annotations of " + v.document.Title,
			MessageExpression: fmt.Sprintf("[%[1]s].map(m, size(m) > %[2]d ? m.substring(0, %[2]d) + ' (further problems are not shown)' : m)[0]",
				list, maxProblems),
		})
	}
	return validations, nil
}

// chunks divides expressions into lists, each with at most so many characters in all.
func chunks(expressions []string, most int) [][]string {
	var all [][]string
	size := most
	for _, e := range expressions {
		if size += len(e); size > most {
			all, size = append(all, nil), len(e)
		}
		all[len(all)-1] = append(all[len(all)-1], e)
	}
	return all
}

// problem returns an expression for what the check reports; an empty string if the Service passes.
func (c check) problem() (string, error) {
	expression, err := c.accepts(inPolicy, false)
	if err != nil {
		return "", err
	}
	passes := "(" + expression + ")"
	if c.subject == everyKey {
		message := strings.TrimPrefix(strings.TrimPrefix(c.message, c.field+": "), "metadata.annotations: ")
		return inPolicy.changed + ".filter(k, !" + passes + ").map(k, 'metadata.annotations[' + k + ']: ' + " + cel.Quote(message) + ").join('; ')", nil
	}
	if c.key == "" {
		return passes + " ? '' : " + cel.Quote(c.message), nil
	}
	value := inPolicy.after.at(c.key)
	shown := fmt.Sprintf("(size(%[1]s) > %[2]d ? %[1]s.substring(0, %[2]d) + '…' : %[1]s)", value, maxShown)
	return passes + " ? '' : " + cel.Quote(c.field+": Invalid value: ") + " + " + shown + " + " + cel.Quote(": "+c.message), nil
}

// Bounds of what a match condition validates. The API server stops an expression that exceeds its budget, and then
// ignores the policy. Beyond the bounds, the validations do the work: each has a budget of its own.
const (
	maxAnnotations = "100"
	maxValue       = "500"
	// maxCondition is below the size, in characters, of expressions that the API server compiles.
	maxCondition = 90_000
)

// problems returns an expression that is true if at least one check fails: the API server evaluates it faster than all
// the validations, which it needs only to find out what to report.
// exact is false if the expression is only true for more Services than that, because it would be too long.
func (v *vendor) problems(checks []check) (expression string, exact bool, err error) {
	var eachKey, keys, service []string
	for _, c := range checks {
		n := inCondition
		list := &keys
		switch c.subject {
		case everyKey:
			list = &eachKey
		case aService:
			n, list = inObject, &service
		case aValue, aCombination:
		}
		accepted, err := c.accepts(n, false)
		if err != nil {
			return "", false, err
		}
		*list = append(*list, "("+accepted+")")
	}
	if len(eachKey) > 0 {
		// No check for every key concerns a known key that belongs to no family.
		all := cel.In("k", v.plain()) + " || !(" + v.ours() + ") || (" + strings.Join(eachKey, " && ") + ")"
		keys = append([]string{"changed.all(k, " + all + ")"}, keys...)
	}
	found, exact := "", true
	if len(keys) > 0 {
		ofKeys := "size(annotations) > " + maxAnnotations + " || " +
			"annotations.exists(k, (" + v.ours() + ") && size(annotations[k]) > " + maxValue + ") || " +
			bind("before", wasBalancer+" ? "+before+" : {}", bind("changed", changed(inCondition),
				"!("+strings.Join(keys, " && ")+")"))
		found = bind("annotations", annotations, "annotations.exists(k, "+v.ours()+") && ("+ofKeys+")")
		if len(found) > maxCondition {
			exact = false
			found = bind("annotations", annotations, "annotations.exists(k, "+v.ours()+")")
		}
	}
	if len(service) > 0 {
		ofService := "!(" + strings.Join(service, " && ") + ")"
		if found == "" {
			return ofService, exact, nil
		}
		found = "(" + found + " || " + ofService + ")"
	}
	return found, exact, nil
}

// bind returns an expression in which a name stands for a value.
func bind(name, value, expression string) string {
	return "[" + value + "].exists(" + name + ", " + expression + ")"
}

// ours returns an expression that is true for a key k that a check may concern.
func (v *vendor) ours() string {
	prefixes := slices.Clone(v.document.Prefixes)
	var others []string
	for _, a := range v.document.Annotations {
		for _, name := range a.Names() {
			literal, _, family := strings.Cut(name, "{")
			switch {
			case slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(literal, p) }):
			case family || a.PortForm:
				prefixes = append(prefixes, literal)
			default:
				others = append(others, name)
			}
		}
	}
	var all []string
	for _, prefix := range prefixes {
		all = append(all, "k.startsWith("+cel.Quote(prefix)+")")
	}
	if len(others) > 0 {
		all = append(all, cel.In("k", others))
	}
	if len(all) == 0 {
		return "false" // a catalog without annotations
	}
	return strings.Join(all, " || ")
}

// plain returns the keys that belong to no family.
func (v *vendor) plain() []string {
	var keys, families []string
	for _, a := range v.document.Annotations {
		for _, name := range a.Names() {
			if strings.Contains(name, "{") {
				families = append(families, name)
			} else {
				keys = append(keys, name)
			}
		}
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return slices.ContainsFunc(families, func(family string) bool { return document.InFamily(family, key) })
	})
}
