package availability_test

import (
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"quaymaster.dev/test/harness/cloud"
)

const (
	// handover is the promise: how long after the termination signal another replica leads.
	handover = 3 * time.Second
	// slowAnswer is how long the cloud takes to answer each write.
	slowAnswer = 300 * time.Millisecond
)

// A leader that is asked to end while it writes releases the lease after its last write has been answered, and another
// replica goes on at once.
func TestHandover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start("first")
	holder := w.leader("", soon)
	w.settled()
	w.start("second")
	w.quiet(first)
	w.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if len(cloud.Writes([]string{r.Method + " " + r.URL.Path})) > 0 {
			time.Sleep(slowAnswer)
		}
		return false
	})
	before, end := len(first.cloud.since(0)), w.audit.end(t)
	var contested []*corev1.Service
	for i := range 10 {
		contested = append(contested, w.grouped(fmt.Sprintf("contested-%d", i), "edge"))
	}
	for len(cloud.Writes(first.cloud.since(before))) == 0 {
		time.Sleep(time.Millisecond)
	}
	asked := time.Now()
	if err := first.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.leader(holder, handover)
	t.Logf("another replica leads %s after the signal", time.Since(asked).Round(time.Millisecond))
	if code, err := first.Wait(afterLease); err != nil || code != 0 {
		t.Errorf("the former leader ends with %d, %v", code, err)
	}
	for _, svc := range contested {
		w.published(svc, soon)
	}
	writes := slices.DeleteFunc(w.audit.since(t, end), func(e auditv1.Event) bool {
		return e.User.Username != first.name || e.ObjectRef == nil || slices.Contains([]string{"get", "list", "watch"}, e.Verb)
	})
	if len(writes) == 0 {
		t.Fatal("the former leader wrote nothing")
	}
	slices.SortFunc(writes, func(a, b auditv1.Event) int { return a.StageTimestamp.Compare(b.StageTimestamp.Time) })
	release := writes[len(writes)-1]
	if release.ObjectRef.Resource != "leases" {
		t.Errorf("the last write is %s %s, not that of the lease", release.Verb, release.ObjectRef.Resource)
	}
	if last := first.cloud.lastAnswer(); !last.Before(release.RequestReceivedTimestamp.Time) {
		t.Errorf("the lease was released at %s, before the last write was answered at %s",
			release.RequestReceivedTimestamp, last)
	}
}
