package review_test

import (
	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/review"
)

var own = review.Own("mycloud.io/dlb", true)

const (
	ofNamespace = v1alpha1.KindLoadBalancerPolicy
	ofCluster   = v1alpha1.KindClusterLoadBalancerPolicy
)
