package doctor

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/api/v1alpha1"
)

// policies looks whether all that policies say is applied.
func (e *examination) policies(ctx context.Context) Result {
	count := 0
	var problems []string
	for _, resource := range policyResources() {
		list, err := e.Objects.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return skip("the API server does not serve them")
		}
		if err != nil {
			return unread("policies", err)
		}
		for i := range list.Items {
			count++
			if problem := notAccepted(&list.Items[i]); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	if len(problems) > 0 {
		return warn("correct them; where no controllers run, nobody looks at policies", "%d of %d: %s", len(problems), count, strings.Join(problems, "; "))
	}
	return ok("%d, all accepted", count)
}

// notAccepted tells what of a policy is not applied, or that nobody has looked at it as it is now.
func notAccepted(object *unstructured.Unstructured) string {
	name := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
	var policy struct {
		Status v1alpha1.PolicyStatus `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &policy); err != nil {
		return name + " cannot be read: " + err.Error()
	}
	for _, c := range policy.Status.Conditions {
		if c.Type != v1alpha1.ConditionAccepted || c.ObservedGeneration != object.GetGeneration() {
			continue
		}
		if c.Status == metav1.ConditionTrue {
			return ""
		}
		return name + " is not accepted: " + c.Message
	}
	return name + " has not been looked at"
}
