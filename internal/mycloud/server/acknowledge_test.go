package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/inventory"
)

// direct returns a load balancer that edges forward without a proxy, with one member.
func direct(name string) cloudv1.LoadBalancerSpec {
	s := tree(name)
	s.Listeners[0].Protocol, s.Listeners[0].MaxQPS = "tcp", 0
	s.Pools[0].Protocol = "tcp"
	s.Pools[0].Members = []cloudv1.Member{{
		Key: "a", Address: "10.0.0.11", Port: 30080, Weight: 1, State: cloudv1.MemberActive, InstanceID: "i-node-1",
	}}
	return s
}

// withEdges is a cloud with edges, on a clock that the test steps.
type withEdges struct {
	*cloud
	clock *clocktesting.FakeClock
	// ids are the edges by name.
	ids map[string]string
}

func newWithEdges(t *testing.T, names []string, settings ...setting) *withEdges {
	t.Helper()
	clock := newFakeClock()
	c := &withEdges{cloud: newCloud(t, append(settings, withClock(clock))...), clock: clock, ids: map[string]string{}}
	for _, name := range names {
		c.ids[name] = c.register(name).ID
	}
	return c
}

func (c *withEdges) drain(name string) {
	c.t.Helper()
	must[*cloudv1.Edge](c.t)(
		c.client.PatchEdge(c.t.Context(), c.ids[name], cloudv1.EdgePatch{Draining: new(true)}, cloudapi.WriteOptions{}),
	)
}

// applied makes an edge report that it has applied everything, except for some faults.
func (c *withEdges) applied(name string, faults ...cloudv1.EdgeFault) {
	c.t.Helper()
	now := must[*cloudv1.Meta](c.t)(c.client.Meta(c.t.Context())).Revision
	c.beat(c.ids[name], cloudv1.Heartbeat{AppliedRevision: now, Faults: faults})
}

// alive makes edges report that they have applied nothing new.
func (c *withEdges) alive(names ...string) {
	c.t.Helper()
	for _, name := range names {
		e := must[*cloudv1.Edge](c.t)(c.client.Edge(c.t.Context(), c.ids[name]))
		c.beat(e.ID, cloudv1.Heartbeat{AppliedRevision: e.AppliedRevision, Faults: e.Faults})
	}
}

// wait lets time pass while edges report that they have applied nothing new.
func (c *withEdges) wait(d time.Duration, names ...string) {
	c.t.Helper()
	for ; d > 0; d -= time.Second {
		c.clock.Step(time.Second)
		c.alive(names...)
	}
}

func (c *withEdges) create(s cloudv1.LoadBalancerSpec) (*cloudv1.LoadBalancer, string) {
	c.t.Helper()
	lb, job, err := c.client.CreateLoadBalancer(c.t.Context(), s, cloudapi.WriteOptions{})
	if err != nil || job == "" {
		c.t.Fatal("a creation with edges:", job, err)
	}
	return lb, job
}

func (c *withEdges) read(id string) *cloudv1.LoadBalancer {
	c.t.Helper()
	return must[*cloudv1.LoadBalancer](c.t)(c.client.LoadBalancer(c.t.Context(), id))
}

func (c *withEdges) job(id string) *cloudv1.Job {
	c.t.Helper()
	return must[*cloudv1.Job](c.t)(c.client.Job(c.t.Context(), id, 0))
}

// running waits until a job waits for edges.
func (c *withEdges) running(job string) {
	c.t.Helper()
	eventually(c.t, "the job runs", func() bool { return c.job(job).State == cloudv1.JobRunning })
}

// ended returns a job that ends without further reports.
func (c *withEdges) ended(job string) *cloudv1.Job {
	c.t.Helper()
	eventually(c.t, "the job ends", func() bool { return c.job(job).Done() })
	return c.job(job)
}

// timedOut returns a job that ends because of the time, while edges report that they have applied nothing new.
func (c *withEdges) timedOut(job string, names ...string) *cloudv1.Job {
	c.t.Helper()
	eventually(c.t, "the job ends", func() bool {
		c.wait(time.Second, names...)
		return c.job(job).Done()
	})
	return c.job(job)
}

// TestAcknowledged checks that a job ends as soon as the live edges have applied it.
func TestAcknowledged(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1", "edge-2", "leaving"})
	c.drain("leaving")
	lb, job := c.create(direct("one"))
	diff(t, "state", cloudv1.ProvisioningPendingCreate, lb.ProvisioningState)
	c.running(job)
	diff(t, "revision of the target", lb.Revision, c.job(job).TargetRevision)
	c.applied("edge-1")
	diff(t, "state of the job with one of two edges", cloudv1.JobRunning, c.job(job).State)
	c.applied("edge-2")
	diff(t, "state of the job", cloudv1.JobSucceeded, c.ended(job).State)
	lb = c.read(lb.ID)
	diff(t, "state", cloudv1.ProvisioningActive, lb.ProvisioningState)

	s := direct("one")
	s.Listeners[0].MaxQPS = 7
	_, job, err := c.client.UpdateLoadBalancer(t.Context(), lb.ID, s, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil || job == "" {
		t.Fatal(job, err)
	}
	// What an edge has applied is a number, not a text: 100 is more than 99.
	c.beat(c.ids["edge-1"], cloudv1.Heartbeat{AppliedRevision: "9"})
	c.running(job)
	c.applied("edge-1")
	c.applied("edge-2")
	diff(t, "state of the job", cloudv1.JobSucceeded, c.ended(job).State)
}

// TestPendingFault checks that a job waits for what an edge applies by itself in a while, but not for ever.
func TestPendingFault(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1"})
	for _, late := range []bool{false, true} {
		lb, job := c.create(direct(fmt.Sprintf("late-%t", late)))
		c.running(job)
		c.applied("edge-1", cloudv1.EdgeFault{LoadBalancerID: lb.ID, Detail: "waits until 03:04:20 UTC", Pending: true})
		c.wait(20*time.Second, "edge-1")
		diff(t, "state of the job", cloudv1.JobRunning, c.job(job).State)
		if late {
			ended := c.timedOut(job, "edge-1")
			diff(t, "error of the job", fmt.Sprintf(
				`edge "edge-1" has not confirmed revision %s in time; edge "edge-1": waits until 03:04:20 UTC`, lb.Revision,
			), ended.Error.Detail)
		}
		c.applied("edge-1")
		diff(t, "failure of the job", late, c.ended(job).State == cloudv1.JobFailed)
		eventually(t, "the load balancer is active", func() bool {
			return c.read(lb.ID).ProvisioningState == cloudv1.ProvisioningActive
		})
	}
}

// TestAcknowledgedLater checks that an edge that is slow does not make a job fail, but degrades the load balancer.
func TestAcknowledgedLater(t *testing.T) {
	c := newWithEdges(t, []string{"quick", "slow"})
	lb, job := c.create(direct("one"))
	c.running(job)
	c.applied("quick")
	c.wait(9*time.Second, "quick", "slow")
	diff(t, "state of the job", cloudv1.JobRunning, c.job(job).State)
	diff(t, "state of the job", cloudv1.JobSucceeded, c.timedOut(job, "quick", "slow").State)
	lb = c.read(lb.ID)
	diff(t, "state", cloudv1.ProvisioningActive, lb.ProvisioningState)
	c.applied("quick")
	c.wait(11*time.Second, "quick", "slow")
	diff(t, "operating state", cloudv1.OperatingDegraded, c.read(lb.ID).OperatingState)
	c.applied("slow")
	diff(t, "operating state", cloudv1.OperatingUnknown, c.read(lb.ID).OperatingState)
}

// TestNotAcknowledged checks that a job fails that no edge applies in time, and that an edge repairs that later.
func TestNotAcknowledged(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1"})
	lb, job := c.create(direct("one"))
	c.running(job)
	c.wait(29*time.Second, "edge-1")
	diff(t, "state of the job", cloudv1.JobRunning, c.job(job).State)
	e := must[*cloudv1.Edge](t)(c.client.Edge(t.Context(), c.ids["edge-1"]))
	c.beat(e.ID, cloudv1.Heartbeat{
		AppliedRevision: e.AppliedRevision, Faults: []cloudv1.EdgeFault{{Detail: "the disk is full"}},
	})
	ended := c.timedOut(job, "edge-1")
	diff(t, "state of the job", cloudv1.JobFailed, ended.State)
	diff(t, "its error", fmt.Sprintf(
		"edge-fault: edge \"edge-1\" has not confirmed revision %s in time; edge \"edge-1\": the disk is full", lb.Revision,
	), ended.Error.Code+": "+ended.Error.Detail)
	lb = c.read(lb.ID)
	diff(t, "state", cloudv1.ProvisioningError, lb.ProvisioningState)
	diff(t, "fault", ended.Error, lb.Fault)
	c.applied("edge-1")
	eventually(t, "it is active", func() bool {
		lb = c.read(lb.ID)
		return lb.ProvisioningState == cloudv1.ProvisioningActive && lb.Fault == nil
	})
}

// TestFaults checks that a job fails if no edge can do what it is for.
func TestFaults(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1", "edge-2"})
	lb, job := c.create(direct("one"))
	c.running(job)
	fault := cloudv1.EdgeFault{LoadBalancerID: lb.ID, ListenerKey: "tcp/80", Detail: "no engine"}
	other := cloudv1.EdgeFault{LoadBalancerID: "lb-other", Detail: "not of this one"}
	c.applied("edge-1", fault, other)
	diff(t, "state of the job before both have answered", cloudv1.JobRunning, c.job(job).State)
	c.applied("edge-2", fault)
	ended := c.ended(job)
	diff(t, "state of the job", cloudv1.JobFailed, ended.State)
	diff(t, "its error", `edge "edge-1": no engine; edge "edge-2": no engine`, ended.Error.Detail)
	diff(t, "its fields", []cloudv1.ProblemField{{Pointer: "/listeners/0", Code: cloudv1.CodeEdgeFault, Detail: "no engine"}},
		ended.Error.Errors)
	// A fault that remains is no repair.
	c.applied("edge-1", fault)
	c.applied("edge-2", fault)
	diff(t, "state", cloudv1.ProvisioningError, c.read(lb.ID).ProvisioningState)

	// One edge that can is enough.
	lb, job, err := c.client.UpdateLoadBalancer(t.Context(), lb.ID, direct("one"), cloudapi.WriteOptions{IfMatch: c.read(lb.ID).Revision})
	if err != nil {
		t.Fatal(err)
	}
	c.running(job)
	c.applied("edge-1", other)
	c.applied("edge-2", fault)
	diff(t, "state of the job", cloudv1.JobSucceeded, c.ended(job).State)
	diff(t, "operating state", cloudv1.OperatingDegraded, c.read(lb.ID).OperatingState)
}

// TestNoEdgeIsLeft checks that jobs do not wait for edges that are offline.
func TestNoEdgeIsLeft(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1"})
	lb, job := c.create(direct("one"))
	c.running(job)
	eventually(t, "the job ends", func() bool {
		c.clock.Step(time.Second)
		return c.job(job).Done()
	})
	diff(t, "state of the job", cloudv1.JobSucceeded, c.job(job).State)
	diff(t, "state of the edge", cloudv1.EdgeOffline, c.edgeState(c.ids["edge-1"]))
	diff(t, "operating state", cloudv1.OperatingUnknown, c.read(lb.ID).OperatingState)
	c.createLB(direct("two"))
}

// TestUpdatesWaitForAllEdges checks that an update is not done while an edge in contact does something else: its part of the
// clients would, for example, still be admitted from source ranges that were removed.
func TestUpdatesWaitForAllEdges(t *testing.T) {
	c := newWithEdges(t, []string{"quick", "stuck"})
	lb, job := c.create(direct("one"))
	c.running(job)
	c.applied("quick")
	c.applied("stuck")
	c.ended(job)
	lb = c.read(lb.ID)
	s := direct("one")
	s.Listeners[0].AllowedCIDRs = []string{"198.51.100.0/24"}
	lb, job, err := c.client.UpdateLoadBalancer(t.Context(), lb.ID, s, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	c.running(job)
	c.applied("quick")
	c.wait(20*time.Second, "quick", "stuck")
	diff(t, "state of the job", cloudv1.JobRunning, c.job(job).State)
	ended := c.timedOut(job, "quick", "stuck")
	diff(t, "its error", fmt.Sprintf("edge \"stuck\" has not confirmed revision %s in time", lb.Revision), ended.Error.Detail)
	diff(t, "state", cloudv1.ProvisioningError, c.read(lb.ID).ProvisioningState)
	c.applied("quick")
	diff(t, "state", cloudv1.ProvisioningError, c.read(lb.ID).ProvisioningState)
	c.applied("stuck")
	eventually(t, "it is active", func() bool { return c.read(lb.ID).ProvisioningState == cloudv1.ProvisioningActive })
}

// TestDeletionsAreFinal checks that a load balancer whose deletion an edge cannot do says so, is never served again, and is
// gone as soon as the edge can.
func TestDeletionsAreFinal(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1", "stuck"})
	lb, job := c.create(direct("one"))
	c.running(job)
	c.applied("edge-1")
	c.applied("stuck")
	c.ended(job)
	remove := func() string {
		t.Helper()
		on := cloudapi.WriteOptions{IfMatch: c.read(lb.ID).Revision}
		return must[string](t)(c.client.DeleteLoadBalancer(t.Context(), lb.ID, on))
	}
	job = remove()
	c.running(job)
	c.applied("edge-1")
	diff(t, "state of the job", cloudv1.JobFailed, c.timedOut(job, "edge-1", "stuck").State)
	lb = c.read(lb.ID)
	diff(t, "state", cloudv1.ProvisioningPendingDelete, lb.ProvisioningState)
	if lb.Fault == nil || !strings.Contains(lb.Fault.Detail, `edge "stuck" has not confirmed`) {
		t.Errorf("fault: %+v", lb.Fault)
	}
	_, _, err := c.client.UpdateLoadBalancer(t.Context(), lb.ID, direct("one"), cloudapi.WriteOptions{IfMatch: lb.Revision})
	if !cloudapi.HasCode(err, cloudv1.CodeConflict) {
		t.Errorf("an update after a deletion has failed: %v", err)
	}

	// Another deletion is another attempt, in which the edge says what is wrong.
	job = remove()
	c.running(job)
	c.applied("edge-1")
	c.applied("stuck", cloudv1.EdgeFault{LoadBalancerID: lb.ID, Detail: "haproxy does not answer"})
	c.timedOut(job, "edge-1", "stuck")
	lb = c.read(lb.ID)
	diff(t, "state", cloudv1.ProvisioningPendingDelete, lb.ProvisioningState)
	diff(t, "fault", `edge "stuck": haproxy does not answer`, lb.Fault.Detail)

	c.applied("edge-1")
	c.applied("stuck")
	eventually(t, "it is gone", func() bool {
		_, err := c.client.LoadBalancer(t.Context(), lb.ID)
		return cloudapi.IsNotFound(err)
	})
}

// TestAddressesHaveOneOwner checks that an address is not given to another load balancer as long as an edge that is out of
// contact may serve it, also over a restart of the server.
func TestAddressesHaveOneOwner(t *testing.T) {
	inv := exampleInventory(t)
	inv.AddressPools = []inventory.AddressPool{{Scheme: "public", CIDR: "203.0.113.1/32"}}
	for name, ends := range map[string]func(c *withEdges){
		"it is back": func(c *withEdges) {
			c.alive("cut-off")
			diff(t, "free before the edge has applied the deletion", false, c.free())
			c.applied("cut-off")
		},
		"it is deleted": func(c *withEdges) {
			if err := c.client.DeleteEdge(c.t.Context(), c.ids["cut-off"], cloudapi.WriteOptions{}); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newWithEdges(t, []string{"edge-1", "cut-off"}, withInventory(inv))
			lb, job := c.create(direct("one"))
			c.running(job)
			c.applied("edge-1")
			c.applied("cut-off")
			c.ended(job)
			eventually(t, "the edge is offline", func() bool {
				c.wait(time.Second, "edge-1")
				return c.edgeState(c.ids["cut-off"]) == cloudv1.EdgeOffline
			})
			on := cloudapi.WriteOptions{IfMatch: c.read(lb.ID).Revision}
			job = must[string](t)(c.client.DeleteLoadBalancer(t.Context(), lb.ID, on))
			c.running(job)
			c.applied("edge-1")
			diff(t, "state of the job", cloudv1.JobSucceeded, c.ended(job).State)
			diff(t, "free while an edge is out of contact", false, c.free())
			_, _, err := c.client.CreateLoadBalancer(t.Context(), direct("two"), cloudapi.WriteOptions{})
			if err == nil || !strings.Contains(err.Error(), "1 are reserved until the edges cut-off have confirmed") {
				t.Errorf("a creation without a free address: %v", err)
			}
			asks := direct("two")
			asks.VIPs[0].Address = lb.VIPs[0].Address
			got := c.send("POST", "/v1/load-balancers:validate", asks).want(t, 409, cloudv1.CodeAddressTaken)
			if want := "reserved until the edges cut-off have confirmed"; !strings.Contains(got.problem.Detail, want) {
				t.Errorf("%q lacks %q", got.problem.Detail, want)
			}
			list := must[*cloudv1.List[cloudv1.Address]](t)(
				c.client.ListAddresses(t.Context(), cloudapi.ListOptions{State: cloudv1.AddressReserved}))
			if len(list.Items) != 1 || list.Items[0].ReservedAt == nil {
				t.Fatalf("reserved: %+v", list.Items)
			}
			diff(t, "owner", lb.ID, list.Items[0].LoadBalancerID)
			diff(t, "held by", []string{"cut-off"}, list.Items[0].HeldBy)
			diff(t, "free addresses in metrics", map[string]float64{"assigned": 0, "reserved": 1, "free": 0}, c.addresses())
			ends(c)
			eventually(t, "it is free", c.free)
		})
	}
}

// addresses returns the metrics of the only pool by state.
func (c *withEdges) addresses() map[string]float64 {
	c.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c.server)
	found := must[[]*dto.MetricFamily](c.t)(registry.Gather())
	states := map[string]float64{}
	for _, m := range found[0].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "state" {
				states[label.GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return states
}

// free reports whether another load balancer would get the only address.
func (c *withEdges) free() bool {
	c.t.Helper()
	return c.send("POST", "/v1/load-balancers:validate", direct("two")).status == 204
}

// TestNoEdgeInContact checks that addresses stay reserved also if no edge is in contact, and that a load balancer that wants
// one of the family again gets the same.
func TestNoEdgeInContact(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1"})
	lb, job := c.create(direct("one"))
	c.running(job)
	c.applied("edge-1")
	c.ended(job)
	eventually(t, "the edge is offline", func() bool {
		c.clock.Step(time.Second)
		return c.edgeState(c.ids["edge-1"]) == cloudv1.EdgeOffline
	})
	six := direct("one")
	six.VIPs[0].Family, six.Pools[0].Family, six.Pools[0].Members = "ipv6", "ipv6", nil
	before := c.read(lb.ID)
	update := func(s cloudv1.LoadBalancerSpec) *cloudv1.LoadBalancer {
		t.Helper()
		on := cloudapi.WriteOptions{IfMatch: c.read(lb.ID).Revision}
		lb, _, err := c.client.UpdateLoadBalancer(t.Context(), lb.ID, s, on)
		if err != nil {
			t.Fatal(err)
		}
		return lb
	}
	update(six)
	if other := c.createLB(direct("two")); other.VIPs[0].Address == before.VIPs[0].Address {
		t.Errorf("another load balancer has got %s", other.VIPs[0].Address)
	}
	after := update(direct("one"))
	diff(t, "address", before.VIPs[0].Address, after.VIPs[0].Address)
	// In a dry run, nothing is reserved.
	c.send("DELETE", "/v1/load-balancers/"+lb.ID+"?dry_run=true", nil, "If-Match", `"`+after.Revision+`"`).want(t, 200, "")
	diff(t, "state", cloudv1.ProvisioningActive, c.read(lb.ID).ProvisioningState)
}

// TestAddressesAreFreedLast checks that an address is not given to another load balancer as long as an edge serves it.
func TestAddressesAreFreedLast(t *testing.T) {
	inv := exampleInventory(t)
	inv.AddressPools = []inventory.AddressPool{
		{Scheme: "public", CIDR: "203.0.113.1/32"}, {Scheme: "public", CIDR: "2001:db8::1/128"},
	}
	c := newWithEdges(t, []string{"edge-1", "leaving"}, withInventory(inv))
	c.drain("leaving")
	s := direct("one")
	s.VIPs = append(s.VIPs, cloudv1.VIP{Family: "ipv6", Mode: "vip"})
	s.Pools = append(s.Pools, s.Pools[0])
	s.Pools[1].Family, s.Pools[1].Members = "ipv6", nil
	lb, job := c.create(s)
	c.running(job)
	c.applied("edge-1")
	c.ended(job)
	lb = c.read(lb.ID)
	// free reports whether another load balancer would get the only address of a family.
	free := func(family string) bool {
		t.Helper()
		other := direct("two")
		other.VIPs[0].Family, other.Pools[0].Family, other.Pools[0].Members = family, family, nil
		got := c.send("POST", "/v1/load-balancers:validate", other)
		if got.status != 204 {
			got.want(t, 503, cloudv1.CodeCapacity)
		}
		return got.status == 204
	}

	// The update gives up one of the addresses.
	_, job, err := c.client.UpdateLoadBalancer(t.Context(), lb.ID, direct("one"), cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	c.running(job)
	diff(t, "free while the update is being applied", false, free("ipv6"))
	c.applied("edge-1")
	c.ended(job)
	diff(t, "free while the edge that leaves may serve it", false, free("ipv6"))
	c.applied("leaving")
	eventually(t, "it is free", func() bool { return free("ipv6") })
	diff(t, "the other address is free", false, free("ipv4"))

	job, err = c.client.DeleteLoadBalancer(t.Context(), lb.ID, cloudapi.WriteOptions{IfMatch: c.read(lb.ID).Revision})
	if err != nil {
		t.Fatal(err)
	}
	c.running(job)
	c.applied("edge-1")
	diff(t, "state of the job while the edge that leaves may serve it", cloudv1.JobRunning, c.job(job).State)
	diff(t, "state", cloudv1.ProvisioningPendingDelete, c.read(lb.ID).ProvisioningState)
	diff(t, "free while it is being deleted", false, free("ipv4"))
	c.applied("leaving")
	diff(t, "state of the job", cloudv1.JobSucceeded, c.ended(job).State)
	diff(t, "free after the deletion", true, free("ipv4"))
}
