package audit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/kube/notice"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
)

// result is the result of the review of an object.
type result struct {
	of corev1.ObjectReference
	// problems describes the errors; empty if there are none.
	problems string
	// policy is the policy that was reviewed, or svc the Service, of which errs are the errors.
	policy *policy.Policy
	svc    *corev1.Service
	errs   []finding.Finding
}

func (r *result) verdict() verdict {
	v := verdict{policy: r.policy, catalogs: catalogsOf(r.errs)}
	if r.problems != "" {
		v.problems = notice.Hash(r.of, r.problems)
	}
	return v
}

// review reviews an object; the result is nil if there is none that admission reviews.
func (c *Controller) review(ctx context.Context, key policy.Key) (*result, error) {
	if key.Kind == kindService {
		return c.reviewService(ctx, key)
	}
	entry, exists := c.o.Policies.Entry(key)
	if !exists {
		return nil, nil
	}
	return &result{
		of: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion().String(), Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, UID: entry.UID,
		},
		problems: entry.Problems, policy: entry.Policy,
	}, nil
}

func (c *Controller) reviewService(ctx context.Context, key policy.Key) (*result, error) {
	svc, err := c.o.Services.Lister().Services(key.Namespace).Get(key.Name)
	if err != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.DeletionTimestamp != nil {
		return nil, nil // the only error of the lister is that the Service does not exist
	}
	if known, _ := c.o.Policies.Labels(key.Namespace); !c.o.Namespaces.Matches(labels.Set(known)) {
		return nil, nil
	}
	policies, err := c.o.Policies.Applicable(ctx, key.Namespace)
	if err != nil {
		return nil, err
	}
	errs := finding.Errors(c.o.Reviewer.Stored(svc, policies))
	return &result{
		of: corev1.ObjectReference{
			APIVersion: "v1", Kind: kindService, Namespace: key.Namespace, Name: key.Name, UID: svc.UID,
			ResourceVersion: svc.ResourceVersion,
		},
		problems: finding.Summary(errs), svc: svc, errs: errs,
	}, nil
}

// record records the Event about an object, if it is still invalid.
func (c *Controller) record(ctx context.Context, key policy.Key) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := c.review(ctx, key)
	if err != nil || r == nil || r.problems == "" || r.svc != nil && c.o.Reported(r.svc, r.errs) {
		return err
	}
	if err := notice.Record(ctx, c.o.Events, r.of, r.problems, c.o.Clock.Now()); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("A stored object is invalid; its Event has the reasons", "kind", key.Kind,
		"object", klog.KRef(key.Namespace, key.Name))
	return nil
}
