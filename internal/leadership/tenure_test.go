package leadership_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"quaymaster.dev/internal/leadership"
)

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const lease = "https://api/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager"

func TestTenure(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	status, slow := http.StatusOK, time.Duration(0)
	guard := leadership.NewTenure(15*time.Second, clock).Guard(answers(func(*http.Request) (*http.Response, error) {
		clock.SetTime(clock.Now().Add(slow))
		if status == 0 {
			return nil, errors.New("connection refused")
		}
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
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
	renew := func(answer int, took time.Duration) {
		status, slow = answer, took
		_ = send(http.MethodPut, lease) // its own outcome is not what matters
		status, slow = http.StatusOK, 0
	}
	pass := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	for _, step := range []struct {
		name string
		do   func()
		may  bool
	}{
		{"before it has the lease", func() {}, false},
		{"while another has it", func() { renew(http.StatusConflict, 0) }, false},
		{"with the lease", func() { renew(http.StatusOK, 0) }, true},
		{"as long as it lasts", func() { pass(15*time.Second - 1) }, true},
		{"when it has run out", func() { pass(1) }, false},
		{"when the answer was long on its way", func() { renew(http.StatusOK, 15*time.Second) }, false},
		{"when it was got again", func() { renew(http.StatusCreated, 0) }, true},
		{"when renewals fail", func() { pass(14 * time.Second); renew(0, 0); pass(time.Second) }, false},
	} {
		step.do()
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if err := send(method, "https://cloud/v1/load-balancers"); (err == nil) != step.may {
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
		t.Error("a process without a lease is held back")
	}
}
