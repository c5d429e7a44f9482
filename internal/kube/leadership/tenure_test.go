package leadership_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/leadership"
)

type responder func(*http.Request) (*http.Response, error)

func (f responder) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTenure(t *testing.T) { synctest.Test(t, testTenure) }

func testTenure(t *testing.T) {
	tenure := leadership.NewTenure(15*time.Second, clock.RealClock{})
	guard := tenure.Guard(responder(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	send := func(method, url string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := guard.RoundTrip(r)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	renew := func(result error, latency time.Duration) {
		if err := tenure.Renew(1, false, func() error { time.Sleep(latency); return result }); !errors.Is(err, result) {
			t.Errorf("renewed with %v, want %v", err, result)
		}
	}
	conflict, refused := errors.New("conflict"), errors.New("connection refused")
	pass := time.Sleep // in the bubble's time
	for _, step := range []struct {
		name    string
		do      func()
		allowed bool
	}{
		{"before acquiring the lease", func() {}, false},
		{"while another holds the lease", func() { renew(conflict, 0) }, false},
		{"holding the lease", func() { renew(nil, 0) }, true},
		{"until the lease expires", func() { pass(15*time.Second - 1) }, true},
		{"after the lease expires", func() { pass(1) }, false},
		{"after a slow response", func() { renew(nil, 15*time.Second) }, false},
		{"after acquiring it again", func() { renew(nil, 0) }, true},
		{"after failed renewals", func() { pass(14 * time.Second); renew(refused, 0); pass(time.Second) }, false},
	} {
		step.do()
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if err := send(method, "https://cloud/v1/load-balancers"); (err == nil) != step.allowed {
				t.Errorf("%s: %s: %v", step.name, method, err)
			}
		}
		if err := send(http.MethodGet, "https://cloud/v1/load-balancers"); err != nil {
			t.Errorf("%s: a read: %v", step.name, err)
		}
	}
}

func TestNoTenure(t *testing.T) {
	var none *leadership.Tenure
	if next := http.DefaultTransport; none.Guard(next) != next {
		t.Error("a nil Tenure changes the transport")
	}
	if none.End(errors.New("fenced")); none.Fence("uid") != "" {
		t.Errorf("a nil Tenure has fence %q", none.Fence("uid"))
	}
}
