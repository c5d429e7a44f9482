package policy_test

import (
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog"
)

const (
	ofNamespace = v1alpha1.KindLoadBalancerPolicy
	ofCluster   = v1alpha1.KindClusterLoadBalancerPolicy
)

// parse parses a Service by the catalog of Quaymaster's own controller.
func parse(svc *corev1.Service) *catalog.Parsed {
	return catalog.Own("mycloud.io/dlb", true).Parse(svc)
}
