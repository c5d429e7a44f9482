// Package cloud runs the reference cloud inside a test, over HTTP. It records the requests and lets the test respond in
// place of the cloud.
package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/fault"
	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/test/harness/env"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

// Token is the token of the cloud's clients.
const Token = "test-token"

// RegistrationToken is the token that edges share.
const RegistrationToken = "test-registration-token"

// edgeToken is the token of the edge edge-1.
const edgeToken = "test-edge-token"

// Cloud is a running reference cloud with the example inventory.
type Cloud struct {
	// Client is a client of the cloud.
	Client *cloudapi.Client
	// Endpoint is the URL of the cloud, without the API's version.
	Endpoint string

	options server.Options
	open    func(*testing.T, server.Options) (*server.Server, error)
	faults  *fault.Injector
	// stop stops the server, reset breaks the connections of clients.
	stop, reset func()

	mu        sync.Mutex
	handler   http.Handler
	calls     []string
	intercept func(http.ResponseWriter, *http.Request) bool
}

// Start runs a cloud until the test ends. With a job duration, writes of load balancers take that long. Instances are
// added to those of the example inventory, or take the place of those with the same ID.
func Start(t *testing.T, jobDuration time.Duration, instances ...inventory.Instance) *Cloud {
	t.Helper()
	c := start(t, OpenServer, jobDuration, instances...)
	front := httptest.NewServer(c)
	t.Cleanup(front.Close)
	var own http.RoundTripper
	c.connect(t, front.URL, func(transport http.RoundTripper) http.RoundTripper {
		own = transport
		return transport
	})
	c.reset = func() {
		front.CloseClientConnections()
		// The client may not have noticed yet, and would send the next request on a closed connection.
		(&http.Client{Transport: own}).CloseIdleConnections()
	}
	return c
}

// StartDirect runs a cloud whose client calls it without a network, so that both can be in the bubble of a test with
// virtual time. Its state is in a file.
func StartDirect(t *testing.T) *Cloud {
	t.Helper()
	c := start(t, func(_ *testing.T, o server.Options) (*server.Server, error) { return server.Open(o) }, 0)
	c.connect(t, "http://127.0.0.1:8090", func(http.RoundTripper) http.RoundTripper { return direct{c} })
	return c
}

// ExampleInventory returns the inventory in examples.
func ExampleInventory(t testing.TB) *inventory.Inventory {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	stock, err := inventory.Load(filepath.Join(root, "examples", "inventory.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return stock
}

func start(
	t *testing.T, open func(*testing.T, server.Options) (*server.Server, error), jobDuration time.Duration, instances ...inventory.Instance,
) *Cloud {
	t.Helper()
	stock := ExampleInventory(t)
	stock.Instances = append(slices.DeleteFunc(stock.Instances, func(example inventory.Instance) bool {
		return slices.ContainsFunc(instances, func(i inventory.Instance) bool { return i.ID == example.ID })
	}), instances...)
	c := &Cloud{open: open, faults: fault.New(clock.RealClock{}), reset: func() {}}
	c.options = server.Options{
		DataDir: t.TempDir(), Inventory: stock, Token: Token, EdgeToken: RegistrationToken,
		EdgeTokens: map[string]string{"edge-1": edgeToken}, JobDuration: jobDuration, Faults: c.faults,
		// Tests have members without instances.
		MemberNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
	}
	c.run(t)
	t.Cleanup(func() { c.stop() })
	return c
}

// run runs a server until stop is called.
func (c *Cloud) run(t *testing.T) {
	t.Helper()
	server, err := c.open(t, c.options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // the server outlives the test context until its cleanup
	var running sync.WaitGroup
	running.Go(func() { server.Run(ctx) })
	c.stop = func() {
		cancel()
		running.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = server.Handler()
}

// Backup returns a folder with a copy of the state.
func (c *Cloud) Backup(t *testing.T) string {
	t.Helper()
	backup := t.TempDir()
	c.restart(t, func() { etcdtest.CopyState(t, c.options.DataDir, backup) })
	return backup
}

// Restore makes the cloud go back to the state of a backup.
func (c *Cloud) Restore(t *testing.T, backup string) {
	t.Helper()
	c.options.DataDir = t.TempDir()
	c.restart(t, func() { etcdtest.CopyState(t, backup, c.options.DataDir) })
}

func (c *Cloud) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	c.stop()
	meanwhile()
	c.run(t)
	c.reset()
}

func (c *Cloud) connect(t *testing.T, endpoint string, wrap func(http.RoundTripper) http.RoundTripper) {
	t.Helper()
	c.Endpoint = endpoint
	var err error
	c.Client, err = cloudapi.New(cloudapi.Options{Endpoint: endpoint, Token: cloudapi.StaticToken(Token), Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
}

// EdgeClient returns a client with the token of the edge edge-1, for a cloud that Start has started.
func (c *Cloud) EdgeClient(t *testing.T) *cloudapi.Client {
	t.Helper()
	client, err := cloudapi.New(cloudapi.Options{Endpoint: c.Endpoint, Token: cloudapi.StaticToken(edgeToken)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// direct passes requests to a handler without a network.
type direct struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (response *http.Response, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("connection reset")
		}
	}()
	served := r.Clone(r.Context())
	served.RequestURI = r.URL.RequestURI()
	if served.Body == nil {
		served.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, served)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// ServeHTTP records the call and passes it to the test or to the cloud.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.calls = append(c.calls, r.Method+" "+r.URL.Path)
	intercept := c.intercept
	c.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	c.Serve(w, r)
}

// Serve passes a request to the cloud itself, for an intercept that changes only the response.
func (c *Cloud) Serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	handler := c.handler
	c.mu.Unlock()
	handler.ServeHTTP(w, r)
}

// Intercept passes every call to f first. f responds and returns true, or returns false to leave the call to the cloud.
// nil ends the interception.
func (c *Cloud) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.intercept = f
}

// Faults replaces the plan of faults that the cloud injects. The zero plan ends them.
func (c *Cloud) Faults(t *testing.T, plan fault.Plan) {
	t.Helper()
	if err := c.faults.Set(plan); err != nil {
		t.Fatal(err)
	}
}

// Calls returns the methods and paths of the calls since the last call of Calls.
func (c *Cloud) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// Writes returns the calls that may change something.
func Writes(calls []string) []string {
	return slices.DeleteFunc(slices.Clone(calls), func(call string) bool {
		return strings.HasPrefix(call, "GET ") || strings.HasSuffix(call, ":lookup")
	})
}

// Problem responds with a problem of the API.
func Problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", cloudv1.MediaTypeProblem)
	w.WriteHeader(status)
	// This fails only if the client is gone.
	_ = json.NewEncoder(w).
		Encode(cloudv1.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code})
}

// Answer returns a response to every request, for a cloud that is faulty or behind a faulty proxy.
func Answer(status int, contentType, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

// Refuse returns a problem of the API as the response to every request.
func Refuse(status int, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		Problem(w, status, code)
		return true
	}
}

// Config writes a cloud config for the cluster and returns the name of the file.
func (c *Cloud) Config(t *testing.T, clusterID string) string {
	t.Helper()
	token, file := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "cloud.yaml")
	content := "clusterID: " + clusterID + "\nendpoint: " + c.Endpoint + "\ntokenFile: " + token + "\n"
	if err := errors.Join(os.WriteFile(token, []byte(Token), 0o600), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}
