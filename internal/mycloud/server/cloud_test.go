package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/inventory"
	cloudtest "quaymaster.dev/test/harness/cloud"
)

const (
	token = "sesame"
	// edgeToken is the token that edges share, and readerToken that of the edge "reader", which tests do not register.
	edgeToken   = "open-edge"
	readerToken = "read-edge"
)

// cloud is a server under test. Every exchange with it is checked against the OpenAPI document.
type cloud struct {
	t      *testing.T
	dir    string
	url    string
	http   *http.Client
	client *cloudapi.Client
	// registration has the token that edges share.
	registration *cloudapi.Client
	// names are those of edges by id.
	names  map[string]string
	check  *conformance
	server *server.Server
	stop   func()
}

type setting func(*server.Options)

func withClock(c clock.Clock) setting { return func(o *server.Options) { o.Clock = c } }

func withJobs(d time.Duration) setting { return func(o *server.Options) { o.JobDuration = d } }

func withDir(dir string) setting { return func(o *server.Options) { o.DataDir = dir } }

func withInventory(inv *inventory.Inventory) setting {
	return func(o *server.Options) { o.Inventory = inv }
}

func exampleInventory(t *testing.T) *inventory.Inventory {
	t.Helper()
	inv, err := inventory.Load(filepath.Join("..", "..", "..", "examples", "inventory.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func newCloud(t *testing.T, settings ...setting) *cloud {
	t.Helper()
	o := server.Options{
		DataDir: t.TempDir(), Inventory: exampleInventory(t), Token: token, EdgeToken: edgeToken,
		EdgeTokens:     map[string]string{"reader": readerToken},
		MemberNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
	}
	for _, s := range settings {
		s(&o)
	}
	server, err := cloudtest.OpenServer(t, o)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(server.Handler())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { server.Run(ctx) })
	c := &cloud{t: t, dir: o.DataDir, url: ts.URL, check: newConformance(t), server: server, names: map[string]string{}}
	c.http = &http.Client{Transport: c.check}
	c.client, c.registration = c.with(token), c.with(edgeToken)
	c.stop = sync.OnceFunc(func() {
		ts.Close()
		cancel()
		wg.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(c.stop)
	return c
}

// with returns a client with a token.
func (c *cloud) with(secret string) *cloudapi.Client {
	c.t.Helper()
	return must[*cloudapi.Client](c.t)(cloudapi.New(cloudapi.Options{
		Endpoint: c.url, Token: cloudapi.StaticToken(secret),
		Wrap: func(http.RoundTripper) http.RoundTripper { return c.check },
	}))
}

// ownToken returns the own token of an edge.
func ownToken(name string) string { return "the-own-token-of-the-edge-" + name }

// answer is a response with its whole body.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	problem cloudv1.Problem
}

// send sends a request; headers are pairs of name and value.
func (c *cloud) send(method, path string, body any, headers ...string) answer {
	c.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = bytes.NewReader([]byte(b))
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			c.t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, reader)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		c.t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") == "application/problem+json" && len(a.body) > 0 {
		if err := json.Unmarshal(a.body, &a.problem); err != nil {
			c.t.Fatal(err)
		}
	}
	return a
}

// want fails the test unless the response has the status and, for a problem, the code.
func (a answer) want(t *testing.T, status int, code string) answer {
	t.Helper()
	if a.status != status || a.problem.Code != code {
		t.Fatalf("answered %d %q, want %d %q: %s", a.status, a.problem.Code, status, code, a.body)
	}
	return a
}

// pointers returns the pointers to the invalid fields.
func (a answer) pointers() []string {
	var all []string
	for _, e := range a.problem.Errors {
		all = append(all, e.Pointer)
	}
	return all
}

func decode[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return v
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// tree returns a valid load balancer.
func tree(name string) cloudv1.LoadBalancerSpec {
	return cloudv1.LoadBalancerSpec{
		Name: name, Tags: map[string]string{"quaymaster.dev/cluster-uid": "c1"},
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: "public",
			VIPs:   []cloudv1.VIP{{Family: "ipv4", Mode: "vip"}},
			Listeners: []cloudv1.Listener{{
				Key: "tcp/80", Protocol: "http", Port: 80, PoolKey: "tcp/80", MaxQPS: 5000, ProxyProtocol: "none",
				AllowedCIDRs: []string{"192.0.2.0/24"},
			}},
			Pools: []cloudv1.Pool{{
				Key: "tcp/80", Family: "ipv4", Protocol: "http", Algorithm: "round_robin", TargetPort: 30080, DrainTimeoutS: 30,
				HealthMonitor: &cloudv1.HealthMonitor{Type: "tcp", IntervalMS: 10000, TimeoutMS: 5000, Rise: 2, Fall: 3},
			}},
		},
	}
}

// createLB creates a load balancer. The creation must succeed without a job.
func (c *cloud) createLB(s cloudv1.LoadBalancerSpec) *cloudv1.LoadBalancer {
	c.t.Helper()
	lb, job, err := c.client.CreateLoadBalancer(c.t.Context(), s, cloudapi.WriteOptions{})
	if err != nil || job != "" {
		c.t.Fatal(job, err)
	}
	return lb
}

func newFakeClock() *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// eventually polls until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
