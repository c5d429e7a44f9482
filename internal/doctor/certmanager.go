package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// defaultCertPrefix is the default of the webhook's flag --cert-name-prefix.
const defaultCertPrefix = "quaymaster-webhook"

// The resources of cert-manager.
const (
	issuers        = "issuers"
	clusterIssuers = "clusterissuers"
	certificates   = "certificates"
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

// certManager checks the objects of cert-manager that the serving certificate depends on, and that cert-manager runs.
func (e *examination) certManager(ctx context.Context) Result {
	if mode := e.release.webhook.argumentOr("--cert-mode", ""); mode != modeCertManager {
		return skip("cert-manager does not issue the serving certificate")
	}
	found := map[string]map[string]*unstructured.Unstructured{}
	for _, resource := range []string{issuers, certificates} {
		list, err := e.Objects.Resource(certManagerResource(resource)).Namespace(e.Namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return fail("install cert-manager with its CRDs, for which the webhook's pods are waiting, or set "+
				"certs.mode=self-signed", "the API server does not serve %s.%s/v1: cert-manager, or this CRD of it, is not "+
				"installed", resource, groupCertManager)
		}
		if err != nil {
			return unread("cert-manager's "+resource, err)
		}
		found[resource] = map[string]*unstructured.Unstructured{}
		for i := range list.Items {
			found[resource][list.Items[i].GetName()] = &list.Items[i]
		}
	}
	needed := e.issuances(found[certificates])
	var ready, problems []string
	created := false
	for _, i := range needed {
		object := found[i.resource][i.name]
		if i.resource == clusterIssuers {
			var err error
			object, err = e.Objects.Resource(certManagerResource(i.resource)).Get(ctx, i.name, metav1.GetOptions{})
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
	stopped := e.stoppedCertManager(ctx)
	switch {
	case len(problems) > 0 && created:
		return fail("the webhook's pods create missing objects; if they stay missing, "+e.logCommand(webhookComponent),
			"%d of %d objects of cert-manager are not ready%s", len(problems), len(needed), e.reason(ctx)).
			with(append(problems, stopped...))
	case len(problems) > 0:
		return fail("check that cert-manager's pods are running, and run "+e.kubectl("describe certificates,issuers"),
			"%d of %d objects of cert-manager are not ready", len(problems), len(needed)).with(append(problems, stopped...))
	case len(stopped) > 0:
		return warn("let the pods run: certificates are not renewed, or their CA is not distributed",
			"what is issued is ready, but parts of cert-manager do not run").with(stopped)
	case len(needed) == 0:
		return skip("certs.certManager.managed is false, and no Certificate writes Secret %s",
			e.release.webhook.certSecret())
	}
	return ok("ready: %s", strings.Join(ready, ", "))
}

// issuances returns the objects that the serving certificate depends on: those that the webhooks create, and the user's
// issuer; or, if the user creates all of them, the Certificates that write the Secret.
func (e *examination) issuances(existing map[string]*unstructured.Unstructured) []issuance {
	w := e.release.webhook
	prefix := w.argumentOr("--cert-name-prefix", defaultCertPrefix)
	if w.argumentOr("--cert-manager-managed", "true") == "false" {
		var all []issuance
		for name, object := range existing {
			if secret, _, _ := unstructured.NestedString(object.Object, "spec", "secretName"); secret == w.certSecret() {
				all = append(all, issuance{certificates, name, false})
			}
		}
		slices.SortFunc(all, func(a, b issuance) int { return cmp.Compare(a.name, b.name) })
		return all
	}
	reference := w.argumentOr("--cert-issuer-ref", "")
	if reference == "" {
		return []issuance{
			{issuers, prefix + "-selfsigned", true}, {certificates, prefix + "-ca", true}, {issuers, prefix + "-ca", true},
			{certificates, prefix, true},
		}
	}
	all := []issuance{{certificates, prefix, true}}
	switch parts := strings.Split(strings.TrimPrefix(reference, groupCertManager+"/"), "/"); {
	case len(parts) == 2 && parts[0] == "Issuer":
		return append([]issuance{{issuers, parts[1], false}}, all...)
	case len(parts) == 2 && parts[0] == "ClusterIssuer":
		return append([]issuance{{clusterIssuers, parts[1], false}}, all...)
	}
	return all // of an issuer of another group, only the Certificate is known
}

// notIssued returns why an object of cert-manager is not ready; empty if it is.
func notIssued(object *unstructured.Unstructured) string {
	if object == nil {
		return "is missing"
	}
	var is struct {
		Status conditions `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &is); err != nil {
		return fmt.Sprintf("cannot be decoded: %v", err)
	}
	problem := is.Status.not("Ready")
	if problem == "" {
		return ""
	}
	for _, c := range is.Status.Conditions {
		if c.Type == "Issuing" && c.Message != "" && !strings.Contains(problem, c.Message) {
			problem += "; last attempt: " + c.Message
		}
	}
	return "is " + problem
}

// stoppedCertManager returns the Deployments of cert-manager that have no ready pod, by the labels of its chart. Those
// that cannot be read are left out.
func (e *examination) stoppedCertManager(ctx context.Context) []string {
	deployments, err := e.API.AppsV1().Deployments(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: labelName + " in (cert-manager, cainjector)"})
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
