package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

// fixed is a Source that never changes.
type fixed struct{ *issued }

func (f fixed) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.serving, nil }

func (f fixed) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestTrust(t *testing.T) {
	pair := mustIssue(t, now, day, "127.0.0.1", "quaymaster-webhook.quaymaster-system.svc")
	good := mergeBundle(nil, []*x509.Certificate{pair.authority}, always, now)
	byService := func(service string) []runtime.Object {
		return []runtime.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "quaymaster"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "validate.service.quaymaster.dev",
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					Service: &admissionregistrationv1.ServiceReference{Namespace: "quaymaster-system", Name: service}, CABundle: good,
				},
			}},
		}}
	}
	tests := map[string]struct {
		objects   []runtime.Object
		mustExist bool
		want      string
	}{
		"trusted by URL":      {ourConfigurations(good), true, ""},
		"trusted by Service":  {byService("quaymaster-webhook"), false, ""},
		"absent but optional": {nil, false, ""},
		"absent but required": {
			nil, true,
			`mutatingwebhookconfiguration "quaymaster" does not exist`,
		},
		"foreign authority": {
			ourConfigurations(foreignAuthority(t)), true,
			`mutatingwebhookconfiguration "quaymaster": the caBundle of webhook "mutate.service.quaymaster.dev" does not ` +
				`verify the serving certificate: x509:`,
		},
		"no bundle": {
			ourConfigurations(nil), false,
			`mutatingwebhookconfiguration "quaymaster": the caBundle of webhook "mutate.service.quaymaster.dev" does not ` +
				`verify the serving certificate: x509:`,
		},
		"name of another Service": {
			byService("another"), false,
			`validatingwebhookconfiguration "quaymaster": the caBundle of webhook "validate.service.quaymaster.dev" does not ` +
				`verify the serving certificate: x509: certificate is valid for quaymaster-webhook.quaymaster-system.svc, not ` +
				`another.quaymaster-system.svc`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			trust := newTrust(t, newAPI(test.objects...), pair, test.mustExist)
			trust.read(t)
			trust.verify(t.Context())
			err := trust.Check(nil)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("not trusted: %v", err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
				t.Errorf("got  %v\nwant %s…", err, test.want)
			}
		})
	}
}

// trusting is a Trust with its Events and its cluster.
type trusting struct {
	*Trust
	api      *dynamicfake.FakeDynamicClient
	events   *record.FakeRecorder
	registry *prometheus.Registry
}

func newTrust(t *testing.T, api *dynamicfake.FakeDynamicClient, pair *issued, mustExist bool) *trusting {
	t.Helper()
	events, registry := record.NewFakeRecorder(100), prometheus.NewRegistry()
	return &trusting{api: api, events: events, registry: registry, Trust: NewTrust(TrustOptions{
		Source: fixed{pair}, API: api, Configurations: names, MustExist: mustExist,
		Recorder: events, Registerer: registry, Clock: testingclock.NewFakeClock(now),
	})}
}

// read reads the configurations once, instead of watching them.
func (t *trusting) read(test *testing.T) {
	test.Helper()
	for _, object := range t.objects {
		state, err := object.api.Get(test.Context(), object.name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			test.Fatal(err)
		}
		if err != nil {
			state = nil
		}
		t.observe(object, state, nil)
	}
}

// metrics returns the metric of each configuration.
func (t *trusting) metrics(test *testing.T) map[string]float64 {
	test.Helper()
	families, err := t.registry.Gather()
	if err != nil {
		test.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			found[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return found
}

// withoutWatchList makes clients list before they watch, because the fake does not stream lists.
func withoutWatchList(t *testing.T) {
	t.Helper()
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
}

// overwrite replaces the bundles of the validating configuration.
func (t *trusting) overwrite(test *testing.T, bundle []byte) {
	test.Helper()
	put(test, t.api, validatingResource, ourConfigurations(bundle)[1])
}

// drain returns the recorded Events.
func (t *trusting) drain() []string {
	var all []string
	for len(t.events.Events) > 0 {
		all = append(all, <-t.events.Events)
	}
	return all
}

// If a configuration stops trusting the certificate, every replica reports it but stays ready, so that the other webhooks
// can still be called.
func TestTrustIsLostAndRegained(t *testing.T) {
	withoutWatchList(t)
	synctest.Test(t, func(t *testing.T) {
		pair := mustIssue(t, time.Now(), day, "127.0.0.1")
		good := mergeBundle(nil, []*x509.Certificate{pair.authority}, always, time.Now())
		trust := newTrust(t, newAPI(ourConfigurations(good)[:2]...), pair, true) // watches of the fake are not limited to a name
		trust.o.Clock = clock.RealClock{}
		go func() { _ = trust.Start(t.Context()) }()
		expect := func(when string, validating float64, events ...string) {
			t.Helper()
			synctest.Wait()
			if err := trust.Check(nil); err != nil {
				t.Errorf("%s: not ready: %v", when, err)
			}
			want := map[string]float64{"mutating": 1, "validating": validating}
			if diff := cmp.Diff(want, trust.metrics(t)); diff != "" {
				t.Errorf("%s: metric (-want +got):\n%s", when, diff)
			}
			if diff := cmp.Diff(events, trust.drain()); diff != "" {
				t.Errorf("%s: Events (-want +got):\n%s", when, diff)
			}
		}
		const lost = `Warning CertificateNotTrusted API servers cannot call the webhooks: validatingwebhookconfiguration ` +
			`"quaymaster": the caBundle of webhook "validate.service.quaymaster.dev" does not verify the serving ` +
			`certificate: x509: certificate signed by unknown authority`
		const regained = `Normal CertificateTrusted API servers can call the webhooks again`
		time.Sleep(2 * trustEvery)
		expect("at start", 1)
		trust.overwrite(t, foreignAuthority(t))
		expect("overwritten", 0, lost)
		time.Sleep(2 * reverifyEvery)
		expect("a minute later", 0)
		time.Sleep(remindEvery)
		expect("before API servers delete the Event", 0, lost)
		trust.overwrite(t, good)
		expect("repaired", 1, regained)
		if err := trust.api.Tracker().Delete(validatingResource, "", "quaymaster"); err != nil {
			t.Fatal(err)
		}
		expect("deleted", 0) // an Event has no object any more
		time.Sleep(day)
		if got := trust.metrics(t); got["mutating"] != 0 {
			t.Error("an expired certificate is trusted")
		}
		if events := trust.drain(); len(events) == 0 || !strings.HasSuffix(events[0], " only") {
			t.Errorf("Events about an expired certificate: %q", events)
		}
	})
}

// Configurations that need not exist have no metric, and no problem, until they do.
func TestTrustWithoutConfigurations(t *testing.T) {
	trust := newTrust(t, newAPI(), mustIssue(t, now, day, "127.0.0.1"), false)
	trust.read(t)
	trust.verify(t.Context())
	if got := trust.metrics(t); trust.Check(nil) != nil || len(got) != 0 {
		t.Errorf("got %v, %v", trust.Check(nil), got)
	}
}

// Once trusted, a replica stays ready and trusted: a later outage of the API server changes nothing.
func TestTrustSurvivesAnOutage(t *testing.T) {
	pair := mustIssue(t, now, day, "127.0.0.1")
	good := mergeBundle(nil, []*x509.Certificate{pair.authority}, always, now)
	trust := newTrust(t, newAPI(ourConfigurations(good)...), pair, true)
	outage := func() {
		for _, object := range trust.objects {
			trust.observe(object, nil, errors.New("watch: connection refused"))
		}
		trust.verify(t.Context())
	}
	outage()
	if err := trust.Check(nil); err == nil ||
		err.Error() != `read mutatingwebhookconfiguration "quaymaster": watch: connection refused` {
		t.Errorf("got %v", err)
	}
	trust.read(t)
	trust.verify(t.Context())
	outage()
	if err := trust.Check(nil); err != nil {
		t.Errorf("not ready: %v", err)
	}
	want := map[string]float64{"mutating": 1, "validating": 1}
	if diff := cmp.Diff(want, trust.metrics(t)); diff != "" {
		t.Errorf("metric (-want +got):\n%s", diff)
	}
}
