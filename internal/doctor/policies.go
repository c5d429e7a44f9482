package doctor

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/api/v1alpha1"
)

// definition is what matters here of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status conditions `json:"status"`
}

// conditions are those of any object that has them.
type conditions struct {
	Conditions []condition `json:"conditions"`
}

// condition is one of any kind: those of CRDs and of cert-manager lack fields that metav1.Condition demands.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// not tells why a condition is not true, or nothing.
func (c conditions) not(kind string) string {
	for _, one := range c.Conditions {
		if one.Type != kind {
			continue
		}
		if one.Status == string(metav1.ConditionTrue) {
			return ""
		}
		return fmt.Sprintf("not %s: %s: %s", kind, one.Reason, one.Message)
	}
	return fmt.Sprintf("not %s yet", kind)
}

// policyResources are what the API calls the kinds of policies.
func policyResources() []schema.GroupVersionResource {
	version := v1alpha1.GroupVersion()
	return []schema.GroupVersionResource{
		version.WithResource("loadbalancerpolicies"), version.WithResource("clusterloadbalancerpolicies"),
	}
}

func (e *examination) crds(ctx context.Context) Result {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	var problems []string
	remedy := "install them with helm upgrade and crds.enabled=true; until then Services are judged without policies"
	for _, resource := range policyResources() {
		name := resource.GroupResource().String()
		object, err := e.Objects.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			problems = append(problems, name+" is missing")
			continue
		}
		if err != nil {
			return unread("CustomResourceDefinition "+name, err)
		}
		if object.GetDeletionTimestamp() != nil {
			problems = append(problems, name+" is being deleted, with all policies of its kind")
			remedy = "wait until it is gone, or remove the finalizers of the policies that hold it up; then " + remedy
			continue
		}
		var crd definition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			return fail("put it back with helm upgrade", "CustomResourceDefinition %s cannot be read: %v", name, err)
		}
		if problem := crd.problem(resource.Version); problem != "" {
			problems = append(problems, name+" is "+problem)
		}
	}
	if len(problems) > 0 {
		return fail(remedy, "%s", strings.Join(problems, "; "))
	}
	return ok("both kinds of policies are established")
}

func (d definition) problem(version string) string {
	if problem := d.Status.not("Established"); problem != "" {
		return problem
	}
	for _, v := range d.Spec.Versions {
		if v.Name == version && v.Served {
			return ""
		}
	}
	return "not served as " + version
}

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
