package replicas_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// edgeToken is the token that edges share, and ownToken that of the edge.
const edgeToken, ownToken = "open-edge", "the-own-token-of-the-edge-1"

// TestEdgeOfAnyServer: whichever servers an edge reports to, and whatever their versions are, each of them knows its state,
// the health of its members and what it has applied. A server that starts later learns it, too.
func TestEdgeOfAnyServer(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	edge, err := s.client(edgeToken, s.replicas...).RegisterEdge(ctx, cloudv1.EdgeSpec{Name: "edge-1", Token: ownToken}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lb, _, err := s.client(token, s.replicas...).CreateLoadBalancer(ctx, cloudv1.LoadBalancerSpec{Name: "web", LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: cloudv1.VIPModeVIP}},
		Listeners: []cloudv1.Listener{{Key: "tcp/80", Protocol: cloudv1.ProtocolTCP, Port: 80, PoolKey: "tcp/80"}},
		Pools: []cloudv1.Pool{{
			Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolTCP, Algorithm: cloudv1.AlgorithmRoundRobin, TargetPort: 80,
			HealthMonitor: &cloudv1.HealthMonitor{Type: cloudv1.ProtocolTCP, Port: 80, IntervalMS: 1000, TimeoutMS: 500, Rise: 1, Fall: 2},
			Members:       []cloudv1.Member{{Key: "a", Address: "10.0.0.1", Port: 80, Weight: 1, State: cloudv1.MemberActive}},
		}},
	}}, cloudapi.WriteOptions{IdempotencyKey: "web"})
	if err != nil {
		t.Fatal(err)
	}
	// beat sends a heartbeat to a server, as an edge does that sends what changes, and everything again if it is asked to.
	complete, known := false, ""
	beat := func(i int, state string) {
		t.Helper()
		r := s.replicas[i%len(s.replicas)]
		meta, err := s.client(token, r).Meta(ctx)
		if err != nil {
			t.Fatal(err)
		}
		h := cloudv1.Heartbeat{AppliedRevision: meta.Revision}
		if !complete || state != known {
			h.Health, h.HealthReset = &[]cloudv1.MemberHealth{{LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: cloudv1.FamilyIPv4, MemberKey: "a", State: state}}, !complete
		}
		if !complete || i%5 == 0 {
			h.Counters, h.Announced = &[]cloudv1.ListenerCounter{}, &[]string{lb.VIPs[0].Address}
		}
		reply, err := s.client(ownToken, r).Heartbeat(ctx, edge.ID, h)
		if err != nil {
			t.Fatal(err)
		}
		complete, known = reply.Complete, state
	}
	// agree reports whether all servers see a state of the member and the edge as active, within what versions promise.
	agree := func(state string) (problem string) {
		for _, r := range s.replicas {
			health, err := s.client(token, r).LoadBalancerHealth(ctx, lb.ID)
			if err != nil {
				t.Fatal(err)
			}
			e, err := s.client(token, r).Edge(ctx, edge.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got := health.Pools[0].Members[0].OperatingState; got != state || e.State != cloudv1.EdgeActive || e.AppliedRevision == "" {
				problem += fmt.Sprintf("%s: member %s, edge %s at %q; ", r.spec.Name, got, e.State, e.AppliedRevision)
			}
		}
		return problem
	}
	n := 0
	settle := func(what, state string) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		problem := "nothing was asked"
		for problem != "" && time.Now().Before(deadline) {
			beat(n, state)
			n++
			time.Sleep(100 * time.Millisecond)
			problem = agree(state)
		}
		if problem != "" {
			t.Errorf("%s: %s", what, problem)
		}
	}
	for i := range 6 {
		settle("at first", []string{cloudv1.OperatingOnline, cloudv1.OperatingOffline}[i%2])
	}
	for _, r := range s.replicas {
		r.Kill()
		s.start(r)
		s.awaitReady()
		settle("after "+r.spec.Name+" has started again", cloudv1.OperatingOnline)
		settle("after "+r.spec.Name+" has started again", cloudv1.OperatingOffline)
	}
}

// TestBackToFormer: a former version goes on with the state that this one has written, in a file and in etcd, and this one goes
// on after it.
func TestBackToFormer(t *testing.T) {
	if *former == "" {
		t.Skip("requires -former")
	}
	s := newSite(t)
	for _, r := range s.replicas {
		r.Kill()
	}
	for _, name := range []string{"etcd", "file"} {
		t.Run(name, func(t *testing.T) {
			now, then := *s.replicas[0], *s.replicas[1]
			if folder := t.TempDir(); name == "file" {
				for _, r := range []*replica{&now, &then} {
					r.spec.Args = slices.DeleteFunc(slices.Clone(r.spec.Args), func(arg string) bool { return strings.HasPrefix(arg, "--store=") })
					r.spec.Args = append(r.spec.Args, "--data-dir="+folder)
				}
			}
			alone := &site{t: t, http: s.http}
			// turn starts a server alone, writes, and returns what it reads.
			turn := func(r *replica, group string) map[string][]string {
				alone.start(r)
				defer r.Kill()
				alone.replicas = []*replica{r}
				alone.awaitReady()
				c := alone.client(token, r)
				if _, err := c.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: group}, cloudapi.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
				return alone.names(r)
			}
			alone.start(&now)
			alone.replicas = []*replica{&now}
			alone.awaitReady()
			c := alone.client(token, &now)
			if _, err := alone.client(edgeToken, &now).RegisterEdge(t.Context(), cloudv1.EdgeSpec{Name: "edge-1", Token: ownToken}, cloudapi.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{Name: "web", LoadBalancerFields: cloudv1.LoadBalancerFields{
				Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: cloudv1.VIPModeVIP}},
				Listeners: []cloudv1.Listener{{Key: "tcp/80", Protocol: cloudv1.ProtocolTCP, Port: 80, PoolKey: "tcp/80"}},
				Pools:     []cloudv1.Pool{{Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolTCP, Algorithm: cloudv1.AlgorithmRoundRobin, TargetPort: 80}},
			}}, cloudapi.WriteOptions{IdempotencyKey: "web"}); err != nil {
				t.Fatal(err)
			}
			alone.issue(&now, "ci", "read")
			want := alone.names(&now)
			now.Kill()
			for i, r := range []*replica{&then, &now, &then, &now} {
				group := fmt.Sprintf("group-%d", i)
				want["node-groups"] = append(want["node-groups"], group)
				if diff := cmp.Diff(want, turn(r, group)); diff != "" {
					t.Errorf("turn %d, %s (-want +got):\n%s", i, r.spec.Name, diff)
				}
			}
		})
	}
}

// names returns the names, or else the ids, of all objects by kind, as a server reads them.
func (s *site) names(r *replica) map[string][]string {
	s.t.Helper()
	found := map[string][]string{}
	for _, kind := range []string{"load-balancers", "node-groups", "edges", "tokens", "jobs"} {
		status, raw, err := s.send(r, http.MethodGet, "/v1/"+kind, nil)
		if err != nil || status != http.StatusOK {
			s.t.Fatalf("%s of %s: %d, %v: %s", kind, r.spec.Name, status, err, raw)
		}
		for _, item := range decode[cloudv1.List[map[string]any]](s.t, raw).Items {
			name := item["name"]
			if name == nil {
				name = item["id"]
			}
			found[kind] = append(found[kind], fmt.Sprint(name))
		}
		slices.Sort(found[kind])
	}
	return found
}
