package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/leadership"
)

// stored returns the API server's response to a write of the lease.
func stored(t *testing.T, mediaType, holder string, transitions int32) *http.Response {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatalf("no codec of %s", mediaType)
	}
	lease := &coordinationv1.Lease{
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
	}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, coordinationv1.SchemeGroupVersion)
	data, err := runtime.Encode(encoder, lease)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(data))}
}

// leader is a Tenure with the transport that it guards.
type leader struct {
	*leadership.Tenure
	guard http.RoundTripper
	// lease is the response to a write of the lease; other writes hang until they are canceled if hang is true.
	lease func() *http.Response
	hang  bool
}

func newLeader() *leader {
	l := &leader{Tenure: leadership.NewTenure(15*time.Second, clock.RealClock{})}
	l.guard = l.Guard(responder(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/leases/") {
			return l.lease(), nil
		}
		if l.hang {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	return l
}

func (l *leader) send(t *testing.T, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := l.guard.RoundTrip(r)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(response.Body)
	return string(data), errors.Join(err, response.Body.Close())
}

const balancers = "https://cloud/v1/load-balancers"

// The epoch is that of the stored lease, whatever its encoding, and the leader election still gets the whole response.
func TestEpoch(t *testing.T) {
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(mediaType, func(t *testing.T) {
			l := newLeader()
			if got := l.Fence("uid"); got != "" {
				t.Errorf("fence %q before the first lease", got)
			}
			for _, epoch := range []string{"0", "7"} {
				transitions := int32(epoch[0] - '0')
				l.lease = func() *http.Response { return stored(t, mediaType, "me", transitions) }
				want, _ := io.ReadAll(l.lease().Body)
				body, err := l.send(t, lease)
				if err != nil || body != string(want) {
					t.Errorf("the response about the lease is %q, %v; want %q", body, err, want)
				}
				if got := l.Fence("uid"); got != "uid;epoch="+epoch {
					t.Errorf("fence %q, want epoch %s", got, epoch)
				}
			}
		})
	}
}

func TestReleasedLeaseEndsTheTenure(t *testing.T) {
	l := newLeader()
	for _, step := range []struct {
		holder  string
		allowed bool
	}{{"me", true}, {"", false}, {"me", true}} {
		l.lease = func() *http.Response { return stored(t, runtime.ContentTypeJSON, step.holder, 1) }
		if _, err := l.send(t, lease); err != nil {
			t.Fatal(err)
		}
		if _, err := l.send(t, balancers); (err == nil) != step.allowed {
			t.Errorf("a write while the holder is %q: %v", step.holder, err)
		}
	}
}

// A leader that the cloud has fenced writes no more, and gives up its lease by not renewing it.
func TestEnd(t *testing.T) {
	l := newLeader()
	l.lease = func() *http.Response { return stored(t, runtime.ContentTypeJSON, "me", 1) }
	if _, err := l.send(t, lease); err != nil {
		t.Fatal(err)
	}
	fenced := errors.New("412 fenced")
	l.End(fenced)
	for _, url := range []string{balancers, lease} {
		_, err := l.send(t, url)
		if !errors.Is(err, context.Canceled) || errors.Is(err, fenced) || !strings.Contains(err.Error(), fenced.Error()) {
			t.Errorf("%s: %v, want a cancellation because of %q", url, err, fenced)
		}
	}
}

// Writes in flight are canceled when the lease expires, not before, and when the cloud fences the leader.
func TestWritesInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*leader)
		want time.Duration
	}{
		"expired": {func(*leader) {}, 15 * time.Second},
		"renewed": {func(l *leader) { time.Sleep(10 * time.Second); _, _ = l.send(t, lease) }, 25 * time.Second},
		"fenced":  {func(l *leader) { time.Sleep(time.Second); l.End(errors.New("fenced")) }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeader()
				l.lease = func() *http.Response { return stored(t, runtime.ContentTypeJSON, "me", 1) }
				if _, err := l.send(t, lease); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				l.hang = true
				go test.end(l)
				_, err := l.send(t, balancers)
				if took := time.Since(start); err == nil || took != test.want {
					t.Errorf("canceled after %s with %v, want %s", took, err, test.want)
				}
				if name != "fenced" && !errors.Is(err, context.Canceled) {
					t.Errorf("%v is no cancellation", err)
				}
			})
		})
	}
}
