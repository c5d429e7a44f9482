package webhooks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
)

// The resources of cert-manager, and their group.
const (
	issuers        = "issuers"
	clusterIssuers = "clusterissuers"
	certificates   = "certificates"

	groupCertManager = "cert-manager.io"
)

func certManagerResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: groupCertManager, Version: "v1", Resource: name}
}

// issuance is an object of cert-manager that the serving certificate depends on.
type issuance struct {
	resource, name string
	// managed is true if the webhooks create it.
	managed bool
}

func (i issuance) String() string {
	return map[string]string{issuers: "Issuer ", clusterIssuers: "ClusterIssuer ", certificates: "Certificate "}[i.resource] +
		i.name
}

// CertManager checks the objects of cert-manager that the serving certificate depends on, and that cert-manager runs.
func (c *Checks) CertManager(ctx context.Context) doctor.Result {
	from := c.Webhook.Certificate()
	if from.Mode != release.CertManager {
		return doctor.Skipped("cert-manager does not issue the serving certificate")
	}
	found := map[string]map[string]*unstructured.Unstructured{}
	for _, resource := range []string{issuers, certificates} {
		list, err := c.Objects.Resource(certManagerResource(resource)).Namespace(c.Namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return doctor.Failed("install cert-manager with its CRDs, for which the webhook's pods are waiting, or set "+
				"certs.mode=self-signed", "the API server does not serve %s.%s/v1: cert-manager, or this CRD of it, is not "+
				"installed", resource, groupCertManager)
		}
		if err != nil {
			return doctor.Unread("cert-manager's "+resource, err)
		}
		found[resource] = map[string]*unstructured.Unstructured{}
		for i := range list.Items {
			found[resource][list.Items[i].GetName()] = &list.Items[i]
		}
	}
	needed := issuances(from, found[certificates])
	var ready, problems []string
	created := false
	for _, i := range needed {
		object := found[i.resource][i.name]
		if i.resource == clusterIssuers {
			var err error
			object, err = c.Objects.Resource(certManagerResource(i.resource)).Get(ctx, i.name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				continue // a ClusterIssuer that cannot be read shows in the Certificate
			}
		}
		problem := notIssued(object)
		if problem == "" {
			ready = append(ready, i.String())
			continue
		}
		created = created || object == nil && i.managed
		problems = append(problems, i.String()+" "+problem)
	}
	stopped := c.stoppedCertManager(ctx)
	switch {
	case len(problems) > 0 && created:
		return doctor.Failed(
			"the webhook's pods create missing objects; if they stay missing, "+c.LogCommand(release.WebhookComponent),
			"%d of %d objects of cert-manager are not ready%s", len(problems), len(needed), c.uncertified(ctx)).
			With(problems, stopped)
	case len(problems) > 0:
		return doctor.Failed("check that cert-manager's pods are running, and run "+c.Kubectl("describe certificates,issuers"),
			"%d of %d objects of cert-manager are not ready", len(problems), len(needed)).With(problems, stopped)
	case len(stopped) > 0:
		return doctor.Warned("let the pods run: certificates are not renewed, or their CA is not distributed",
			"what is issued is ready, but parts of cert-manager do not run").With(stopped)
	case len(needed) == 0:
		return doctor.Skipped("certs.certManager.managed is false, and no Certificate writes Secret %s",
			from.Secret)
	}
	return doctor.Passed("ready: %s", strings.Join(ready, ", "))
}

// issuances returns the objects that the serving certificate depends on: those that the webhooks create, and the user's
// issuer; or, if the user creates all of them, the Certificates that write the Secret.
func issuances(from release.Certificate, existing map[string]*unstructured.Unstructured) []issuance {
	if len(from.Objects) == 0 {
		var all []issuance
		for _, name := range slices.Sorted(maps.Keys(existing)) {
			if secret, _, _ := unstructured.NestedString(existing[name].Object, "spec", "secretName"); secret == from.Secret {
				all = append(all, issuance{certificates, name, false})
			}
		}
		return all
	}
	var own, foreign []issuance
	for _, object := range from.Objects {
		own = append(own, issuance{object.Resource(), object.Metadata.Name, true})
	}
	for _, object := range from.Objects {
		by := object.Spec.IssuerRef
		issuer := issuance{strings.ToLower(by.Kind) + "s", by.Name, true}
		// Of an issuer of another group, only the Certificate is known.
		if by.Group == groupCertManager && !slices.Contains(own, issuer) {
			issuer.managed = false
			foreign = append(foreign, issuer)
		}
	}
	return append(foreign, own...)
}

// notIssued returns why an object of cert-manager is not ready; empty if it is.
func notIssued(object *unstructured.Unstructured) string {
	if object == nil {
		return "is missing"
	}
	var is struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &is); err != nil {
		return fmt.Sprintf("cannot be decoded: %v", err)
	}
	problem := doctor.Unmet(is.Status.Conditions, "Ready")
	if problem == "" {
		return ""
	}
	last := meta.FindStatusCondition(is.Status.Conditions, "Issuing")
	if last != nil && last.Message != "" && !strings.Contains(problem, last.Message) {
		problem += "; last attempt: " + last.Message
	}
	return "is " + problem
}

// stoppedCertManager returns the Deployments of cert-manager that have no ready pod, by the labels of its chart. Those
// that cannot be read are left out.
func (c *Checks) stoppedCertManager(ctx context.Context) []string {
	deployments, err := c.API.AppsV1().Deployments(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: release.LabelName + " in (cert-manager, cainjector)"})
	if err != nil {
		return nil
	}
	var stopped []string
	for i := range deployments.Items {
		if d := &deployments.Items[i]; d.Status.ReadyReplicas == 0 {
			stopped = append(stopped, "Deployment "+d.Namespace+"/"+d.Name+" has no ready pod")
		}
	}
	return stopped
}
