// Package showcase fills a cloud with everything that its page shows: load balancers with traffic and problems, edges, jobs
// and certificates, some with names that a browser must not take for anything but text.
package showcase

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/fault"
	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/cloud"
)

// Hostile are names that would run a script or change the text around them if they were not shown as text.
var Hostile = []string{
	`<script>alert("name")</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	"shop\u202etnemyap",
	`{{.Cloud}} ${1} javascript:alert(1)`,
}

// Showcase is a cloud that is filled.
type Showcase struct {
	*cloud.Cloud

	// Names are the ids of load balancers by name.
	Names map[string]string
	// EdgeID is the id of the edge that reports.
	EdgeID string
	edge   *cloudapi.Client

	mu       sync.Mutex
	counters []cloudv1.ListenerCounter
}

// Start runs a filled cloud until the test ends. Its edge has not reported yet.
func Start(t *testing.T) *Showcase {
	t.Helper()
	c := cloud.Start(t, 0)
	s := &Showcase{Cloud: c, Names: map[string]string{}, edge: c.EdgeClient(t)}
	by := authority.New(t, "showcase", time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour))
	certificate := s.certificate(t, by, "shop-example-com", 9*24*time.Hour, "shop.example.com")
	s.certificate(t, by, Hostile[0], 80*24*time.Hour, "intranet.example.com")
	group, err := c.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "ingress", Members: []cloudv1.GroupMember{
		member("node-1", "10.0.0.11"), member("node-2", "10.0.0.12"), member("node-3", "10.0.0.13"),
	}}, cloudapi.WriteOptions{})
	must(t, err)
	for _, name := range append([]string{"shop", "payments", "search", "mail", "metrics"}, Hostile...) {
		s.create(t, name, func(lb *cloudv1.LoadBalancerSpec) {
			lb.Pools[0].NodeGroupID = group.ID
			if name == "shop" {
				lb.Listeners[1].Protocol, lb.Listeners[1].TLS = cloudv1.ProtocolHTTPS, &cloudv1.TLS{CertificateIDs: []string{certificate}}
			}
		})
	}
	s.create(t, "empty", func(*cloudv1.LoadBalancerSpec) {})
	edge, err := s.edge.RegisterEdge(t.Context(), cloudv1.EdgeSpec{Name: "edge-1", EdgeFields: cloudv1.EdgeFields{
		Zone: "eu-1a", Addresses: []string{"10.0.0.101"}, Capabilities: []string{cloudv1.EdgeDirect, cloudv1.EdgeProxy},
	}}, cloudapi.WriteOptions{})
	must(t, err)
	s.EdgeID = edge.ID
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func member(key, address string) cloudv1.GroupMember {
	return cloudv1.GroupMember{
		Key: key, Addresses: []cloudv1.MemberAddress{{Family: cloudv1.FamilyIPv4, Address: address}}, Weight: 1, State: cloudv1.MemberActive, Zone: "eu-1a",
	}
}

func (s *Showcase) certificate(t *testing.T, by *authority.Pair, name string, life time.Duration, host string) string {
	t.Helper()
	pair, err := by.IssueServing(host, time.Now().Add(-time.Hour), time.Now().Add(life), host)
	must(t, err)
	c, err := s.Client.CreateCertificate(t.Context(), cloudv1.CertificateSpec{Name: name, Chain: string(pair.PEM()), Key: string(pair.KeyPEM(t))},
		cloudapi.WriteOptions{})
	must(t, err)
	return c.ID
}

func (s *Showcase) create(t *testing.T, name string, edit func(*cloudv1.LoadBalancerSpec)) {
	t.Helper()
	spec := cloudv1.LoadBalancerSpec{
		Name: name, Tags: map[string]string{"team": strings.Map(func(r rune) rune {
			if r > '~' || r == ',' || r == '=' {
				return '_'
			}
			return r
		}, name)},
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: cloudv1.VIPModeVIP}},
			Listeners: []cloudv1.Listener{
				{Key: "tcp/80", Protocol: cloudv1.ProtocolHTTP, Port: 80, PoolKey: "web", MaxQPS: 5000, AllowedCIDRs: []string{"192.0.2.0/24"}},
				{Key: "tcp/443", Protocol: cloudv1.ProtocolTCP, Port: 443, PoolKey: "web"},
			},
			Pools: []cloudv1.Pool{{
				Key: "web", Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolHTTP, Algorithm: cloudv1.AlgorithmRoundRobin, TargetPort: 30080,
				HealthMonitor: &cloudv1.HealthMonitor{Type: cloudv1.ProtocolTCP, IntervalMS: 10000, TimeoutMS: 5000, Rise: 2, Fall: 3},
			}},
		},
	}
	edit(&spec)
	lb, _, err := s.Client.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{})
	must(t, err)
	s.Names[name] = lb.ID
}

// Beat sends a heartbeat of the edge, which has applied everything but one load balancer. accepted are the requests of each
// load balancer since the last one, by name; a tenth of them is refused in addition.
func (s *Showcase) Beat(t *testing.T, accepted map[string]uint64) {
	t.Helper()
	must(t, s.beat(t.Context(), accepted))
}

func (s *Showcase) beat(ctx context.Context, accepted map[string]uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counters == nil {
		for _, id := range s.Names {
			s.counters = append(s.counters, cloudv1.ListenerCounter{LoadBalancerID: id, ListenerKey: "tcp/80", Family: cloudv1.FamilyIPv4})
		}
	}
	for i := range s.counters {
		c := &s.counters[i]
		for name, n := range accepted {
			if s.Names[name] == c.LoadBalancerID {
				c.Accepted += n
				c.Refused += n / 10
				c.BytesIn += n * 800
				c.BytesOut += n * 12_000
			}
		}
	}
	meta, err := s.Client.Meta(ctx)
	if err != nil {
		return err
	}
	h := cloudv1.Heartbeat{
		AppliedRevision: meta.Revision, HealthReset: true, Counters: &s.counters, Health: &[]cloudv1.MemberHealth{}, Announced: &[]string{},
		Faults: []cloudv1.EdgeFault{{LoadBalancerID: s.Names[Hostile[1]], ListenerKey: "tcp/443", Detail: "certificate " + Hostile[0] + " is not readable"}},
	}
	for name, id := range s.Names {
		lb, err := s.Client.LoadBalancer(ctx, id)
		if err != nil {
			return err
		}
		if name != "mail" {
			*h.Announced = append(*h.Announced, lb.Addresses()...)
		}
		for _, node := range []string{"node-1", "node-2", "node-3"} {
			m := cloudv1.MemberHealth{LoadBalancerID: id, PoolKey: "web", Family: cloudv1.FamilyIPv4, MemberKey: node, State: cloudv1.OperatingOnline}
			if name == "payments" && node == "node-3" {
				m.State, m.Detail = cloudv1.OperatingOffline, "connection refused: "+Hostile[1]
			}
			if name != "empty" {
				*h.Health = append(*h.Health, m)
			}
		}
	}
	_, err = s.edge.Heartbeat(ctx, s.EdgeID, h)
	return err
}

// Fail creates the load balancer "broken", whose job fails, and returns the job's id.
func (s *Showcase) Fail(t *testing.T) string {
	t.Helper()
	s.Faults(t, fault.Plan{Rules: []fault.Rule{{Job: "load-balancer.create", Code: cloudv1.CodeCapacity, Count: 1}}})
	lb, job, err := s.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{Name: "broken", LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemeInternal, Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
	}}, cloudapi.WriteOptions{})
	must(t, err)
	s.Names["broken"] = lb.ID
	if err := s.Client.WaitJob(t.Context(), job); err == nil {
		t.Fatal("the job did not fail")
	}
	return job
}

// Run sends heartbeats with the traffic of a busy day until the test ends.
func (s *Showcase) Run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ; n++ {
			wave := func(most, phase float64) uint64 {
				return uint64(most * (1.5 + math.Sin(float64(n)/4+phase) + .3*math.Sin(float64(n)*1.7)))
			}
			err := s.beat(ctx, map[string]uint64{"shop": wave(400, 0), "payments": wave(90, 2), "search": wave(200, 4), Hostile[0]: wave(20, 1)})
			if err != nil && ctx.Err() == nil {
				t.Error(fmt.Errorf("heartbeat: %w", err))
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(2 * time.Second):
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}
