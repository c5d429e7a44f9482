package contact_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// cloud is a cloud whose state the test chooses.
type cloud struct {
	mu             sync.Mutex
	tried, current bool
	err            error
}

func (c *cloud) Tried() bool   { c.mu.Lock(); defer c.mu.Unlock(); return c.tried }
func (c *cloud) Current() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.current }
func (c *cloud) Err() error    { c.mu.Lock(); defer c.mu.Unlock(); return c.err }

func (c *cloud) set(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried, c.current, c.err = true, err == nil, err
}

// hang makes the cloud hold a request, which is no error.
func (c *cloud) hang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried, c.current, c.err = true, false, nil
}

// world runs a Reporter, in the time of synctest.
type world struct {
	t      *testing.T
	cloud  *cloud
	client *fake.Clientset
	writes atomic.Int64
}

func run(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, cloud: &cloud{}, client: fake.NewClientset()}
		w.client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			w.writes.Add(1)
			return false, nil, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		reporter := contact.NewReporter(contact.Options{
			Client: w.client, Namespace: "kube-system", Lease: "ccm", Endpoint: "https://cloud", Cloud: w.cloud,
			Epoch: func() (int64, bool) { return 3, true },
		})
		running.Go(func() { reporter.Run(ctx) })
		test(w)
		cancel()
		running.Wait()
	})
}

func (w *world) record() *contact.Record {
	w.t.Helper()
	synctest.Wait()
	cm, err := w.client.CoreV1().ConfigMaps("kube-system").Get(w.t.Context(), contact.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := contact.Read(cm, "ccm")
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestReporter(t *testing.T) {
	run(t, func(w *world) {
		began := time.Now().UTC()
		time.Sleep(time.Minute)
		if got := w.record(); got != nil {
			t.Fatalf("before the cloud was asked: %+v", got)
		}
		var epoch int64 = 3
		for _, step := range []struct {
			err     error
			after   time.Duration
			state   contact.State
			message string
			since   time.Duration
			writes  int64
		}{
			{nil, 2 * time.Second, contact.Answers, "", 62 * time.Second, 1},
			{nil, time.Hour, contact.Answers, "", 62 * time.Second, 1},
			{&url.Error{Op: "Get", URL: "https://cloud/v1/changes", Err: errors.New("refused")}, 2 * time.Second, contact.Silent, "refused", 3664 * time.Second, 2},
			// Errors that differ each time cost one write a minute.
			{errors.New("reset 1"), 2 * time.Second, contact.Silent, "refused", 3664 * time.Second, 2},
			{errors.New("reset 2"), time.Minute, contact.Silent, "reset 2", 3664 * time.Second, 3},
			{
				&cloudapi.Error{Method: "GET", Path: "/v1/meta", Status: 401, RequestID: "r-1",
					Problem: &cloudv1.Problem{Code: cloudv1.CodeUnauthenticated}},
				2 * time.Second, contact.RejectsToken, "GET /v1/meta: 401 unauthenticated", 3728 * time.Second, 4,
			},
			{
				fmt.Errorf("%w: read ConfigMap: forbidden", cloudapi.ErrUnidentified), 2 * time.Second,
				contact.Unidentified, "it is not known whether the cloud is this cluster's: read ConfigMap: forbidden", 3730 * time.Second, 5,
			},
			{nil, 2 * time.Second, contact.Answers, "", 3732 * time.Second, 6},
		} {
			w.cloud.set(step.err)
			time.Sleep(step.after)
			want := &contact.Record{
				Epoch: &epoch, Endpoint: "https://cloud", State: step.state, Message: step.message, Since: began.Add(step.since),
			}
			if diff := cmp.Diff(want, w.record()); diff != "" || w.writes.Load() != step.writes {
				t.Fatalf("%v: %d writes, want %d; record (-want +got):\n%s", step.err, w.writes.Load(), step.writes, diff)
			}
		}
	})
}

// A cloud that holds a request for ever is silent, although there is no error yet.
func TestHangingCloud(t *testing.T) {
	run(t, func(w *world) {
		w.cloud.hang()
		time.Sleep(2 * time.Second)
		if got := w.record(); got.State != contact.Silent || got.Message == "" {
			t.Errorf("got %+v", got)
		}
	})
}

// A write that fails is repeated, but not with every look at the cloud.
func TestFailedWrite(t *testing.T) {
	run(t, func(w *world) {
		w.client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if w.writes.Add(1) > 2 {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, contact.ConfigMap, nil)
		})
		w.cloud.set(nil)
		time.Sleep(59 * time.Second)
		if got := w.record(); got != nil || w.writes.Load() != 2 {
			t.Errorf("%+v after %d writes", got, w.writes.Load())
		}
		time.Sleep(5 * time.Second)
		if got := w.record(); got == nil || got.State != contact.Answers {
			t.Errorf("got %+v", got)
		}
	})
}
