package replicas_test

import (
	"fmt"
	"testing"
	"time"

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
			e, err := s.client(token, r).Edge(ctx, edge.ID, cloudapi.ReadOptions{})
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
