package agent_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/edge/agent"
	"quaymaster.dev/internal/mycloud/edge/state"
	"quaymaster.dev/test/harness/cloud"
)

const ownToken = "a-token-of-its-own-that-is-long"

// startAt starts an agent as mycloud edge does, for the cloud at some endpoints, of which an administrator has named the id.
func (w *world) startAt(confirmed string, endpoints ...string) {
	w.Helper()
	w.identity = agent.NewIdentity(confirmed)
	client := func(token string) *cloudapi.Client {
		c, err := cloudapi.New(cloudapi.Options{
			Endpoint: endpoints[0], OtherEndpoints: endpoints[1:], Token: cloudapi.StaticToken(token), Identify: w.identity.Identify,
		})
		if err != nil {
			w.Fatal(err)
		}
		return c
	}
	w.startAs(w.identity.Enroll(client(ownToken), client(cloud.RegistrationToken)), cloudv1.EdgeSpec{Name: "edge-2", Token: ownToken})
}

func (w *world) id() string { return identify(w.T, w.cloud) }

func identify(t *testing.T, c *cloud.Cloud) string {
	t.Helper()
	meta, err := c.Client.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return meta.ID
}

// misled reports whether the metric says that a different cloud answers.
func (w *world) misled() bool {
	w.Helper()
	const text = "# HELP mycloud_edge_other_cloud 1 if the endpoint leads to a different cloud than that of the edge, which goes on with the last state, 0 if not.\n" +
		"# TYPE mycloud_edge_other_cloud gauge\nmycloud_edge_other_cloud 1\n"
	return testutil.GatherAndCompare(w.registry, strings.NewReader(text), "mycloud_edge_other_cloud") == nil
}

// newPinned returns a world whose edge has the state of its cloud, and is stopped.
func newPinned(t *testing.T) *world {
	w := newWorld(t)
	w.stop()
	w.startAt("", w.cloud.Endpoint)
	w.create("web")
	w.until("announce 1")
	w.stop()
	s, err := state.Load(filepath.Join(w.dir, "state.json"))
	if err != nil || s.Cloud != w.id() {
		t.Fatalf("the kept state is that of cloud %q, %v, want %q", s.Cloud, err, w.id())
	}
	w.machine.taken()
	return w
}

// An edge at a healthy, but different cloud goes on with the state of its own, until an administrator names the other one.
func TestOtherCloud(t *testing.T) {
	t.Parallel()
	w := newPinned(t)
	other := cloud.Start(t, 0)
	w.startAt("", other.Endpoint)
	w.eventually("it says that the cloud is a different one", w.misled)
	w.until("announce 1")
	// It has had time for several requests.
	time.Sleep(2 * time.Second)
	if steps := strings.Join(w.machine.taken(), ", "); strings.Contains(steps, "announce 0") {
		t.Errorf("it has withdrawn its addresses: %s", steps)
	}
	for _, call := range other.Calls() {
		if !strings.HasSuffix(call, "/v1/meta") {
			t.Errorf("the other cloud gets %s", call)
		}
	}
	w.stop()

	w.startAt(identify(t, other), other.Endpoint)
	w.eventually("the announcements are those of the cloud that was named", func() bool {
		return strings.Contains(strings.Join(w.machine.taken(), ","), "announce 0")
	})
	w.eventually("it no longer says that the cloud is a different one", func() bool { return !w.misled() })
	w.stop()

	// From then on, that cloud is the one of the edge.
	w.startAt("", w.cloud.Endpoint)
	w.eventually("the former cloud is the different one", w.misled)
}

// A server of a different cloud among the endpoints is passed over.
func TestOtherServer(t *testing.T) {
	w := newPinned(t)
	other := cloud.Start(t, 0)
	for range 3 {
		w.startAt("", other.Endpoint, w.cloud.Endpoint)
		w.eventually("it follows its cloud", func() bool {
			edges, err := w.cloud.Client.ListEdges(t.Context(), cloudapi.ListOptions{Name: "edge-2"})
			return err == nil && len(edges.Items) == 1 && edges.Items[0].State == cloudv1.EdgeActive && !w.misled()
		})
		w.stop()
	}
}

// A cloud that was restored from a backup is the same one, even if the backup is older than the registration of the edge.
func TestRestoredCloud(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	backup := w.cloud.Backup(t)
	w.startAt("", w.cloud.Endpoint)
	w.create("web")
	w.until("announce 1")
	w.cloud.Restore(t, backup)
	w.create("again")
	w.eventually("it serves what was created after the restore", func() bool {
		return strings.Contains(strings.Join(w.machine.taken(), ","), "announce 1")
	})
	if w.misled() {
		t.Error("it says that the cloud is a different one")
	}
}

// A state of a version that did not keep the id of the cloud is read again, and kept with the id.
func TestStateWithoutCloud(t *testing.T) {
	t.Parallel()
	w := newPinned(t)
	path := filepath.Join(w.dir, "state.json")
	s, err := state.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	s.Cloud = ""
	if err := s.Save(path); err != nil {
		t.Fatal(err)
	}
	var lists atomic.Int64
	w.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v1/node-groups" {
			lists.Add(1)
		}
		return false
	})
	w.startAt("", w.cloud.Endpoint)
	w.eventually("the id is kept", func() bool {
		s, err := state.Load(path)
		return err == nil && s.Cloud == w.id()
	})
	time.Sleep(500 * time.Millisecond)
	w.stop()
	if n := lists.Load(); n != 1 {
		t.Errorf("read again %d times", n)
	}
	if raw, err := os.ReadFile(path); err != nil || !strings.Contains(string(raw), `"cloud":`) {
		t.Errorf("%v, %s", err, raw)
	}
}
