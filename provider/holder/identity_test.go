package holder_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/kubeapi"
)

// controllers are a Holder and the client that it identifies the cloud for.
type controllers struct {
	*holder.Holder
	client *cloudapi.Client
	events *record.FakeRecorder
	losses atomic.Int32
}

// control returns the controllers of a cluster, with the API server that remembers its cloud.
func control(t *testing.T, endpoint string, api kubernetes.Interface) *controllers {
	t.Helper()
	c := &controllers{events: record.NewFakeRecorder(100)}
	var err error
	c.client, err = cloudapi.New(cloudapi.Options{
		Endpoint: endpoint, Token: cloudapi.StaticToken(cloud.Token),
		Withhold:     func(ctx context.Context) error { return c.Withhold(ctx) },
		Identify:     func(ctx context.Context) error { return c.Identify(ctx) },
		OnOtherState: func() { c.Doubt() },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Holder = holder.New(holder.Options{
		Cloud: c.client, Memory: contact.Memory{Client: api, Namespace: "kube-system"}, ClusterUID: uid, ClusterID: "prod",
		Identity: func() (clusterca.Identity, error) {
			return clusterca.Identity{Proven: "a", Accepted: []string{"a"}}, nil
		},
		Recorder: c.events,
	})
	c.OnLoss(func(*cloudv1.Meta) { c.losses.Add(1) })
	return c
}

// create creates a node group. After a restart of the cloud, the first request may meet a connection that is broken.
func (c *controllers) create(t *testing.T, name string) error {
	_, err := c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{})
	if errors.As(err, new(*url.Error)) {
		_, err = c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{})
	}
	return err
}

func (c *controllers) list(t *testing.T) (int, error) {
	found, err := c.client.ListNodeGroups(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(found.Items), nil
}

func (c *controllers) expectLosses(t *testing.T, when string, want int32) {
	t.Helper()
	if got := c.losses.Load(); got != want {
		t.Errorf("%s: %d losses, want %d", when, got, want)
	}
}

// TestRestoredCloud: a cloud that was restored to a state before the last answer is noticed with the next call, read or
// write, before that has an effect. Restarts are not.
func TestRestoredCloud(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *controllers) error{
		"read":  func(t *testing.T, c *controllers) error { _, err := c.list(t); return err },
		"write": func(t *testing.T, c *controllers) error { return c.create(t, "b") },
	} {
		t.Run(name, func(t *testing.T) {
			cl := cloud.Start(t, 0)
			c := control(t, cl.Endpoint, kubeapi.Start(t).Client(t))
			if err := c.create(t, "a"); err != nil {
				t.Fatal(err)
			}
			backup := cl.Backup(t) // which restarts the cloud
			if err := c.create(t, "lost"); err != nil {
				t.Fatal(err)
			}
			c.expectLosses(t, "at first", 1)
			cl.Restore(t, backup)
			if err := call(t, c); !errors.Is(err, cloudapi.ErrOtherState) {
				t.Fatalf("the first call to the restored cloud: %v", err)
			}
			if err := call(t, c); err != nil {
				t.Fatalf("the next call: %v", err)
			}
			c.expectLosses(t, "after the restore", 2)
			want := map[string]int{"read": 1, "write": 2}[name]
			if got, err := c.list(t); err != nil || got != want {
				t.Errorf("%d node groups, error %v, want %d", got, err, want)
			}
		})
	}
}

// TestOtherCloud: nothing that a different cloud answers counts, and nothing is written there, until an operator decides.
func TestOtherCloud(t *testing.T) {
	api := kubeapi.Start(t).Client(t)
	right, wrong := cloud.Start(t, 0), cloud.Start(t, 0)
	before := control(t, right.Endpoint, api)
	if err := before.create(t, "a"); err != nil {
		t.Fatal(err)
	}
	// While the controllers run, the endpoint leads to the wrong cloud.
	right.Intercept(func(w http.ResponseWriter, r *http.Request) bool { wrong.Serve(w, r); return true })
	after := control(t, wrong.Endpoint, api)
	for name, c := range map[string]*controllers{"meanwhile": before, "from the start": after} {
		for range 3 {
			if found, err := c.list(t); err == nil {
				t.Errorf("%s: %d node groups", name, found)
			}
			if _, err := c.client.Instance(t.Context(), "i-none"); err == nil || cloudapi.IsAbsent(err) {
				t.Errorf("%s: an instance of a different cloud: %v", name, err)
			}
			if err := c.create(t, "b"); err == nil {
				t.Errorf("%s: created", name)
			}
		}
		if _, err := c.list(t); !errors.As(err, new(*holder.RefusedError)) || !strings.Contains(err.Error(), "quayctl takeover") {
			t.Errorf("%s: %v", name, err)
		}
		if event := <-c.events.Events; !strings.HasPrefix(event, "Warning CloudChanged the cloud at the endpoint is cloud-") {
			t.Errorf("%s: event %q", name, event)
		}
	}
	if writes := cloud.Writes(wrong.Calls()); len(writes) > 0 {
		t.Errorf("writes in the wrong cloud: %v", writes)
	}
	meta, err := wrong.Client.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := (contact.Memory{Client: api, Namespace: "kube-system"}).Remember(t.Context(), meta.ID); err != nil {
		t.Fatal(err)
	}
	if err := holder.Refresh(after.Holder, t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := after.create(t, "b"); err != nil {
		t.Errorf("after the takeover: %v", err)
	}
}

// TestAnswersOfOthers: what does not name the cloud is no answer of it.
func TestAnswersOfOthers(t *testing.T) {
	cl := cloud.Start(t, 0)
	c := control(t, cl.Endpoint, kubeapi.Start(t).Client(t))
	if err := c.create(t, "a"); err != nil {
		t.Fatal(err)
	}
	cl.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/meta") {
			return false
		}
		cloud.Problem(w, http.StatusNotFound, cloudv1.CodeResourceNotFound)
		return true
	})
	if _, err := c.client.Instance(t.Context(), "i-none"); err == nil || cloudapi.IsAbsent(err) {
		t.Errorf("a proxy's answer counts: %v", err)
	}
	c.expectLosses(t, "a proxy", 1)
}

// TestTwoServers: two servers of one cloud answer in turn, and one of them lacks what the other has. The cloud is identified
// again and again, but not as often as it is asked. When one server answers, calls succeed again within the longest pause.
func TestTwoServers(t *testing.T) {
	one, behind := cloud.Start(t, 0), cloud.Start(t, 0)
	behind.Restore(t, one.Backup(t))
	c := control(t, one.Endpoint, kubeapi.Start(t).Client(t))
	now := clocktesting.NewFakeClock(time.Now())
	c.Clock = now
	if err := c.create(t, "a"); err != nil {
		t.Fatal(err)
	}
	one.Calls()
	asked := 0
	one.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if asked++; asked%2 == 0 {
			behind.Serve(w, r)
		}
		return asked%2 == 0
	})
	for range 120 {
		_, _ = c.list(t)
		now.Step(time.Second)
	}
	count := func() (identified int) {
		for _, call := range one.Calls() {
			if strings.HasSuffix(call, "/meta") {
				identified++
			}
		}
		return identified
	}
	if identified := count(); identified < 3 || identified > 12 {
		t.Errorf("identified %d times in two minutes", identified)
	}
	if _, err := c.list(t); err == nil || !strings.Contains(err.Error(), "several servers") {
		t.Errorf("what is wrong: %v", err)
	}
	one.Intercept(nil)
	for range 40 {
		_, _ = c.list(t)
		now.Step(time.Second)
	}
	if _, err := c.list(t); err != nil || count() != 1 {
		t.Errorf("after the second server has gone: %v", err)
	}
}

// TestWithoutRights: what is missing is the right to read or write the ConfigMap, not an answer of the cloud.
func TestWithoutRights(t *testing.T) {
	for _, verb := range []string{"get", "patch"} {
		api := fake.NewClientset()
		api.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("configmaps"), contact.IdentityConfigMap, errors.New("no rights"))
		})
		c := control(t, cloud.Start(t, 0).Endpoint, api)
		_, err := c.list(t)
		if !errors.Is(err, cloudapi.ErrUnidentified) || !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "ConfigMap kube-system/quaymaster-cloud: ") || !strings.Contains(err.Error(), "grant get, create and patch") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
