package brake

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"quaymaster.dev/internal/kube/brakes"
)

const (
	namespace = "kube-system"
	window    = 10 * time.Minute
)

// apiServer is a fake API server that rejects patches of another resourceVersion, as the real one does.
type apiServer struct {
	*fake.Clientset
	events *record.FakeRecorder

	mu      sync.Mutex
	version int
	patches int
	// fail is the error of all patches; nil for none.
	fail error
}

func newAPIServer() *apiServer {
	a := &apiServer{Clientset: fake.NewClientset(), events: record.NewFakeRecorder(100)}
	a.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok || patch.PatchType == types.ApplyPatchType {
			return false, nil, nil
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.fail != nil {
			return true, nil, a.fail
		}
		var content map[string]any
		if err := json.Unmarshal(patch.Patch, &content); err != nil {
			return true, nil, err
		}
		metadata := content["metadata"].(map[string]any)
		if given, ok := metadata["resourceVersion"]; ok && given != a.current() {
			return true, nil, apierrors.NewConflict(corev1.Resource("configmaps"), brakes.ConfigMap, errors.New("changed"))
		}
		a.version++
		a.patches++
		metadata["resourceVersion"] = a.current()
		patch.Patch, _ = json.Marshal(content)
		return clienttesting.ObjectReaction(a.Tracker())(patch)
	})
	return a
}

// current returns the resourceVersion of the ConfigMap.
func (a *apiServer) current() string {
	if a.version == 0 {
		return ""
	}
	return strconv.Itoa(a.version)
}

// book returns the Book of a new leader.
func (a *apiServer) book() *Book {
	return New(Options{Client: a, Namespace: namespace, Recorder: a.events})
}

func (a *apiServer) resume(t *testing.T, name, value string) {
	t.Helper()
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{brakes.AnnotationResume(name): value}}})
	if _, err := a.CoreV1().ConfigMaps(namespace).Patch(t.Context(), brakes.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// run runs a Book until the end of the test.
func run(t *testing.T, b *Book) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	time.Sleep(time.Second) // the cache is polled until it has synced
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestABrakeStaysEngagedUnderAnotherLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPIServer()
		first := a.book()
		if _, _, engaged := first.Engaged(brakes.Routes); !engaged {
			t.Error("released before the record was read")
		}
		run(t, first)
		if _, _, engaged := first.Engaged(brakes.Routes); engaged {
			t.Error("engaged from the beginning")
		}
		began := time.Now()
		must(t, first.Engage(t.Context(), brakes.Routes, "too many routes disappear"))
		time.Sleep(time.Minute)
		must(t, first.Engage(t.Context(), brakes.Routes, "too many routes disappear"))
		if a.patches != 1 {
			t.Errorf("%d writes", a.patches)
		}

		second := a.book()
		run(t, second)
		message, since, engaged := second.Engaged(brakes.Routes)
		if !engaged || message != "too many routes disappear" || !since.Equal(began) {
			t.Errorf("engaged %v since %v: %q", engaged, since, message)
		}
		must(t, second.Release(t.Context(), brakes.Routes))
		must(t, second.Release(t.Context(), brakes.Routes))
		synctest.Wait()
		if _, _, engaged := first.Engaged(brakes.Routes); engaged || a.patches != 2 {
			t.Errorf("engaged %v after release, %d writes", engaged, a.patches)
		}
	})
}

func TestABudgetLastsThroughRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPIServer()
		spend := func(b *Book, key string, want bool) {
			t.Helper()
			got, err := b.Spend(t.Context(), brakes.NodeDeletions, key, 2, window)
			if err != nil || got != want {
				t.Errorf("%s: %v, %v, want %v", key, got, err, want)
			}
		}
		spend(a.book(), "a", true)
		time.Sleep(window / 2)
		restarted := a.book()
		spend(restarted, "b", true)
		spend(restarted, "a", true) // the same work again
		spend(restarted, "c", false)
		spend(a.book(), "c", false)
		time.Sleep(window / 2)
		spend(restarted, "c", true) // the first has left the window
		spend(restarted, "d", false)
		if a.patches != 3 {
			t.Errorf("%d writes, want one per unit spent", a.patches)
		}
	})
}

// Two leaders overlap if the former one has not noticed yet. The second write meets a later resourceVersion.
func TestTwoLeadersShareABudget(t *testing.T) {
	a := newAPIServer()
	one, other := a.book(), a.book()
	for _, b := range []*Book{one, other} {
		if _, err := b.read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	granted := 0
	for i, b := range []*Book{one, other, one, other} {
		ok, err := b.Spend(t.Context(), brakes.NodeDeletions, strconv.Itoa(i), 1, window)
		must(t, err)
		if ok {
			granted++
		}
	}
	if granted != 1 {
		t.Errorf("%d granted, want 1", granted)
	}
}

func TestAnOperatorResumesTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPIServer()
		b := a.book()
		run(t, b)
		must(t, b.Engage(t.Context(), brakes.NodeDeletions, "too many"))
		a.resume(t, brakes.NodeDeletions, "tomorrow")
		synctest.Wait()
		if _, _, engaged := b.Engaged(brakes.NodeDeletions); !engaged {
			t.Error("an invalid time resumes the work")
		}
		a.resume(t, brakes.NodeDeletions, time.Now().Add(time.Hour).Format(time.RFC3339))
		synctest.Wait()
		for i := range 5 {
			if ok, err := b.Spend(t.Context(), brakes.NodeDeletions, strconv.Itoa(i), 1, window); err != nil || !ok {
				t.Errorf("%d: %v, %v", i, ok, err)
			}
		}
		must(t, b.Engage(t.Context(), brakes.NodeDeletions, "still too many"))
		if _, _, engaged := b.Engaged(brakes.NodeDeletions); engaged {
			t.Error("engaged although an operator has resumed the work")
		}
		if _, _, engaged := b.Engaged(brakes.Routes); engaged {
			t.Error("another brake is engaged")
		}
		time.Sleep(time.Hour)
		if message, _, engaged := b.Engaged(brakes.NodeDeletions); !engaged || message != "too many" {
			t.Errorf("engaged %v (%q) after the time has passed", engaged, message)
		}
		close(a.events.Events)
		var events []string
		for e := range a.events.Events {
			events = append(events, strings.Join(strings.Fields(e)[:2], " "))
		}
		if got := strings.Join(events, ", "); got != "Warning BrakeEngaged, Warning InvalidResume, Normal BrakeResumed" {
			t.Errorf("events: %s", got)
		}
	})
}

// An engagement protects at once, even if the API server is away.
func TestAnEngagementThatCannotBeStoredIsEffective(t *testing.T) {
	a := newAPIServer()
	b := a.book()
	if _, err := b.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.fail = apierrors.NewInternalError(errors.New("no quorum"))
	if err := b.Engage(t.Context(), brakes.PoolMembers, "too many"); err == nil {
		t.Error("no error")
	}
	if ok, err := b.Spend(t.Context(), brakes.PoolMembers, "a", 1, window); ok || err == nil {
		t.Errorf("a budget that is not stored was granted: %v, %v", ok, err)
	}
	if message, _, engaged := b.Engaged(brakes.PoolMembers); !engaged || message != "too many" {
		t.Errorf("engaged %v: %q", engaged, message)
	}
	a.fail = nil
	must(t, b.Engage(t.Context(), brakes.PoolMembers, "too many"))
	must(t, b.Release(t.Context(), brakes.PoolMembers))
	if _, _, engaged := b.Engaged(brakes.PoolMembers); engaged {
		t.Error("engaged after release")
	}
}

func TestAnInvalidEntryStopsTheWork(t *testing.T) {
	a := newAPIServer()
	b := a.book()
	if _, err := a.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: brakes.ConfigMap},
		Data:       map[string]string{brakes.Routes: "off"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if ok, err := b.Spend(t.Context(), brakes.Routes, "a", 1, window); ok || err == nil {
		t.Errorf("spent: %v, %v", ok, err)
	}
	if message, _, engaged := b.Engaged(brakes.Routes); !engaged || !strings.Contains(message, "invalid") {
		t.Errorf("engaged %v: %q", engaged, message)
	}
}

func TestAnOperatorDeletesTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPIServer()
		b := a.book()
		run(t, b)
		must(t, b.Engage(t.Context(), brakes.Routes, "too many"))
		must(t, a.CoreV1().ConfigMaps(namespace).Delete(t.Context(), brakes.ConfigMap, metav1.DeleteOptions{}))
		a.version = 0
		synctest.Wait()
		if _, _, engaged := b.Engaged(brakes.Routes); engaged {
			t.Error("still engaged")
		}
		must(t, b.Engage(t.Context(), brakes.Routes, "again"))
		if message, _, engaged := b.Engaged(brakes.Routes); !engaged || message != "again" {
			t.Errorf("engaged %v: %q", engaged, message)
		}
	})
}

func TestMetrics(t *testing.T) {
	a := newAPIServer()
	b := a.book()
	if n := testutil.CollectAndCount(b); n != 0 {
		t.Errorf("%d series in a replica that is not the leader", n)
	}
	must(t, b.Engage(t.Context(), brakes.Routes, "too many"))
	want := `# HELP quaymaster_brake_engaged 1 if the brake stops its work, 0 if not.
# TYPE quaymaster_brake_engaged gauge
quaymaster_brake_engaged{brake="missing-load-balancers"} 0
quaymaster_brake_engaged{brake="node-deletions"} 0
quaymaster_brake_engaged{brake="pool-members"} 0
quaymaster_brake_engaged{brake="routes"} 1
`
	if err := testutil.CollectAndCompare(b, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// refusing is the transport to an API server that is down.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// TestEndWithoutAPIServer: the end of the process, and with it of the lease, does not wait for a watch that sleeps
// because the API server refused its connection.
func TestEndWithoutAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := kubernetes.NewForConfig(&rest.Config{Host: "https://api", Transport: refusing{}})
		if err != nil {
			t.Fatal(err)
		}
		b := New(Options{Client: api, Namespace: namespace, Recorder: record.NewFakeRecorder(1)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		b.Run(ctx)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("ends %s after it was asked to", took-time.Minute)
		}
		time.Sleep(time.Minute) // until the watch has ended, too
	})
}
