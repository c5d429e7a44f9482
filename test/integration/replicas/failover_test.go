package replicas_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/api/audit"
)

const (
	// writers create objects at the same time.
	writers = 8
	// frozen is how long a server is stopped. Clients ask another one before it goes on.
	frozen = 12 * time.Second
)

// client returns a client of servers.
func (s *site) client(secret string, of ...*replica) *cloudapi.Client {
	s.t.Helper()
	o := cloudapi.Options{Endpoint: of[0].endpoint, Token: cloudapi.StaticToken(secret)}
	for _, r := range of[1:] {
		o.OtherEndpoints = append(o.OtherEndpoints, r.endpoint)
	}
	c, err := cloudapi.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// issue creates a token at a server.
func (s *site) issue(at *replica, name, role string) *cloudv1.NewToken {
	s.t.Helper()
	spec := cloudv1.TokenSpec{Name: name, TokenFields: cloudv1.TokenFields{Role: role}}
	created, err := s.client(token, at).CreateToken(s.t.Context(), spec, cloudapi.WriteOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return created
}

// TestTokensAtOnce: a token that one server creates or revokes is valid, or not, at all others as soon as it has answered.
func TestTokensAtOnce(t *testing.T) {
	s := newSite(t)
	for i := range 20 {
		at := s.replicas[i%len(s.replicas)]
		created := s.issue(at, fmt.Sprint("token-", i), cloudv1.RoleRead)
		for _, r := range s.replicas {
			if _, err := s.client(created.Secret, r).Meta(t.Context()); err != nil {
				t.Errorf("%s does not know a token of %s: %v", r.spec.Name, at.spec.Name, err)
			}
		}
		if err := s.client(token, at).DeleteToken(t.Context(), created.ID, cloudapi.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range s.replicas {
			if _, err := s.client(created.Secret, r).Meta(t.Context()); !cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
				t.Errorf("%s knows a token that %s has revoked: %v", r.spec.Name, at.spec.Name, err)
			}
		}
	}
}

// TestStrangersSpareEtcd: however many requests without a valid token arrive, they cause few reads of etcd.
func TestStrangersSpareEtcd(t *testing.T) {
	const requests, senders = 3000, 20
	s := newSite(t)
	before, start := s.reads(), time.Now()
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			for i := range requests / senders {
				// A request without a token is refused at once; the others share the reads.
				secret := []string{"", "", "guess"}[i%3]
				headers := []string{"Authorization", "Bearer " + secret}
				if secret == "" {
					headers[1] = ""
				}
				status, _, err := s.send(s.replicas[0], http.MethodGet, "/v1/meta", nil, headers...)
				if err != nil || status != http.StatusUnauthorized {
					t.Errorf("status %d, error %v", status, err)
				}
			}
		})
	}
	sending.Wait()
	took := time.Since(start)
	// Ten reads a second, and some of the servers themselves.
	if n, most := s.reads()-before, took.Seconds()*10+50; n > most {
		t.Errorf("%d requests in %s caused %v reads of etcd, want at most %v", requests, took, n, most)
	}
	// The measure does count: a request with a token reads.
	before = s.reads()
	for range 100 {
		if status, body, err := s.send(s.replicas[0], http.MethodGet, "/v1/meta", nil); err != nil || status != http.StatusOK {
			t.Errorf("status %d, error %v: %s", status, err, body)
		}
	}
	if n := s.reads() - before; n < 100 {
		t.Errorf("100 requests with a token caused %v reads", n)
	}
}

// reads returns how many reads the members of etcd have answered.
func (s *site) reads() float64 {
	s.t.Helper()
	sum := 0.0
	for _, endpoint := range s.etcd.Endpoints() {
		resp, err := s.http.Get("http://" + endpoint + "/metrics")
		if err != nil {
			s.t.Fatal(err)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range families["grpc_server_handled_total"].GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "grpc_method" && label.GetValue() == "Range" {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// TestClientsFailOver: clients with the endpoints of three servers go on while each of them is killed or stopped in turn.
// Whatever they write takes effect once, one that follows changes misses none and need not list, and each write that was
// acknowledged is in the audit log of a server.
func TestClientsFailOver(t *testing.T) {
	s := newSite(t)
	secret := s.issue(s.replicas[0], "writers", cloudv1.RoleWrite).Secret
	meta, err := s.client(secret, s.replicas...).Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	seen := newNames()
	var following, writing sync.WaitGroup
	following.Go(func() { s.follow(ctx, s.client(secret, s.replicas...), meta.Revision, seen) })
	acknowledged := newNames()
	done := make(chan struct{})
	for i := range writers {
		writing.Go(func() {
			s.createGroups(ctx, s.client(secret, s.replicas...), fmt.Sprint("writer-", i), acknowledged, done)
		})
	}
	for i, r := range s.replicas {
		before := acknowledged.count()
		if i == 1 {
			_ = r.Signal(syscall.SIGSTOP)
			time.Sleep(frozen)
			_ = r.Signal(syscall.SIGCONT)
		} else {
			r.Kill()
			time.Sleep(2 * time.Second)
		}
		if n := acknowledged.count() - before; n == 0 {
			t.Errorf("no write was acknowledged without %s", r.spec.Name)
		}
		s.awaitReady()
	}
	close(done)
	writing.Wait()

	list, err := s.client(token, s.replicas...).ListNodeGroups(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := newNames()
	for _, g := range list.Items {
		stored.add(g.Name)
	}
	acknowledged.missingFrom(t, "the state", stored)
	for name, n := range stored.all {
		if n != 1 {
			t.Errorf("%s exists %d times", name, n)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for seen.count() < stored.count() && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	following.Wait()
	stored.missingFrom(t, "what the follower has seen", seen)
	acknowledged.missingFrom(t, "the audit logs", s.audited())
	t.Logf("%d writes were acknowledged", acknowledged.count())
}

// follow follows node groups from a revision on.
func (s *site) follow(ctx context.Context, c *cloudapi.Client, since string, seen *names) {
	for ctx.Err() == nil {
		changes, err := c.Changes(ctx, since, []string{cloudv1.KindNodeGroup}, 10*time.Second)
		if cloudapi.HasCode(err, cloudv1.CodePageTokenExpired) {
			s.t.Errorf("the follower has to list: %v", err)
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		since = changes.Revision
		for _, change := range changes.Items {
			var g cloudv1.NodeGroup
			if err := json.Unmarshal(change.Object, &g); err != nil {
				s.t.Error(err)
			}
			seen.add(g.Name)
		}
	}
}

// createGroups creates node groups, each again until it is acknowledged, as controllers do.
func (s *site) createGroups(ctx context.Context, c *cloudapi.Client, writer string, acknowledged *names, done <-chan struct{}) {
	for i := 0; ; i++ {
		name := fmt.Sprint(writer, "-", i)
		for {
			_, err := c.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{IdempotencyKey: name})
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(max(20*time.Millisecond, cloudapi.RetryAfter(err))):
			}
		}
		acknowledged.add(name)
		select {
		case <-done:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// audited returns the names of node groups whose creation is in an audit log.
func (s *site) audited() *names {
	s.t.Helper()
	byID := map[string]string{}
	list, err := s.client(token, s.replicas...).ListNodeGroups(s.t.Context(), cloudapi.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, g := range list.Items {
		byID[g.ID] = g.Name
	}
	found := newNames()
	for _, r := range s.replicas {
		log, err := os.ReadFile(r.audit)
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range bytes.Lines(log) {
			var e audit.Entry
			if err := json.Unmarshal(line, &e); err != nil {
				s.t.Errorf("%s: %q: %v", r.audit, line, err)
			}
			if e.Status == 201 && e.Path == "/v1/node-groups" && e.Actor.Name == "writers" && e.Revision != "" {
				found.add(byID[e.Resource])
			}
		}
	}
	return found
}

// names counts names.
type names struct {
	mu  sync.Mutex
	all map[string]int
}

func newNames() *names { return &names{all: map[string]int{}} }

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[name]++
}

func (n *names) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.all)
}

// missingFrom fails the test if others lacks names.
func (n *names) missingFrom(t *testing.T, what string, others *names) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	others.mu.Lock()
	defer others.mu.Unlock()
	var missing []string
	for name := range n.all {
		if others.all[name] == 0 {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("%d of %d are missing from %s: %v", len(missing), len(n.all), what, missing[:min(len(missing), 10)])
	}
}
