package dlb_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
)

func TestMoreThanOneMatchIsAnError(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	lb := f.only()
	spec := cloudv1.LoadBalancerSpec{Name: "copy", Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	spec.VIPs = nil
	if _, _, err := f.cloud.Client.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.forget(svc)
	f.cloud.Calls()
	_, ensureErr := f.ensure(svc)
	deleteErr := f.remove(svc)
	for what, err := range map[string]error{"ensure": ensureErr, "delete": deleteErr} {
		if err == nil || !strings.Contains(err.Error(), "all have the tags of this service") ||
			!strings.Contains(err.Error(), lb.ID) {
			t.Errorf("%s: error %v, want one that names both", what, err)
		}
	}
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) != 0 {
		t.Errorf("writes %v, want none", writes)
	}
}

// The controllers crash after the cloud has created the load balancer and before they get the response. Whatever they
// see after the restart, there is one load balancer.
func TestCrashAfterCreate(t *testing.T) {
	for name, lagging := range map[string]bool{"the list shows it": false, "the list lags behind": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				f.cloud.Serve(discard{http.Header{}}, r)
				panic(http.ErrAbortHandler)
			})
			if _, err := f.ensure(svc); err == nil {
				t.Fatal("no error though the answer was lost")
			}
			id := f.onlyWithoutIntercept()
			f.cloud.Intercept(nil)
			if lagging {
				f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodGet || r.URL.Path != "/v1/load-balancers" {
						return false
					}
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(`{"items":[],"revision":"1","complete":true}`))
					return true
				})
				// The Service has changed in the meantime, so the same key has another body.
				builder.DLB("listener-maxqps", "9")(svc)
			}
			f.restart()
			f.mustEnsure(svc)
			f.cloud.Intercept(nil)
			if lb := f.only(); lb.ID != id {
				t.Errorf("load balancer %s, want %s", lb.ID, id)
			} else if lagging && lb.Listeners[0].MaxQPS != 9 {
				t.Errorf("max_qps %d, want 9", lb.Listeners[0].MaxQPS)
			}
		})
	}
}

func (f *fixture) onlyWithoutIntercept() string {
	f.t.Helper()
	f.cloud.Intercept(nil)
	return f.only().ID
}

// discard is a ResponseWriter that discards the response.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// Another client writes between our read and our write.
func TestStaleRevision(t *testing.T) {
	for name, tc := range map[string]struct {
		races int
		ok    bool
	}{"once": {1, true}, "again": {2, false}} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.mustEnsure(svc)
			lb := f.only()
			races := 0
			f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut && races < tc.races {
					races++
					now, err := f.cloud.Client.LoadBalancer(t.Context(), lb.ID)
					if err == nil {
						name := fmt.Sprintf("renamed-%d", races)
						_, _, err = f.cloud.Client.PatchLoadBalancer(t.Context(), lb.ID, cloudv1.LoadBalancerPatch{Name: &name},
							cloudapi.WriteOptions{IfMatch: now.Revision})
					}
					if err != nil {
						t.Error(err)
					}
				}
				return false
			})
			builder.DLB("listener-maxqps", "9")(svc)
			_, err := f.ensure(svc)
			if tc.ok != (err == nil) {
				t.Fatalf("error %v, want success: %t", err, tc.ok)
			}
			if !tc.ok && !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
				t.Errorf("error %v, want %s", err, cloudv1.CodeStaleRevision)
			}
			if got := f.only(); tc.ok && (got.Name != "dev-shop-web" || got.Listeners[0].MaxQPS != 9) {
				t.Errorf("load balancer %s with max_qps %d, want dev-shop-web with 9", got.Name, got.Listeners[0].MaxQPS)
			}
		})
	}
}

// Another owner takes the load balancer while we read it again after a race: we must not change it any more.
func TestTakenBetweenReadAndWrite(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	lb := f.only()
	renamed, theirs := "renamed", "other-service"
	races := []cloudv1.LoadBalancerPatch{{Name: &renamed}, {Tags: map[string]*string{ownership.ServiceUID: &theirs}}}
	f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		again := len(races) == 1 && r.Method == http.MethodGet
		if len(races) == 2 && r.Method == http.MethodPut || again {
			patch := races[0]
			races = races[1:]
			now, _, err := f.cloud.Client.PatchLoadBalancer(
				t.Context(), lb.ID, patch, cloudapi.WriteOptions{IfMatch: lb.Revision},
			)
			if err != nil {
				t.Error(err)
				return false
			}
			lb = *now
		}
		return false
	})
	builder.DLB("listener-maxqps", "9")(svc)
	if _, err := f.ensure(svc); !cloudapi.HasCode(err, cloudv1.CodeTagsMismatch) {
		t.Errorf("error %v, want %s", err, cloudv1.CodeTagsMismatch)
	}
	if now := f.only(); now.Revision != lb.Revision || now.Tags[ownership.ServiceUID] != theirs {
		t.Errorf("load balancer %+v, want it as its new owner left it", now)
	}
}

// The cloud fails to provide a load balancer: the Service's condition has the reason, and the same is written again,
// less and less often.
func TestProvisioningFails(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	lb := f.only()
	lb.ProvisioningState, lb.Revision = cloudv1.ProvisioningError, lb.Revision+"0"
	lb.Fault = &cloudv1.Problem{Code: cloudv1.CodeCapacity, Detail: "no room in eu-1a"}
	f.options.Mirror.LoadBalancers.Put(t.Context(), &lb)
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(lb); err != nil {
			t.Error(err)
		}
		return true
	})
	for _, step := range []struct {
		after int
		calls []string
	}{
		{0, []string{"PUT load-balancers/{id}"}},
		{29, nil},
		{1, []string{"PUT load-balancers/{id}"}},
		{59, nil},
		{1, []string{"PUT load-balancers/{id}"}},
	} {
		f.pass(step.after)
		f.cloud.Calls()
		const text = "capacity: no room in eu-1a"
		if _, err := f.ensureStored(f.put(svc)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
		f.expectCalls(fmt.Sprintf("after %d seconds", step.after), step.calls...)
		f.expectCondition(svc, metav1.ConditionFalse, "RefusedByCloud", text)
	}
}

// The cloud itself rejects writes to objects without our tags.
func TestWritesNameTheOwner(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut || r.Method == http.MethodDelete {
			want := ownership.ClusterUID + "=" + clusterUID + "," + ownership.ServiceUID + "=" + string(svc.UID)
			if got := r.Header.Get("Mycloud-If-Tags"); got != want || r.Header.Get("If-Match") == "" {
				t.Errorf(
					"%s with Mycloud-If-Tags %q, If-Match %q; want %q and a revision", r.Method, got, r.Header.Get("If-Match"), want,
				)
			}
		}
		return false
	})
	builder.DLB("listener-maxqps", "9")(svc)
	f.mustEnsure(svc)
	if err := f.removeStored(svc); err != nil {
		t.Fatal(err)
	}
}

func TestCloudErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		answer           func(http.ResponseWriter)
		refused, failing string
		retry            time.Duration
	}{
		"quota": {
			answer:  func(w http.ResponseWriter) { cloud.Problem(w, 403, cloudv1.CodeQuotaExceeded) },
			refused: "the cloud rejected the request: quota-exceeded",
			retry:   time.Minute,
		},
		"no capacity": {
			answer:  func(w http.ResponseWriter) { cloud.Problem(w, 503, cloudv1.CodeCapacity) },
			refused: "the cloud has no room for the load balancer: capacity",
			retry:   time.Minute,
		},
		"locked": {
			answer:  func(w http.ResponseWriter) { cloud.Problem(w, 409, cloudv1.CodeLocked) },
			refused: "the load balancer is locked in the cloud: locked",
			retry:   time.Minute,
		},
		"wrong token": {
			answer:  func(w http.ResponseWriter) { cloud.Problem(w, 401, cloudv1.CodeUnauthenticated) },
			failing: "the cloud does not accept the token of the controllers; will retry",
		},
		"invalid": {
			answer:  func(w http.ResponseWriter) { cloud.Problem(w, 422, cloudv1.CodeInvalid) },
			refused: "the cloud rejected the request: invalid",
			retry:   time.Minute,
		},
		"wants patience": {
			answer: func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "17")
				cloud.Problem(w, 429, cloudv1.CodeRateLimited)
			},
			retry: 17 * time.Second, failing: "the cloud failed to respond: 429 rate-limited; will retry",
		},
		"trouble": {
			answer:  func(w http.ResponseWriter) { cloud.Problem(w, 500, cloudv1.CodeInternal) },
			failing: "the cloud failed to respond: 500 internal; will retry",
		},
		"a proxy's page": {answer: func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
		}, failing: "a response with status 404 is not of its API; will retry"},
		"a connection that breaks": {
			answer:  func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
			failing: "the last attempt failed: EOF; will retry",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					tc.answer(w)
				}
				return r.Method == http.MethodPost
			})
			_, err := f.ensure(svc)
			if err == nil {
				t.Fatal("no error")
			}
			if later, ok := errors.AsType[*laterError](err); ok != (tc.retry > 0) || ok && later.after != tc.retry {
				t.Errorf("error %v: retry %v, want after %s", err, later, tc.retry)
			}
			if tc.refused != "" {
				f.expectCondition(svc, metav1.ConditionFalse, "RefusedByCloud", tc.refused)
			} else {
				f.expectCondition(svc, metav1.ConditionUnknown, "SyncFailing", tc.failing)
			}
		})
	}
}

// What the cloud has rejected is sent again only when the Service changes, or after pauses that grow with every answer
// and with the number of such Services, whatever makes the controllers process the Service.
func TestRejectedOnce(t *testing.T) {
	f := start(t, 0)
	rejected := 0
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && rejected >= 0 {
			rejected++
			cloud.Problem(w, 403, cloudv1.CodeQuotaExceeded)
			return true
		}
		return false
	})
	svc := f.put(builder.Service())
	try := func(seconds, want int) {
		t.Helper()
		f.pass(seconds)
		state, err := f.Ensure(t.Context(), svc)
		if err == nil || state.RetryAfter <= 0 || rejected != want {
			t.Fatalf("%d requests, want %d; %v, again after %s", rejected, want, err, state.RetryAfter)
		}
	}
	try(0, 1)
	try(59, 1)
	try(1, 2)
	try(119, 2)
	try(1, 3)
	builder.DLB("listener-maxqps", "9")(svc)
	try(1, 4)
	svc.Annotations["example.com/team"] = "shop"
	try(59, 4)
	try(1, 5)
	for hour := 0; hour < 3600; hour += 10 {
		f.pass(10)
		if _, err := f.Ensure(t.Context(), svc); err == nil {
			t.Fatal("no error")
		}
	}
	if rejected > 5+9 {
		t.Errorf("%d requests within an hour", rejected-5)
	}
	for i := range 500 {
		other := named(fmt.Sprintf("s%d", i))
		if i >= 200 {
			other.Namespace = "crowd" // they do not make this one wait
		}
		if _, err := f.Ensure(t.Context(), f.put(other)); err == nil {
			t.Fatal("no error")
		}
	}
	f.pass(600)
	state, err := f.Ensure(t.Context(), svc)
	if err == nil || state.RetryAfter != 201*6*time.Second {
		t.Errorf("with 201 such services of its namespace, again after %s: %v", state.RetryAfter, err)
	}
	rejected = -1
	f.pass(201 * 6)
	f.mustEnsure(svc)
}
