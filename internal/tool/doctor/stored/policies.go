package stored

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/pods"
	"quaymaster.dev/internal/tool/doctor/release"
)

// policies is the resource of the policies of a namespace.
const policies = "loadbalancerpolicies"

// definition is the part of a CustomResourceDefinition that is checked here.
type definition struct {
	Spec struct {
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// policyResources returns the resources of both kinds of policies.
func policyResources() []schema.GroupVersionResource {
	version := v1alpha1.GroupVersion()
	return []schema.GroupVersionResource{
		version.WithResource(policies), version.WithResource("clusterloadbalancerpolicies"),
	}
}

// CRDs checks that the API server serves policies.
func (c Checks) CRDs(ctx context.Context) doctor.Result {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	var problems []string
	remedy := "install them with helm upgrade and crds.enabled=true; until then no policies are applied"
	for _, resource := range policyResources() {
		name := resource.GroupResource().String()
		object, err := c.Objects.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			problems = append(problems, name+" is missing")
			continue
		}
		if err != nil {
			return doctor.Unread("CustomResourceDefinition "+name, err)
		}
		if object.GetDeletionTimestamp() != nil {
			problems = append(problems, name+" is being deleted, with all policies of its kind")
			remedy = "wait until it is deleted, or remove the finalizers of the policies that block its deletion; " +
				"then " + remedy
			continue
		}
		var crd definition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			return doctor.Failed("restore it with helm upgrade", "CustomResourceDefinition %s cannot be decoded: %v", name, err)
		}
		if problem := crd.problem(resource.Version); problem != "" {
			problems = append(problems, name+" is "+problem)
		}
	}
	if len(problems) > 0 {
		return doctor.Failed(remedy, "%s", strings.Join(problems, "; "))
	}
	return doctor.Passed("the CRDs of both kinds of policies are established")
}

func (d definition) problem(version string) string {
	if problem := doctor.Unmet(d.Status.Conditions, "Established"); problem != "" {
		return problem
	}
	for _, v := range d.Spec.Versions {
		if v.Name == version && v.Served {
			return ""
		}
	}
	return "not served as " + version
}

// Policies checks that all policies are accepted, and that the webhooks use them.
func (c Checks) Policies(ctx context.Context) doctor.Result {
	count := 0
	var problems []string
	for _, resource := range policyResources() {
		client := dynamic.ResourceInterface(c.Objects.Resource(resource))
		if c.Within != "" && resource.Resource == policies {
			client = c.Objects.Resource(resource).Namespace(c.Within)
		}
		list, err := client.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return doctor.Skipped("the API server does not serve policies")
		}
		if err != nil {
			return doctor.Unread("policies", err)
		}
		for i := range list.Items {
			count++
			if problem := notAccepted(&list.Items[i]); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	if len(problems) > 0 {
		return doctor.Warned("correct the policies, and check that controllers are running: only they update the status of "+
			"policies",
			"%d of %d policies are not accepted, so that parts of them do not apply", len(problems), count).
			With(problems)
	}
	asked, unused := pods.Checks{Release: c.Release}.Policies(ctx)
	if len(unused) > 0 {
		return doctor.Warned("wait 10 s for the pods to notice changes of the CRDs; if they still do not, see "+
			c.LogCommand(release.WebhookComponent), "%d of %d webhook pods apply no policies", len(unused), asked).With(unused)
	}
	use := ""
	if asked > 0 {
		use = fmt.Sprintf("; %d of %d webhook pods use them", asked, asked)
	}
	if count == 0 {
		return doctor.Passed("there are no policies")
	}
	return doctor.Passed("%s accepted%s", doctor.All(count, "policy", "policies"), use)
}

// notAccepted returns why a policy is not accepted, or that its current generation has not been checked; empty if it is
// accepted.
func notAccepted(object *unstructured.Unstructured) string {
	name := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
	var policy struct {
		Status v1alpha1.PolicyStatus `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &policy); err != nil {
		return name + " cannot be decoded: " + err.Error()
	}
	for _, c := range policy.Status.Conditions {
		if c.Type != v1alpha1.ConditionAccepted || c.ObservedGeneration != object.GetGeneration() {
			continue
		}
		if c.Status == metav1.ConditionTrue {
			return ""
		}
		return name + ": " + c.Message
	}
	return name + ": not checked by the controllers yet"
}
