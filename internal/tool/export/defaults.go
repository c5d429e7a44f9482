package export

import (
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/tool/export/cel"
)

// Mutating returns the policy that writes the built-in defaults of the DLB into Services that become load balancers
// without them, and its binding. The catalogs of other clouds have no such defaults.
func Mutating(own Class) (
	*admissionregistrationv1.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicyBinding,
) {
	_, owned, err := checks(loadbalancer.Catalog, own)
	if err != nil {
		panic(err) // its condition tests only the class
	}
	plain := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	defaults := catalog.Own(own.Name, true).Parse(plain).WrittenDefaults()
	keys := slices.Sorted(maps.Keys(defaults))
	p := &admissionregistrationv1.MutatingAdmissionPolicy{
		TypeMeta:   typeMeta("MutatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: "quaymaster-" + loadbalancer.Catalog},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Ignore),
			MatchConstraints: requests([]string{"services"}),
			// After a mutation, the API server calls the policy again, which then has nothing to add.
			MatchConditions: condition("without-defaults", owned,
				"(oldObject == null || oldObject.spec.type != 'LoadBalancer') && "+
					bind("annotations", annotations, "!"+inAll("annotations", keys))),
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch,
				JSONPatch: &admissionregistrationv1.JSONPatch{Expression: patch(keys, defaults)},
			}},
			ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
		},
	}
	return p, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   typeMeta("MutatingAdmissionPolicyBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: p.Name},
	}
}

// inAll returns an expression that is true if a map has all keys.
func inAll(in string, keys []string) string {
	all := "true"
	for _, key := range keys {
		all = cel.And(all, cel.Quote(key)+" in "+in)
	}
	return "(" + all + ")"
}

// patch returns an expression for a JSON patch that adds missing annotations. An apply configuration would be shorter,
// but costs the API server more: it merges whole objects.
func patch(keys []string, values map[string]string) string {
	const path = "/metadata/annotations"
	operation := func(present, path, value string) string {
		return "(" + present + " ? [] : [JSONPatch{op: 'add', path: " + path + ", value: " + value + "}])"
	}
	all := []string{operation("has(object.metadata.annotations)", cel.Quote(path), "{}")}
	for _, key := range keys {
		key, value := cel.Quote(key), cel.Quote(values[key])
		all = append(all, operation(key+" in "+annotations, cel.Quote(path+"/")+" + jsonpatch.escapeKey("+key+")", value))
	}
	return strings.Join(all, " + ")
}
