package policies_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/builder"
)

// answered is what a stranger reads in an answer: messages and the patch.
func answered(r *admissionv1.AdmissionResponse) string {
	parts := append([]string{string(r.Patch)}, r.Warnings...)
	if r.Result != nil {
		parts = append(parts, r.Result.Message)
	}
	return strings.Join(parts, "\n")
}

// What docs/operations/client-authentication.md says that every client learns that reaches the port of the webhooks:
// API servers do not authenticate clients for them.
func TestStrangersLearnPolicies(t *testing.T) {
	s := newSpace(t, shared.Env, "private")
	s.apply("apiVersion: quaymaster.dev/v1alpha1\nkind: LoadBalancerPolicy\nmetadata: {name: secret-limits}\n" +
		`spec: {defaults: {` + maxQPS + `: "77"}, rules: [{annotation: ` + maxQPS + `, max: 99, message: ask Ada}]}`)
	s.becomes("77")

	balancer := func(namespace string, options ...builder.ServiceOption) *corev1.Service {
		svc := builder.Service(options...)
		svc.Namespace, svc.UID = namespace, ""
		return svc
	}
	services := func(path string, svc *corev1.Service) string {
		t.Helper()
		r, err := shared.webhook.Ask(t.Context(), path, corev1.SchemeGroupVersion.WithKind("Service"), "services", svc.Namespace, nil, svc)
		if err != nil {
			t.Fatal(err)
		}
		return answered(r)
	}
	policies := func(p *v1alpha1.ClusterLoadBalancerPolicy) string {
		t.Helper()
		p.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindClusterLoadBalancerPolicy}
		p.Name = "asking"
		r, err := shared.webhook.Ask(t.Context(), "/validate-clusterloadbalancerpolicy",
			v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterLoadBalancerPolicy), "clusterloadbalancerpolicies", "", nil, p)
		if err != nil {
			t.Fatal(err)
		}
		return answered(r)
	}
	selecting := func(labels map[string]string, value string) *v1alpha1.ClusterLoadBalancerPolicy {
		p := &v1alpha1.ClusterLoadBalancerPolicy{}
		p.Spec.NamespaceSelector = metav1.LabelSelector{MatchLabels: labels}
		p.Spec.Defaults = map[string]string{maxQPS: value}
		return p
	}
	const none = "selects no namespace"
	for name, test := range map[string]struct {
		answer string
		learns []string
		not    string
	}{
		"a rule": {services("/validate-service", balancer("private", builder.DLB("listener-maxqps", "100"))),
			[]string{"secret-limits", "99", "ask Ada"}, ""},
		"a default":                          {services("/mutate-service", balancer("private")), []string{`"77"`, "LoadBalancerPolicy/secret-limits"}, ""},
		"a namespace by its name":            {policies(selecting(map[string]string{corev1.LabelMetadataName: "private"}, "1")), nil, none},
		"that there is no such namespace":    {policies(selecting(map[string]string{corev1.LabelMetadataName: "absent"}, "1")), []string{none}, ""},
		"the namespaces with a certain rule": {policies(selecting(nil, "5000")), []string{"secret-limits", `namespace "private"`, "99"}, ""},
		"the catalogs in use": {services("/validate-service", balancer("private", builder.Annotation("load-balancer.hetzner.cloud/x", "x"))),
			nil, "hetzner"},
	} {
		for _, part := range test.learns {
			if !strings.Contains(test.answer, part) {
				t.Errorf("%s: the answer lacks %q: %s", name, part, test.answer)
			}
		}
		if test.not != "" && strings.Contains(test.answer, test.not) {
			t.Errorf("%s: %s", name, test.answer)
		}
	}
}
