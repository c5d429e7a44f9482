package app_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/authority"
)

// asProgram is the environment variable that makes the test binary act as the program.
const asProgram = "MYCLOUD_TEST_AS_PROGRAM"

// fileLimit is the environment variable with the number of files that the program may have open.
const fileLimit = "MYCLOUD_TEST_FILES"

// server is a running mycloud process.
type server struct {
	dir, endpoint, token string
	cmd                  *exec.Cmd
	exited               chan error
}

var endpointLine = regexp.MustCompile(`endpoint=(https?://\S+)`)

// startServer starts mycloud serve on a free port and waits until it logs its endpoint.
func startServer(t *testing.T, dir string, flags ...string) *server {
	t.Helper()
	s := &server{dir: dir, token: "sesame", exited: make(chan error, 1)}
	args := append([]string{
		"serve", "--listen", "127.0.0.1:0", "--data-dir", dir,
		"--inventory", filepath.Join("..", "..", "..", "examples", "inventory.yaml"),
	}, flags...)
	s.cmd = exec.Command(os.Args[0], args...)
	s.cmd.Env = append(os.Environ(), asProgram+"=1", "MYCLOUD_TOKEN="+s.token)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if m := endpointLine.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
		s.exited <- s.cmd.Wait()
	}()
	t.Cleanup(func() { s.kill(syscall.SIGKILL) })
	select {
	case s.endpoint = <-found:
	case err := <-s.exited:
		t.Fatalf("the server has ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not say where it serves")
	}
	return s
}

// kill sends a signal and waits until the process has ended.
func (s *server) kill(sig os.Signal) error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	_ = s.cmd.Process.Signal(sig)
	return <-s.exited
}

func (s *server) client(t *testing.T) *cloudapi.Client {
	t.Helper()
	c, err := cloudapi.New(cloudapi.Options{
		Endpoint: s.endpoint, Token: cloudapi.StaticToken(s.token),
		// A server that stops closes idle connections, even if a request is just arriving; it still serves new connections.
		Wrap: func(http.RoundTripper) http.RoundTripper { return &http.Transport{DisableKeepAlives: true} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAcknowledgedWritesSurviveSIGKILL kills a server under concurrent writes several times. All acknowledged writes
// must exist afterwards, and a repeated request with an idempotency key must take effect once.
func TestAcknowledgedWritesSurviveSIGKILL(t *testing.T) {
	dir := t.TempDir()
	acknowledged := map[string]cloudv1.NodeGroup{}
	for round := range 3 {
		s := startServer(t, dir)
		const writers = 4
		var mu sync.Mutex
		var wg sync.WaitGroup
		var acks atomic.Int64
		enough := make(chan struct{})
		for w := range writers {
			wg.Go(func() {
				c := s.client(t)
				for n := 0; ; n++ {
					key := fmt.Sprintf("r%d-w%d-%d", round, w, n)
					g, err := c.CreateNodeGroup(
						t.Context(), cloudv1.NodeGroupSpec{Name: key}, cloudapi.WriteOptions{IdempotencyKey: key},
					)
					if err != nil {
						return
					}
					mu.Lock()
					acknowledged[key] = *g
					mu.Unlock()
					if acks.Add(1) == 40 {
						close(enough)
					}
				}
			})
		}
		select {
		case <-enough:
		case <-time.After(30 * time.Second):
			t.Fatalf("only %d writes were acknowledged", acks.Load())
		}
		_ = s.kill(syscall.SIGKILL)
		wg.Wait()

		s = startServer(t, dir)
		c := s.client(t)
		list, err := c.ListNodeGroups(t.Context(), cloudapi.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]int{}
		stored := map[string]cloudv1.NodeGroup{}
		for _, g := range list.Items {
			names[g.Name]++
			stored[g.Name] = g
		}
		for key, want := range acknowledged {
			if d := cmp.Diff(want, stored[key]); d != "" {
				t.Fatalf("round %d: what was acknowledged is not what is stored (-want +got):\n%s", round, d)
			}
		}
		for name, n := range names {
			if n != 1 {
				t.Errorf("%s was created %d times", name, n)
			}
			// A client without a response repeats the request and must get the object of the first one.
			g, err := c.CreateNodeGroup(
				t.Context(), cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{IdempotencyKey: name},
			)
			if err != nil {
				t.Fatal(err)
			}
			if g.ID != stored[name].ID {
				t.Errorf("asking again for %s made another one", name)
			}
		}
		_ = s.kill(syscall.SIGKILL)
	}
}

func TestSIGTERMEndsInOrder(t *testing.T) {
	s := startServer(t, t.TempDir(), "--job-duration", "1h")
	c := s.client(t)
	spec := cloudv1.LoadBalancerSpec{Name: "one", LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: "public", Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
	}}
	_, job, err := c.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A request that is being held gets its response.
	answered, sent := make(chan error, 1), make(chan struct{})
	ctx := httptrace.WithClientTrace(
		t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }},
	)
	go func() {
		_, err := c.Job(ctx, job, time.Minute)
		answered <- err
	}()
	<-sent
	// A server that stops drops connections that it has accepted but not read from yet. It has read this request if a
	// later one was held for a second.
	if _, err := c.Job(t.Context(), job, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := s.kill(syscall.SIGTERM); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	select {
	case err := <-answered:
		if err != nil {
			t.Errorf("the held request: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the held request is still held")
	}
}

// TestBackup: a copy of the data directory of a server that was stopped restores the cloud on another machine, as
// docs/operations/backup.md promises: the same objects with the same IDs, addresses and revisions.
func TestBackup(t *testing.T) {
	data, copied := t.TempDir(), filepath.Join(t.TempDir(), "data")
	s := startServer(t, data)
	createCertificate(t, s.client(t))
	for _, name := range []string{"one", "two", "three"} {
		createBalancer(t, s.client(t), name)
	}
	before := everything(t, s.client(t))
	if err := s.kill(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	// What was written after the backup is lost.
	s = startServer(t, data)
	createBalancer(t, s.client(t), "later")
	_ = s.kill(syscall.SIGKILL)

	s = startServer(t, copied)
	if diff := cmp.Diff(before, everything(t, s.client(t))); diff != "" {
		t.Errorf("restored (-backed up +restored):\n%s", diff)
	}
	// New objects get addresses that no other has.
	createBalancer(t, s.client(t), "new")
	used := map[string]bool{}
	list, err := s.client(t).ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lb := range list.Items {
		for _, vip := range lb.VIPs {
			if used[vip.Address] {
				t.Errorf("two load balancers have the address %s", vip.Address)
			}
			used[vip.Address] = true
		}
	}
}

func createBalancer(t *testing.T, c *cloudapi.Client, name string) {
	t.Helper()
	spec := cloudv1.LoadBalancerSpec{Name: name, LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: "public", Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
	}}
	if _, _, err := c.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createCertificate creates a certificate, whose key pair the server can only decrypt with its key.
func createCertificate(t *testing.T, c *cloudapi.Client) {
	t.Helper()
	now := time.Now()
	pair, err := authority.New(t, "test", now, now.Add(time.Hour)).IssueServing("shop", now, now.Add(time.Hour), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	chain, key, err := pair.Write(t.TempDir(), "tls")
	if err != nil {
		t.Fatal(err)
	}
	spec := cloudv1.CertificateSpec{Name: "shop"}
	for file, field := range map[string]*string{chain: &spec.Chain, key: &spec.Key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		*field = string(text)
	}
	if _, err := c.CreateCertificate(t.Context(), spec, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// everything returns the objects that clients have created, and the instances.
func everything(t *testing.T, c *cloudapi.Client) []any {
	t.Helper()
	balancers, err := c.ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := c.ListCertificates(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	instances, err := c.ListInstances(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return []any{balancers.Items, certificates.Items, instances.Items}
}

// TestStrangers checks that those without a token cannot keep others from the API, by whatever they leave unfinished.
func TestStrangers(t *testing.T) {
	t.Setenv(fileLimit, "300")
	for name, begun := range map[string]string{
		"body":    "POST /v1/load-balancers HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
		"headers": "POST /v1/load-balancers HTTP/1.1\r\nHost:",
		"nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, t.TempDir())
			held, err := net.Dial("tcp", strings.TrimPrefix(s.endpoint, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			if _, err := fmt.Fprintf(held, "GET /v1/changes?since=0&kinds=job&wait=2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", s.token); err != nil {
				t.Fatal(err)
			}
			for range 400 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.endpoint, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				if _, err := conn.Write([]byte(begun)); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			start := time.Now()
			if _, err := s.client(t).Meta(ctx); err != nil {
				t.Fatal(err)
			}
			t.Logf("answered after %s", time.Since(start))
			// A client with a token keeps its connection.
			answer, err := http.ReadResponse(bufio.NewReader(held), nil)
			if err != nil {
				t.Fatal("a held request:", err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("a held request: %s", answer.Status)
			}
		})
	}
}
