package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
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
	good := mergeBundle(nil, []*x509.Certificate{pair.authority}, now)
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
			`get mutatingwebhookconfiguration "quaymaster": mutatingwebhookconfigurations.admissionregistration.k8s.io ` +
				`"quaymaster" not found`,
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
			trust := NewTrust(TrustOptions{
				Source: fixed{pair}, API: fake.NewClientset(test.objects...).AdmissionregistrationV1(),
				Configurations: names, MustExist: test.mustExist, Clock: testingclock.NewFakeClock(now),
			})
			err := trust.verify(t.Context())
			switch {
			case test.want == "" && err != nil:
				t.Errorf("not trusted: %v", err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
				t.Errorf("got  %v\nwant %s…", err, test.want)
			}
		})
	}
}

// waitingClock signals when After is called.
type waitingClock struct {
	*testingclock.FakeClock
	waiting chan struct{}
}

func (c waitingClock) After(d time.Duration) <-chan time.Time {
	after := c.FakeClock.After(d)
	c.waiting <- struct{}{}
	return after
}

// Once trusted, a replica stays ready: a later outage of the API server must not make it unready.
func TestTrustIsCheckedOnce(t *testing.T) {
	pair := mustIssue(t, now, day, "127.0.0.1")
	api := fake.NewClientset(ourConfigurations(mergeBundle(nil, []*x509.Certificate{pair.authority}, now))...)
	clock := waitingClock{testingclock.NewFakeClock(now), make(chan struct{})}
	failing := true
	api.PrependReactor("get", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
		if failing {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	trust := NewTrust(
		TrustOptions{Source: fixed{pair}, API: api.AdmissionregistrationV1(), Configurations: names, Clock: clock},
	)
	if err := trust.Check(nil); err == nil {
		t.Error("ready before the first check")
	}
	done := make(chan error)
	go func() { done <- trust.Start(t.Context()) }()
	<-clock.waiting
	if err := trust.Check(nil); err == nil ||
		err.Error() != `get mutatingwebhookconfiguration "quaymaster": connection refused` {
		t.Errorf("got %v", err)
	}
	failing = false
	clock.Step(trustEvery)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := trust.Check(nil); err != nil {
		t.Errorf("not ready: %v", err)
	}
}
