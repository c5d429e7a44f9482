package chart

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// soon is the time the API server may take to notice a change of its webhook configurations, with room for slow
// machines.
const soon = 30 * time.Second

// TestInstalled tests the chart on a real API server: what its CRDs reject, and which calls its webhooks get.
func TestInstalled(t *testing.T) {
	t.Parallel()
	e := env.Start(t, env.Options{Audit: true})
	if err := e.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	t.Run("objects", func(t *testing.T) {
		// No webhooks are configured yet, and the release must not exist.
		if err := e.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}); err != nil {
			t.Fatal(err)
		}
		checkObjectsAccepted(t, e)
		checkPodSecurity(t, e)
		t.Run("extreme values", func(t *testing.T) { checkExtremeValues(t, e) })
		checkNotes(t, e)
		checkLifecycle(t, e)
		checkOtherRelease(t, e)
		checkGitOps(t, e)
	})
	asked := newCounter(t)
	// With Fail, a match condition that cannot be evaluated rejects the request, so a mistake in one is not mistaken
	// for a saved call.
	failurePolicy := map[string]any{}
	for _, name := range []string{
		"mutateService", "validateService", "mutatePersistentVolume", "mutatePersistentVolumeClaim", "validatePersistentVolumeClaim", "validatePolicy",
	} {
		failurePolicy[name] = "Fail"
	}
	values := env.Values{
		"certs":   map[string]any{"mode": "files"},
		"webhook": map[string]any{"url": asked.server.URL, "caBundle": asked.authority(), "failurePolicy": failurePolicy},
	}
	// The second time is an upgrade.
	for range 2 {
		if err := e.InstallChart(t.Context(), values); err != nil {
			t.Fatal(err)
		}
	}
	asked.wait(t, e.Client)
	t.Run("definitions", func(t *testing.T) { checkPolicySchema(t, e) })
	t.Run("calls", func(t *testing.T) { checkCalls(t, e.Client, asked) })
	t.Run("conditions", func(t *testing.T) { checkCostOfConditions(t, e, asked) })
}

// counter is a webhook that admits everything and counts the calls of each path.
type counter struct {
	server *httptest.Server
	mu     sync.Mutex
	calls  map[string]int
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{calls: map[string]int{}}
	c.server = httptest.NewTLSServer(c)
	t.Cleanup(c.server.Close)
	return c
}

// authority returns the CA of the server's certificate, in PEM.
func (c *counter) authority() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw}))
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.calls[r.URL.Path]++
	c.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(review)
}

// take returns the calls since the last take.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := maps.Clone(c.calls)
	clear(c.calls)
	return calls
}

// wait blocks until the API server uses both configurations.
func (c *counter) wait(t *testing.T, kube client.Client) {
	t.Helper()
	env.Eventually(t, soon, "calls of both configurations", func(ctx context.Context) error {
		svc := builder.Service()
		svc.UID = ""
		if err := kube.Create(ctx, svc, client.DryRunAll); err != nil {
			return err
		}
		if calls := c.take(); len(calls) != 2 {
			return fmt.Errorf("calls are %v", calls)
		}
		return nil
	})
}
