package audit

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/policy"
)

// policies returns the policies of the cluster; none if the API server does not serve them. Invalid parts of a policy
// do not apply.
func (a *audit) policies(ctx context.Context) ([]*policy.Policy, error) {
	namespaced, err := list(ctx, a, "loadbalancerpolicies", func(p *v1alpha1.LoadBalancerPolicy) *policy.Policy {
		compiled, _ := policy.Compile(p)
		return compiled
	})
	if err != nil {
		return nil, err
	}
	cluster, err := list(ctx, a, "clusterloadbalancerpolicies",
		func(p *v1alpha1.ClusterLoadBalancerPolicy) *policy.Policy {
			compiled, _ := policy.Compile(p)
			return compiled
		})
	return append(namespaced, cluster...), err
}

func list[T any](
	ctx context.Context, a *audit, resource string, compile func(*T) *policy.Policy,
) ([]*policy.Policy, error) {
	objects := a.Objects.Resource(v1alpha1.GroupVersion().WithResource(resource))
	reader := objects.List
	if a.Namespace != "" && resource == "loadbalancerpolicies" {
		reader = objects.Namespace(a.Namespace).List
	}
	var policies []*policy.Policy
	var undecodable error
	err := each(ctx, a, resource+"."+v1alpha1.Group, reader, func(object *unstructured.Unstructured) {
		p := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p); err != nil {
			undecodable = fmt.Errorf("decode %s %s: %w", resource, object.GetName(), err)
			return
		}
		policies = append(policies, compile(p))
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err == nil {
		err = undecodable
	}
	return policies, err
}
