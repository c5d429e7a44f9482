package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/policy"
	"quaymaster.dev/test/builder"
)

func TestCarryOver(t *testing.T) {
	const key = "service.beta.kubernetes.io/dlb-network-type"
	stored := builder.Service(builder.DLB("network-type", "private"), builder.DLB("listener-maxqps", "8000"),
		builder.Annotation(policy.AnnotationDefaulted, "service.beta.kubernetes.io/dlb-listener-maxqps=LoadBalancerPolicy/limits,"+key+"=LoadBalancerPolicy/limits"))
	tests := map[string][]builder.ServiceOption{
		"replaced as a whole":  nil,
		"new value":            {builder.DLB("network-type", "public")},
		"with the rest intact": {builder.Annotation(policy.AnnotationDefaulted, key+"=LoadBalancerPolicy/limits")},
	}
	want := map[string]map[string]string{
		"replaced as a whole":  {key: "private", policy.AnnotationDefaulted: key + "=LoadBalancerPolicy/limits"},
		"new value":            {},
		"with the rest intact": {key: "private"},
	}
	for name, options := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want[name], policy.CarryOver(stored, builder.Service(options...))); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
	plain := builder.Service(builder.DLB("network-type", "private"))
	if kept := policy.CarryOver(plain, builder.Service()); len(kept) > 0 {
		t.Errorf("kept %v, which no policy added", kept)
	}
}
