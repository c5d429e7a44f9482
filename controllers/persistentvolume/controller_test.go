package persistentvolume_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/persistentvolume"
	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/internal/rules/volume"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

const (
	zone   = "topology.kubernetes.io/zone"
	region = "topology.kubernetes.io/region"
	// limit bounds how long a test waits for what should happen immediately.
	limit = 10 * time.Second
)

// fixture is a Controller between a cluster and the reference cloud.
type fixture struct {
	t      *testing.T
	cloud  *cloud.Cloud
	client *fake.Clientset
	events *record.FakeRecorder
	clock  *clocktesting.FakeClock
}

// start runs a Controller until the test ends. change may replace the cloud or add reactions of the API server.
func start(t *testing.T, volumes []*corev1.PersistentVolume, change func(*fixture, *persistentvolume.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, cloud: cloud.Start(t, 0), events: record.NewFakeRecorder(100)}
	f.clock = clocktesting.NewFakeClock(time.Now())
	var objects []runtime.Object
	for _, v := range volumes {
		objects = append(objects, v)
	}
	f.client = fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(f.client, 0)
	o := persistentvolume.Options{
		PersistentVolumes: factory.Core().V1().PersistentVolumes(), Client: f.client.CoreV1(),
		Labeler: lookup.New(lookup.Options{Cloud: f.cloud.Client, Clock: f.clock}), Recorder: f.events, Clock: f.clock,
	}
	if change != nil {
		change(f, &o)
	}
	c, err := persistentvolume.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	return f
}

// pv returns a PersistentVolume of the cloud without any zone.
func pv(name, handle string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: volume.Driver, VolumeHandle: handle},
		}},
	}
	for _, c := range change {
		c(v)
	}
	return v
}

func labeled(pairs ...string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		for i := 0; i < len(pairs); i += 2 {
			metav1.SetMetaDataLabel(&v.ObjectMeta, pairs[i], pairs[i+1])
		}
	}
}

func provisioned(v *corev1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, "pv.kubernetes.io/provisioned-by", volume.Driver)
}

// affine adds a node affinity without zones.
func affine(v *corev1.PersistentVolume) {
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpExists}}},
	}}}
}

// patches returns the patches by the names of the PersistentVolumes.
func (f *fixture) patches() map[string][]string {
	written := map[string][]string{}
	for _, action := range f.client.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			written[patch.GetName()] = append(written[patch.GetName()], string(patch.GetPatch()))
		}
	}
	return written
}

// eventually waits for a condition. Between checks, the controller's clock advances in steps.
func (f *fixture) eventually(what string, step time.Duration, check func() error) {
	f.t.Helper()
	env.Eventually(f.t, limit, what, func(context.Context) error {
		err := check()
		if err != nil {
			f.clock.Step(step)
		}
		return err
	})
}

func (f *fixture) expectWrites(want int) error {
	if got := len(f.patches()); got != want {
		return fmt.Errorf("%d written, want %d", got, want)
	}
	return nil
}

func TestCompletes(t *testing.T) {
	const (
		labels   = `"labels":{"` + region + `":"eu-1","` + zone + `":"eu-1a"}`
		affinity = `"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[` +
			`{"key":"` + region + `","operator":"In","values":["eu-1"]},{"key":"` + zone + `","operator":"In","values":["eu-1a"]}]}]}}}`
	)
	metadata := func(name, labels string) string {
		return `{"metadata":{` + labels + `"resourceVersion":"7","uid":"uid-` + name + `"}`
	}
	f := start(t, []*corev1.PersistentVolume{
		pv("bare", "vol-data-1"),
		pv("affine", "vol-data-1", affine),
		pv("labeled", "vol-data-1", labeled(zone, "eu-1a", region, "eu-1")),
		pv("provisioned", "vol-none", provisioned, labeled(zone, "eu-1a", region, "eu-1")),
		pv("complete", "vol-none", labeled(zone, "elsewhere", region, "eu-1"), affine),
		pv("wrong", "vol-data-1", labeled(zone, "eu-1b"), affine),
		pv("foreign", "vol-data-1", func(v *corev1.PersistentVolume) { v.Spec.CSI.Driver = "csi.example.com" }),
		pv("leaving", "vol-data-1", func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{Time: time.Now()} }),
	}, nil)
	want := map[string][]string{
		"bare":        {metadata("bare", labels+",") + "," + affinity + "}"},
		"affine":      {metadata("affine", labels+",") + "}"},
		"labeled":     {metadata("labeled", "") + "," + affinity + "}"},
		"provisioned": {metadata("provisioned", "") + "," + affinity + "}"},
		"wrong":       {metadata("wrong", labels+",") + "}"},
	}
	f.eventually("writes", 0, func() error { return f.expectWrites(len(want)) })
	if diff := cmp.Diff(want, f.patches()); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	f.expectEvent(`ZoneLabelOverwritten metadata.labels[topology.kubernetes.io/zone]: must match the cloud; the value was replaced by "eu-1a"`)
	if calls := f.cloud.Calls(); len(calls) != 1 {
		t.Errorf("calls %v, want 1 for the volume that all have", calls)
	}
	// A later update of a complete PersistentVolume causes neither a call nor a write.
	f.update("bare", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeAvailable })
	f.update("affine", labeled("team", "a"))
	f.create(pv("next", "vol-data-2"))
	f.eventually("the next write", 0, func() error { return f.expectWrites(len(want) + 1) })
	if calls := f.cloud.Calls(); len(calls) != 1 {
		t.Errorf("calls %v, want 1", calls)
	}
}

func (f *fixture) expectEvent(text string) {
	f.t.Helper()
	select {
	case event := <-f.events.Events:
		if !strings.Contains(event, text) {
			f.t.Errorf("event %q, want %q", event, text)
		}
	case <-time.After(limit):
		f.t.Errorf("no event with %q", text)
	}
}

func (f *fixture) create(v *corev1.PersistentVolume) {
	f.t.Helper()
	if _, err := f.client.CoreV1().PersistentVolumes().Create(f.t.Context(), v, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) update(name string, change func(*corev1.PersistentVolume)) {
	f.t.Helper()
	volumes := f.client.CoreV1().PersistentVolumes()
	v, err := volumes.Get(f.t.Context(), name, metav1.GetOptions{})
	if err == nil {
		change(v)
		_, err = volumes.Update(f.t.Context(), v, metav1.UpdateOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// asked waits until the cloud has been called.
func (f *fixture) asked(what string, step time.Duration) {
	f.t.Helper()
	f.eventually(what, step, func() error {
		if len(f.cloud.Calls()) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

// After an outage of any length, everything is complete within half a minute of the cloud's return.
func TestOutage(t *testing.T) {
	outage := func(w http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		return true
	}
	f := start(t, []*corev1.PersistentVolume{pv("data", "vol-data-1")}, func(f *fixture, _ *persistentvolume.Options) {
		f.cloud.Intercept(outage)
	})
	f.asked("the first try", 0)
	// More failures would open the client's circuit, which rests in real time.
	for i := range 3 {
		f.asked(fmt.Sprintf("try %d", i+2), time.Second)
	}
	f.cloud.Intercept(nil)
	back := f.clock.Now()
	f.eventually("a write", time.Second, func() error { return f.expectWrites(1) })
	if after := f.clock.Since(back); after > 30*time.Second {
		t.Errorf("completed %s after the cloud's return", after)
	}
	if len(f.events.Events) != 0 {
		t.Errorf("event %s: an outage is not about the volume", <-f.events.Events)
	}
}

// A volume that does not exist is reported once and looked up rarely until it exists.
func TestVolumeThatDoesNotExist(t *testing.T) {
	f := start(t, []*corev1.PersistentVolume{pv("data", "vol-none")}, nil)
	f.expectEvent(`Warning VolumeNotFound spec.csi.volumeHandle: Not found: "vol-none": must be the id of an existing volume of the cloud; ` +
		`create the volume first, or correct the id`)
	f.asked("the first try", 0)
	// An irrelevant change does not shorten the delay.
	f.update("data", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeAvailable })
	f.create(pv("other", "vol-data-1"))
	f.eventually("the write of another", 0, func() error { return f.expectWrites(1) })
	if calls := f.cloud.Calls(); len(calls) != 1 {
		t.Errorf("calls %v, want that of the other volume", calls)
	}
	tried := f.clock.Now()
	f.asked("another look", 30*time.Second)
	if after := f.clock.Since(tried); after < 5*time.Minute {
		t.Errorf("asked again after %s", after)
	}
	if len(f.events.Events) != 0 {
		t.Errorf("another event: %s", <-f.events.Events)
	}
	f.cloud.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		return json.NewEncoder(w).Encode(cloudv1.Volume{Object: cloudv1.Object{ID: "vol-none"}, Zone: "eu-1a", Region: "eu-1"}) == nil
	})
	f.eventually("a write", 30*time.Second, func() error { return f.expectWrites(2) })
}

// A label that only the owner can correct is reported once and not retried before it changes.
func TestInvalidLabel(t *testing.T) {
	f := start(t, []*corev1.PersistentVolume{pv("data", "vol-data-1", provisioned, labeled(zone, "eu-1a__", region, "eu-1"))}, nil)
	f.expectEvent(`Warning InvalidZoneLabel metadata.labels[topology.kubernetes.io/zone]: Invalid value: "eu-1a__": must be non-empty zone names joined by "__"`)
	f.update("data", labeled(zone, "eu-1a"))
	f.eventually("a write", 0, func() error { return f.expectWrites(1) })
	if calls := f.cloud.Calls(); len(calls) != 0 {
		t.Errorf("calls %v: a provisioner's labels need none", calls)
	}
}

// Invalid labels from the cloud are requested again.
func TestNonsenseOfTheCloud(t *testing.T) {
	answers := make(chan map[string]string, 2)
	answers <- map[string]string{zone: "__"}
	answers <- map[string]string{zone: "eu-1a", region: "eu-1"}
	f := start(t, []*corev1.PersistentVolume{pv("data", "vol-data-1")}, func(_ *fixture, o *persistentvolume.Options) {
		o.Labeler = labeler(func(context.Context, *corev1.PersistentVolume) (map[string]string, error) { return <-answers, nil })
	})
	f.eventually("a write", time.Second, func() error { return f.expectWrites(1) })
	if len(f.events.Events) != 0 {
		t.Errorf("event %s", <-f.events.Events)
	}
}

// labeler replaces the cloud.
type labeler func(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error)

func (l labeler) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	return l(ctx, pv)
}

var _ cloudprovider.PVLabeler = labeler(nil)

// A write that conflicts with another writer is repeated from the current object.
func TestConflict(t *testing.T) {
	var once sync.Once
	f := start(t, []*corev1.PersistentVolume{pv("data", "vol-data-1")}, func(f *fixture, _ *persistentvolume.Options) {
		f.client.PrependReactor("patch", "persistentvolumes", func(clienttesting.Action) (handled bool, _ runtime.Object, err error) {
			once.Do(func() {
				handled, err = true, apierrors.NewConflict(schema.GroupResource{Resource: "persistentvolumes"}, "data", errors.New("changed"))
			})
			return handled, nil, err
		})
	})
	f.eventually("a second write", time.Second, func() error {
		if got := len(f.patches()["data"]); got != 2 {
			return fmt.Errorf("%d writes", got)
		}
		return nil
	})
}

// However many PersistentVolumes appear together, only a few calls run at the same time, one per PersistentVolume.
func TestBurst(t *testing.T) {
	const many, most = 200, 4
	var volumes []*corev1.PersistentVolume
	for i := range many {
		volumes = append(volumes, pv(fmt.Sprintf("data-%d", i), fmt.Sprintf("vol-%d", i)))
	}
	var mu sync.Mutex
	running, highest, calls := 0, 0, 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		running += by
		highest = max(highest, running)
		calls += max(by, 0)
	}
	f := start(t, volumes, func(_ *fixture, o *persistentvolume.Options) {
		o.Labeler = labeler(func(context.Context, *corev1.PersistentVolume) (map[string]string, error) {
			count(1)
			defer count(-1)
			return map[string]string{zone: "eu-1a", region: "eu-1"}, nil
		})
	})
	f.eventually("writes", 0, func() error { return f.expectWrites(many) })
	mu.Lock()
	defer mu.Unlock()
	if highest > most || calls != many {
		t.Errorf("%d calls, up to %d at once; want %d, at most %d", calls, highest, many, most)
	}
}
