package availability_test

import (
	"net/http"
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/cloud"
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
