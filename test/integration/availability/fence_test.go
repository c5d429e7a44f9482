package availability_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/test/harness/cloud"
)

// The cloud has seen a later leader than the one that writes: that one writes no more and exits. The next leader has a
// higher epoch, and goes on.
func TestFencedLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start("first")
	holder := w.leader("", soon)
	w.settled()
	w.quiet(first)
	uid, epochs := first.cloud.fences()
	if uid == "" || len(epochs) != 1 || !epochs["0"] {
		t.Fatalf("the first leader has the fence %q and the epochs %v", uid, epochs)
	}
	w.cloud.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		fenced := strings.Contains(r.Header.Get(cloudv1.HeaderFence), ";epoch=0;")
		if fenced {
			cloud.Problem(rw, http.StatusPreconditionFailed, cloudv1.CodeFenced)
		}
		return fenced
	})
	asked := len(first.cloud.since(0))
	w.mark("node-4", "edge")
	late := w.grouped("late", "edge")
	if code, err := first.Wait(w.renewDeadline + 2*afterLease); err != nil || code == 0 {
		t.Errorf("the fenced leader ends with %d, %v", code, err)
	}
	// Writes that were in flight at the same time are fenced, too.
	if writes := cloud.Writes(first.cloud.since(asked)); len(writes) == 0 || len(writes) > 8 {
		t.Errorf("the fenced leader wrote %q", writes)
	}
	second := w.start("second")
	w.leader(holder, w.duration+soon)
	w.published(late, soon)
	if again, epochs := second.cloud.fences(); again != uid || len(epochs) != 1 || !epochs["1"] {
		t.Errorf("the second leader has the fence %q and the epochs %v", again, epochs)
	}
}

// After a restore of etcd, the lease has fewer transitions than the cloud has seen. The leader raises it, and goes on.
func TestRestoredLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start("first")
	holder := w.leader("", soon)
	w.settled()
	first.Kill()
	w.transitions(7)
	second := w.start("second")
	holder = w.leader(holder, w.duration+soon)
	w.mark("node-4", "edge")
	w.published(w.grouped("before", "edge"), soon)
	if _, epochs := second.cloud.fences(); !epochs["8"] {
		t.Fatalf("the leader before the restore has the epochs %v", epochs)
	}
	second.Kill()
	w.transitions(2)
	third := w.start("third")
	w.leader(holder, w.duration+soon)
	w.published(w.grouped("after", "edge"), w.duration+soon)
	if _, epochs := third.cloud.fences(); !epochs["9"] {
		t.Errorf("the leader after the restore has the epochs %v", epochs)
	}
	if exit := third.Exit(); exit != nil {
		t.Errorf("the leader has ended: %v", exit)
	}
}

// transitions sets the number of transitions in the lease of a leader that has died.
func (w *world) transitions(n int) {
	w.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"leaseTransitions":%d}}`, n))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leadership.Namespace, Name: leadership.CloudLease}}
	if err := w.Client.Patch(w.t.Context(), lease, patch); err != nil {
		w.t.Fatal(err)
	}
}

// fences returns the cluster and the epochs of all writes; no write may be without. The holder of the cluster UID
// follows the epoch.
func (w *way) fences() (cluster string, epochs map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	epochs = map[string]bool{}
	for _, fence := range w.fence {
		uid, rest, _ := strings.Cut(fence, ";epoch=")
		epoch, _, _ := strings.Cut(rest, ";holder=")
		cluster, epochs[epoch] = uid, true
	}
	return cluster, epochs
}
