package doctor

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// defaultCertPrefix begins the names of the role's cert-manager objects unless told otherwise.
const defaultCertPrefix = "quaymaster-webhook"

// certManager looks whether cert-manager has done its part.
func (e *examination) certManager(ctx context.Context) Result {
	if mode := e.release.webhook.argumentOr("--cert-mode", ""); mode != modeCertManager {
		return skip("the serving certificate is not cert-manager's to make")
	}
	prefix := e.release.webhook.argumentOr("--cert-name-prefix", defaultCertPrefix)
	var ready, waiting []string
	for _, resource := range []string{"issuers", "certificates"} {
		list, err := e.Objects.Resource(schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: resource}).
			Namespace(e.Namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return fail("install cert-manager, or choose certs.mode=self-signed; the webhook's pods wait for it", "cert-manager.io/v1 is not served")
		}
		if err != nil {
			return unread("cert-manager's "+resource, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !strings.HasPrefix(object.GetName(), prefix) {
				continue
			}
			var status struct {
				Status conditions `json:"status"`
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &status); err != nil {
				return fail("delete it: it is made anew", "%s %s cannot be read: %v", object.GetKind(), object.GetName(), err)
			}
			name := object.GetKind() + " " + object.GetName()
			if problem := status.Status.not("Ready"); problem != "" {
				waiting = append(waiting, fmt.Sprintf("%s is %s", name, problem))
			} else {
				ready = append(ready, name)
			}
		}
	}
	switch {
	case len(waiting) > 0:
		return fail("see whether cert-manager's pods run, and kubectl --namespace "+e.Namespace+" describe certificates", "%s", strings.Join(waiting, "; "))
	case len(ready) == 0 && e.release.webhook.argumentOr("--cert-manager-managed", "true") == "false":
		return skip("certs.certManager.managed is false, and whoever manages them calls them something else")
	case len(ready) == 0:
		return fail("see the logs of the webhook's pods, which make them",
			"there are no issuers and certificates that begin with %s%s", prefix, e.reason(ctx))
	}
	return ok("%s are ready", strings.Join(ready, ", "))
}
