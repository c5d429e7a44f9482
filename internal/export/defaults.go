package export

import (
	"fmt"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/loadbalancer"
)

// Mutating returns the policy that writes the built-in defaults of the DLB into Services that become load balancers
// without them, and its binding. The catalogs of other clouds have no such defaults.
func Mutating(class string) (
	*admissionregistrationv1.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicyBinding,
) {
	_, owned, err := checks(loadbalancer.Catalog, class)
	if err != nil {
		panic(err) // its condition tests only the class
	}
	p := &admissionregistrationv1.MutatingAdmissionPolicy{
		TypeMeta:   typeMeta("MutatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: "quaymaster-" + loadbalancer.Catalog},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Ignore),
			MatchConstraints: services(),
			MatchConditions: append(conditions(owned), admissionregistrationv1.MatchCondition{
				Name: "becomes-load-balancer", Expression: "oldObject == null || oldObject.spec.type != 'LoadBalancer'",
			}),
			ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
		},
	}
	plain := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	defaults := catalog.Own(class).Parse(plain).WrittenDefaults()
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		p.Spec.Mutations = append(p.Spec.Mutations, admissionregistrationv1.Mutation{
			PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: fmt.Sprintf(
				"%[1]s in object.metadata.?annotations.orValue({}) ? Object{} : "+
					"Object{metadata: Object.metadata{annotations: {%[1]s: %[2]s}}}",
				quote(key), quote(defaults[key]))},
		})
	}
	return p, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   typeMeta("MutatingAdmissionPolicyBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: p.Name},
	}
}
