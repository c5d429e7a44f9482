package audit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/audit"
	"quaymaster.dev/internal/tool/suppress"
	"quaymaster.dev/test/builder"
)

// An annotation that ignores a finding keeps it out of the report, but not out of Events: admission would still deny the
// object.
func TestIgnoredFindings(t *testing.T) {
	svc := builder.Service(builder.DLB("scheduler", "fastest"), builder.Annotation("ignore.quaymaster.dev/dlb-invalid-value", "we know"))
	policies := map[schema.GroupVersionResource]string{
		{Group: "quaymaster.dev", Version: "v1alpha1", Resource: "loadbalancerpolicies"}:        "LoadBalancerPolicyList",
		{Group: "quaymaster.dev", Version: "v1alpha1", Resource: "clusterloadbalancerpolicies"}: "ClusterLoadBalancerPolicyList",
	}
	denied := 0
	found, err := audit.Run(t.Context(), audit.Options{
		API: fake.NewClientset(svc), Objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), policies), DefaultClass: true, ServicesOnly: true,
		OnInvalid: func(_ corev1.ObjectReference, errs []finding.Finding) { denied += len(errs) },
	})
	if err != nil {
		t.Fatal(err)
	}
	suppress.Apply(found.Results, nil, suppress.Options{})
	if len(found.Results) != 1 || len(found.Results[0].Findings) != 0 || len(found.Results[0].Suppressed) != 1 || denied != 1 {
		t.Errorf("denied %d: %+v", denied, found.Results)
	}
}
