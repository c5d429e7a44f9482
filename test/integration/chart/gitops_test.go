package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// checkGitOps installs the chart like tools that render it without a cluster and apply the manifests: applying them
// again, without force, conflicts with nothing and changes nothing, although the webhooks write into some objects.
func checkGitOps(t *testing.T, e *env.Env) {
	var objects []*unstructured.Unstructured
	for _, object := range render(t, env.Values{"certs": map[string]any{"mode": "self-signed"}}) {
		if object.GetAnnotations()["helm.sh/hook"] == "" {
			objects = append(objects, object)
		}
	}
	apply := func() {
		t.Helper()
		for _, object := range objects {
			err := e.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("gitops"))
			if err != nil {
				t.Errorf("apply %s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	}
	apply()
	state := fillIn(t, e.Client)
	before := versions(t, e.Client)
	apply()
	if diff := cmp.Diff(before, versions(t, e.Client)); diff != "" {
		t.Errorf("applying the same manifests changed objects (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(state, filledIn(t, e.Client)); diff != "" {
		t.Errorf("applying the same manifests removed what the webhooks had written (-want +got):\n%s", diff)
	}
	for _, object := range objects {
		// An API server may take minutes until it serves a CRD again that was deleted and created at once.
		if object.GetKind() == definition {
			continue
		}
		if err := e.Client.Delete(t.Context(), object); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
