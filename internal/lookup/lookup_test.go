package lookup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/volume"
	"quaymaster.dev/test/harness/cloud"
)

// fixture is a Lookup in front of the reference cloud.
type fixture struct {
	*lookup.Lookup
	cloud *cloud.Cloud
	clock *clocktesting.FakeClock
}

func start(t *testing.T, o lookup.Options) *fixture {
	t.Helper()
	f := &fixture{cloud: cloud.Start(t, 0), clock: clocktesting.NewFakeClock(time.Now())}
	// The client observes what the cloud asks for by the same clock.
	client, err := cloudapi.New(cloudapi.Options{
		Endpoint: f.cloud.Endpoint, Token: cloudapi.StaticToken(cloud.Token), Clock: f.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Cloud, o.Clock = client, f.clock
	f.Lookup = lookup.New(o)
	return f
}

// pass advances the clock.
func (f *fixture) pass(d time.Duration) { f.clock.Step(d) }

// expectCalls compares the number of calls since the last time.
func (f *fixture) expectCalls(t *testing.T, want int, when string) {
	t.Helper()
	if calls := f.cloud.Calls(); len(calls) != want {
		t.Errorf("%s: %d calls, want %d: %v", when, len(calls), want, calls)
	}
}

func pv(handle string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{}
	v.Name = "data"
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: volume.Driver, VolumeHandle: handle}
	return v
}

// together calls f n times concurrently and returns all errors.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	return errs
}

func TestManyLookupsAreOneCall(t *testing.T) {
	f := start(t, lookup.Options{})
	want := map[string]string{"topology.kubernetes.io/zone": "eu-1a", "topology.kubernetes.io/region": "eu-1"}
	errs := together(100, func(int) error {
		got, err := f.GetLabelsForVolume(t.Context(), pv("vol-data-1"))
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			return fmt.Errorf("labels (-want +got):\n%s", diff)
		}
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	f.expectCalls(t, 1, "100 lookups")
	f.pass(59 * time.Second)
	mustVolume(t, f, "vol-data-1")
	f.expectCalls(t, 0, "within a minute")
	f.pass(2 * time.Second)
	mustVolume(t, f, "vol-data-1")
	f.expectCalls(t, 1, "after a minute")
}

func mustVolume(t *testing.T, f *fixture, id string) {
	t.Helper()
	got, err := f.Volume(t.Context(), id)
	if err != nil || got.ID != id {
		t.Fatalf("volume %+v, %v; want %s", got, err, id)
	}
}

func TestLabels(t *testing.T) {
	f := start(t, lookup.Options{})
	for id, zone := range map[string]string{"vol-data-1": "eu-1a", "vol-shared-1": "eu-1a__eu-1b"} {
		labels, err := f.GetLabelsForVolume(t.Context(), pv(id))
		want := map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: "eu-1"}
		if diff := cmp.Diff(want, labels); diff != "" || err != nil {
			t.Errorf("%s: error %v, labels (-want +got):\n%s", id, err, diff)
		}
	}
}

func TestVolumesOfOthersCostNoCall(t *testing.T) {
	f := start(t, lookup.Options{})
	others := pv("vol-data-1")
	others.Spec.CSI.Driver = "csi.example.com"
	for what, volume := range map[string]*corev1.PersistentVolume{"a volume without CSI": {}, "another driver's": others} {
		labels, err := f.GetLabelsForVolume(t.Context(), volume)
		if labels != nil || err != nil {
			t.Errorf("%s: labels %v, %v; want none", what, labels, err)
		}
		f.expectCalls(t, 0, what)
	}
}

func TestVolumeThatDoesNotExist(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"never did": nil,
		"any more":  cloud.Refuse(http.StatusGone, cloudv1.CodeResourceGone),
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, lookup.Options{})
			f.cloud.Intercept(answer)
			mustNotFind := func() {
				t.Helper()
				if _, err := f.GetLabelsForVolume(t.Context(), pv("vol-none")); !errors.Is(err, cloudprovider.DiskNotFound) {
					t.Fatalf("error %v, want %v", err, cloudprovider.DiskNotFound)
				}
			}
			mustNotFind()
			mustNotFind()
			f.expectCalls(t, 1, "two lookups")
			f.pass(3 * time.Second)
			mustNotFind()
			f.expectCalls(t, 1, "it may have been made since")
			f.cloud.Intercept(nil)
			mustVolume(t, f, "vol-data-1")
		})
	}
}

func volumeBody(t *testing.T, v cloudv1.Volume) func(http.ResponseWriter, *http.Request) bool {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return cloud.Answer(http.StatusOK, "application/json", string(text))
}

// A response that is not the cloud's answer about the volume results in neither labels nor the volume's absence. If the
// error concerns the cloud as a whole, other volumes are not read either, for a moment.
func TestOutages(t *testing.T) {
	named := func(id string) cloudv1.Object { return cloudv1.Object{ID: id} }
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		whole  bool
	}{
		"404 of a proxy":     {cloud.Answer(http.StatusNotFound, "text/html", "<h1>Not Found</h1>"), true},
		"unavailable":        {cloud.Refuse(http.StatusServiceUnavailable, cloudv1.CodeUnavailable), true},
		"too many requests":  {cloud.Refuse(http.StatusTooManyRequests, cloudv1.CodeRateLimited), true},
		"connection is cut":  {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, true},
		"internal error":     {cloud.Refuse(http.StatusInternalServerError, cloudv1.CodeInternal), false},
		"forbidden":          {cloud.Refuse(http.StatusForbidden, cloudv1.CodeForbidden), false},
		"no JSON":            {cloud.Answer(http.StatusOK, "application/json", "{"), false},
		"nothing":            {cloud.Answer(http.StatusOK, "application/json", "{}"), false},
		"another volume":     {volumeBody(t, cloudv1.Volume{Object: named("vol-data-2"), Zone: "eu-1a", Region: "eu-1"}), false},
		"no zone":            {volumeBody(t, cloudv1.Volume{Object: named("vol-data-1"), Region: "eu-1"}), false},
		"no region":          {volumeBody(t, cloudv1.Volume{Object: named("vol-data-1"), Zone: "eu-1a"}), false},
		"zone that is empty": {volumeBody(t, cloudv1.Volume{Object: named("vol-data-1"), Zones: []string{"eu-1a", ""}, Region: "eu-1"}), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, lookup.Options{})
			f.cloud.Intercept(tc.answer)
			mustFail := func() {
				t.Helper()
				labels, err := f.GetLabelsForVolume(t.Context(), pv("vol-data-1"))
				if err == nil || errors.Is(err, cloudprovider.DiskNotFound) {
					t.Fatalf("labels %v, error %v; want an error about the cloud", labels, err)
				}
			}
			mustFail()
			mustFail()
			f.expectCalls(t, 1, "two lookups")
			f.cloud.Intercept(nil)
			if _, err := f.Volume(t.Context(), "vol-data-2"); (err != nil) != tc.whole {
				t.Errorf("another volume: %v", err)
			}
			f.pass(2 * time.Minute)
			if _, err := f.GetLabelsForVolume(t.Context(), pv("vol-data-1")); err != nil {
				t.Errorf("later: %v", err)
			}
		})
	}
}

// A cloud that does not respond is called once per interval, not once per volume.
func TestCloudThatIsStopped(t *testing.T) {
	front := httptest.NewServer(http.NotFoundHandler())
	client, err := cloudapi.New(cloudapi.Options{Endpoint: front.URL, Token: cloudapi.StaticToken("t")})
	if err != nil {
		t.Fatal(err)
	}
	front.Close()
	counted := &counter{Cloud: client}
	clock := clocktesting.NewFakeClock(time.Now())
	l := lookup.New(lookup.Options{Cloud: counted, Clock: clock})
	for round := 1; round <= 2; round++ {
		for i := range 50 {
			if _, err := l.Volume(t.Context(), fmt.Sprintf("vol-%d", i)); err == nil ||
				errors.Is(err, cloudprovider.DiskNotFound) {
				t.Fatalf("error %v, want one of the connection", err)
			}
		}
		if got := counted.count(); got != round {
			t.Errorf("%d calls, want %d", got, round)
		}
		clock.SetTime(clock.Now().Add(2 * time.Second))
	}
}

// counter counts calls that do not reach a cloud.
type counter struct {
	lookup.Cloud
	mu    sync.Mutex
	calls int
}

func (c *counter) Volume(ctx context.Context, id string) (*cloudv1.Volume, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	return c.Cloud.Volume(ctx, id)
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// If the cloud accepts connections but never responds, a burst costs one timeout and few connections.
func TestCloudThatHangs(t *testing.T) {
	const timeout, atOnce = 2 * time.Second, 16
	f := start(t, lookup.Options{})
	f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	began := time.Now()
	errs := together(100, func(i int) error {
		_, err := f.Volume(t.Context(), fmt.Sprintf("vol-%d", i))
		return err
	})
	if elapsed := time.Since(began); elapsed > 2*timeout {
		t.Errorf("100 lookups took %s", elapsed)
	}
	if slices.Contains(errs, nil) {
		t.Errorf("a lookup succeeded: %v", errs)
	}
	if calls := f.cloud.Calls(); len(calls) > atOnce {
		t.Errorf("%d calls, want at most %d", len(calls), atOnce)
	}
	f.cloud.Intercept(nil)
	f.pass(2 * time.Second)
	mustVolume(t, f, "vol-data-1")
}

func TestMemoryIsBounded(t *testing.T) {
	f := start(t, lookup.Options{})
	mustVolume(t, f, "vol-data-1")
	f.Fill(4095)
	mustVolume(t, f, "vol-data-1")
	f.expectCalls(t, 1, "there is room for 4096")
	f.Fill(4096)
	mustVolume(t, f, "vol-data-1")
	f.expectCalls(t, 1, "the oldest of 4097 is forgotten")
}

func TestFreshVolume(t *testing.T) {
	f := start(t, lookup.Options{})
	mustVolume(t, f, "vol-data-1")
	f.cloud.Intercept(volumeBody(t, cloudv1.Volume{Object: cloudv1.Object{ID: "vol-data-1"}, AttachedTo: "i-node-1"}))
	got, err := f.FreshVolume(t.Context(), "vol-data-1")
	if err != nil || got.AttachedTo != "i-node-1" {
		t.Errorf("volume %+v, %v; want it attached", got, err)
	}
	f.expectCalls(t, 2, "one of each")
}
