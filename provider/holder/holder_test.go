package holder_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/record"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/test/harness/cloud"
)

const uid = "00000000-0000-0000-0000-00000000c1a5"

// cluster is one of several with the same UID.
type cluster struct {
	*holder.Holder
	id     atomic.Pointer[clusterca.Identity]
	events chan string
}

func newCluster(c *cloud.Cloud, proven string, accepted ...string) *cluster {
	recorder := record.NewFakeRecorder(100)
	one := &cluster{events: recorder.Events}
	one.id.Store(&clusterca.Identity{Proven: proven, Accepted: append(accepted, proven)})
	one.Holder = holder.New(holder.Options{
		Cloud: c.Client, ClusterUID: uid, ClusterID: "prod", ClaimedBy: "test", Recorder: recorder,
		Identity: func() (clusterca.Identity, error) { return *one.id.Load(), nil },
	})
	return one
}

// write reports whether the cluster may write.
func (o *cluster) write(t *testing.T, want bool) {
	t.Helper()
	err := o.Withhold(t.Context())
	if refused := errors.As(err, new(*holder.RefusedError)); refused == want || err != nil && !refused {
		t.Errorf("%s: may write %t, want %t: %v", o.id.Load().Proven, err == nil, want, err)
	}
}

// value compares the metric: reason is why the cluster may not write, and empty if it may.
func (o *cluster) value(t *testing.T, known bool, reason string) {
	t.Helper()
	var want strings.Builder
	if known {
		want.WriteString("# HELP quaymaster_cloud_writes_withheld 1 for the reason why this cluster may not write to the cloud, " +
			"0 for the other possible reasons.\n# TYPE quaymaster_cloud_writes_withheld gauge\n")
		for _, r := range []string{"CloudChanged", "ClusterIDChanged", "ClusterUIDHeldByAnother"} {
			value := map[bool]int{true: 1}[r == reason]
			fmt.Fprintf(&want, "quaymaster_cloud_writes_withheld{reason=%q} %d\n", r, value)
		}
	}
	if err := testutil.CollectAndCompare(o, strings.NewReader(want.String())); err != nil {
		t.Error(err)
	}
}

func fingerprints(t *testing.T, c *cloud.Cloud) []string {
	t.Helper()
	held, err := holder.Read(t.Context(), c.Client, uid)
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	return held.Fingerprints
}

// The first cluster claims the UID before its first write, with three requests, and later ones cost none.
func TestFirstClaims(t *testing.T) {
	c := cloud.Start(t, 0)
	first, second := newCluster(c, "a"), newCluster(c, "b")
	first.value(t, false, "")
	for range 3 {
		first.write(t, true)
	}
	path := "/v1/clusters/" + uid + "/holder"
	if diff := cmp.Diff([]string{"GET " + path, "GET /v1/load-balancers", "PUT " + path}, c.Calls()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	first.value(t, true, "")
	if got := first.Fence(uid + ";epoch=1"); got != uid+";epoch=1;holder=a" {
		t.Errorf("fence %q", got)
	}
	for range 3 {
		second.write(t, false)
	}
	if diff := cmp.Diff([]string{"GET " + path}, c.Calls()); diff != "" {
		t.Errorf("requests of the second (-want +got):\n%s", diff)
	}
	second.value(t, true, "ClusterUIDHeldByAnother")
	if event := <-second.events; !strings.HasPrefix(event, "Warning ClusterUIDHeldByAnother ") || len(second.events) != 0 {
		t.Errorf("event %q and %d more", event, len(second.events))
	}
}

// Two clusters that claim at the same time do not both get the UID.
func TestClaimAtTheSameTime(t *testing.T) {
	c := cloud.Start(t, 0)
	first, second := newCluster(c, "a"), newCluster(c, "b")
	raced := false
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && !raced {
			raced = true
			second.write(t, true)
		}
		return false
	})
	first.write(t, false)
}

// TestRotation: while the authority is replaced, clients trust both, so the record follows.
func TestRotation(t *testing.T) {
	c := cloud.Start(t, 0)
	for _, step := range []struct {
		proven string
		others []string
		want   []string
	}{
		{"old", nil, []string{"old"}},
		{"old", []string{"new"}, []string{"new", "old"}},
		{"new", []string{"old"}, []string{"old", "new"}},
		{"new", nil, []string{"new"}},
	} {
		newCluster(c, step.proven, step.others...).write(t, true)
		if diff := cmp.Diff(step.want, fingerprints(t, c)); diff != "" {
			t.Errorf("fingerprints (-want +got):\n%s", diff)
		}
	}
	// A connection that trusts a different CA proves nothing.
	newCluster(c, "other", "new").write(t, false)
}

// TestTakeover: both clusters learn of a takeover without a restart.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cloud.StartDirect(t)
		first, second := newCluster(c, "a"), newCluster(c, "b")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go first.Run(ctx)
		synctest.Wait()
		go second.Run(ctx)
		synctest.Wait()
		was, err := holder.Read(ctx, c.Client, uid)
		if err != nil {
			t.Fatal(err)
		}
		if err := holder.Claim(ctx, c.Client, was, uid, cloudv1.ClusterHolderSpec{Name: "prod", Fingerprints: []string{"b"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		second.write(t, true)
		first.Doubt() // the cloud has rejected a write
		synctest.Wait()
		first.write(t, false)
		if event := <-first.events; !strings.HasPrefix(event, "Warning ClusterUIDHeldByAnother ") {
			t.Error(event)
		}
		<-second.events
		if event := <-second.events; !strings.HasPrefix(event, "Normal ClusterUIDHeld ") {
			t.Error(event)
		}
		cancel()
		synctest.Wait()
	})
}

// TestWithoutRecords: a cloud that keeps no records of holders is used as before.
func TestWithoutRecords(t *testing.T) {
	c := cloud.Start(t, 0)
	c.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(w, http.StatusNotFound, cloudv1.CodeUnsupported)
		return true
	})
	newCluster(c, "a").write(t, true)
}

// TestUnknown: without an answer, nothing is written, and the next write asks again.
func TestUnknown(t *testing.T) {
	c := cloud.Start(t, 0)
	one := newCluster(c, "a")
	c.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(w, http.StatusInternalServerError, cloudv1.CodeInternal)
		return true
	})
	if err := one.Withhold(t.Context()); !cloudapi.HasCode(err, cloudv1.CodeInternal) {
		t.Errorf("%v, want the cloud's error", err)
	}
	c.Intercept(nil)
	one.write(t, true)
}

// TestRotationWhileRunning: the holder notices that its clients trust a different CA, and reads the record no more
// often than it must.
func TestRotationWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cloud.StartDirect(t)
		one := newCluster(c, "old")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go one.Run(ctx)
		synctest.Wait()
		c.Calls()
		time.Sleep(20 * time.Minute)
		if calls := c.Calls(); len(calls) > 0 {
			t.Errorf("requests without a reason: %q", calls)
		}
		one.id.Store(&clusterca.Identity{Proven: "old", Accepted: []string{"new", "old"}})
		time.Sleep(90 * time.Second)
		if diff := cmp.Diff([]string{"new", "old"}, fingerprints(t, c)); diff != "" {
			t.Errorf("fingerprints (-want +got):\n%s", diff)
		}
		cancel()
		synctest.Wait()
	})
}

// TestDoubtDuringACheck: what is doubted while the record is read is read again before the next write.
func TestDoubtDuringACheck(t *testing.T) {
	c := cloud.Start(t, 0)
	one := newCluster(c, "a")
	c.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			one.Doubt()
		}
		return false
	})
	one.write(t, true)
	c.Calls()
	for _, want := range [][]string{{"GET /v1/clusters/" + uid + "/holder"}, nil} {
		one.write(t, true)
		if diff := cmp.Diff(want, c.Calls()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
}
