package edge_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// witnesses is how many machines are the members of the witness.
const witnesses = 2

// witness is a tenant that must notice nothing of what others do. It has a load balancer that the kernel serves and one
// of HAProxy.
type witness struct {
	*play
	direct, proxy     *cloudv1.LoadBalancer
	directAt, proxyAt netip.AddrPort
	// wide is true if its load balancers have a second listener.
	wide    bool
	traffic map[*site]traffic
}

func (q *play) newWitness() *witness {
	w := &witness{play: q, traffic: map[*site]traffic{}}
	own := func(s *cloudv1.LoadBalancerSpec) {
		pool := &s.Pools[0]
		pool.NodeGroupID, pool.Members = "", nil
		for _, n := range q.Nodes[:witnesses] {
			pool.Members = append(pool.Members, cloudv1.Member{
				Key: n.Name, Address: n.Inner4.String(), Port: pool.TargetPort, Weight: 1, State: cloudv1.MemberActive,
			})
		}
	}
	w.direct, w.directAt = q.create(q.spec("direct", cloudv1.ProtocolTCP, 80, own))
	w.proxy, w.proxyAt = q.create(q.spec("proxy", cloudv1.ProtocolTCP, 80, own, mode(cloudv1.VIPModeProxy)))
	for _, n := range q.Nodes {
		q.must(n.PublishAll(q.Context(), backendPort))
	}
	return w
}

// traffic is what the witness sends through an edge.
type traffic struct {
	loads map[string]*load
	// control is the same without an edge and load balancers. If it fails, the machine of the test is too busy.
	control *load
}

// start sends traffic through edges.
func (w *witness) start(sites ...*site) {
	w.Helper()
	const rate, connections = 20, 3
	for _, s := range sites {
		t := traffic{
			loads:   map[string]*load{"direct": s.client.requests(w.directAt, rate), "proxy": s.client.requests(w.proxyAt, rate)},
			control: s.client.requests(netip.AddrPortFrom(w.Nodes[0].Inner4, backendPort), rate),
		}
		t.loads["long, direct"], _ = s.client.long(w.directAt, connections)
		t.loads["long, proxy"], _ = s.client.long(w.proxyAt, connections)
		w.traffic[s] = t
	}
}

// stop ends the traffic through edges, of which nothing must have been lost.
func (w *witness) stop(sites ...*site) {
	w.Helper()
	for _, s := range sites {
		t, sent := w.traffic[s], w.traffic[s].loads
		delete(w.traffic, s)
		var lost []error
		for name, l := range sent {
			if err := l.end(); err != nil {
				lost = append(lost, fmt.Errorf("%s: %w", name, err))
			}
			w.counts.Note("exchanges", int(l.sent.Load()))
		}
		if err := t.control.end(); err != nil {
			w.counts.Note("stalls", 1)
			w.log = append(w.log, fmt.Sprintf("  the machine is too busy: without edges, %v", err))
			continue
		}
		w.must(errors.Join(lost...))
	}
}

// check requires that nothing was lost so far.
func (w *witness) check() {
	w.Helper()
	for s, t := range maps.Clone(w.traffic) {
		failed := t.control.failed.Load()
		for _, l := range t.loads {
			failed += l.failed.Load()
		}
		if failed > 0 {
			w.log = append(w.log, "  the witness has lost traffic through "+s.Name)
			w.stop(s)
			w.start(s)
		}
	}
}

// change gives the load balancers another listener, or takes it away, and returns how long that takes.
func (w *witness) change() time.Duration {
	w.Helper()
	start := time.Now()
	w.wide = !w.wide
	direct := w.replace(w.direct.ID, addListener("tcp/9000", 9000))
	proxy := w.replace(w.proxy.ID, addListener("tcp/9000", 9000))
	w.must(errors.Join(w.cloud.WaitJob(w.Context(), direct), w.cloud.WaitJob(w.Context(), proxy)))
	took := time.Since(start)
	if !w.wide {
		return took
	}
	for _, s := range w.sites {
		for _, at := range []netip.AddrPort{w.directAt, w.proxyAt} {
			if s.cut {
				continue
			}
			if _, _, err := s.client.ask("tcp", netip.AddrPortFrom(at.Addr(), 9000)); err != nil {
				w.Fatalf("a listener of the witness that all edges have applied: %s through %s: %v", at, s.Name, err)
			}
		}
	}
	return took
}

// reset takes the other listener away.
func (w *witness) reset() {
	w.Helper()
	if w.wide {
		w.change()
	}
}

// check requires everything that must hold after every step.
func (q *play) check() {
	q.Helper()
	if q.disturbed {
		q.settle()
	}
	took := q.witness.change()
	q.log = append(q.log, fmt.Sprintf("  a change of the witness took %s", took.Round(time.Millisecond)))
	q.slowest = max(q.slowest, took)
	if *full && took > prompt {
		q.Fatalf("a change of the witness took %s", took.Round(time.Millisecond))
	}
	q.checkFaults()
	q.checkOwners(true)
	q.witness.check()
}

// settle waits until the edges that are in contact apply changes again.
func (q *play) settle() {
	q.Helper()
	start := time.Now()
	for _, s := range q.sites {
		if !s.cut {
			q.eventually(s.Name+" is active", func() bool { return q.reported(s).State == cloudv1.EdgeActive })
		}
	}
	q.eventually("changes of the witness are applied", func() bool {
		for _, lb := range []*cloudv1.LoadBalancer{q.witness.direct, q.witness.proxy} {
			lb, err := q.cloud.LoadBalancer(q.Context(), lb.ID)
			q.must(err)
			if lb.ProvisioningState != cloudv1.ProvisioningActive {
				return false
			}
		}
		return true
	})
	q.witness.change()
	q.log = append(q.log, fmt.Sprintf("  settled after %s", time.Since(start).Round(time.Millisecond)))
	q.disturbed = false
}

// reported returns what the API knows of an edge.
func (q *play) reported(s *site) *cloudv1.Edge {
	q.Helper()
	list, err := q.cloud.ListEdges(q.Context(), cloudapi.ListOptions{})
	q.must(err)
	for i := range list.Items {
		if list.Items[i].Name == s.Name {
			return &list.Items[i]
		}
	}
	q.Fatalf("the API does not know %s", s.Name)
	return nil
}

// checkFaults requires that the edges report one fault for each thing that they must refuse, and nothing else. A port may
// be free again for some seconds before an edge notices.
func (q *play) checkFaults() {
	q.Helper()
	var wrong string
	deadline := time.Now().Add(patience)
	for {
		wrong = ""
		for _, s := range q.sites {
			if !s.cut {
				wrong += q.unexpected(s)
			}
		}
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			q.Fatalf("faults are wrong for %s:\n%s", patience, wrong)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// unexpected returns how the faults of an edge differ from what it must refuse.
func (q *play) unexpected(s *site) string {
	q.Helper()
	faults := q.reported(s).Faults
	var wrong strings.Builder
	for _, t := range q.tenants {
		for _, e := range t.endpoints() {
			for _, text := range e.refusals(s.programs) {
				at := slices.IndexFunc(faults, func(f cloudv1.EdgeFault) bool {
					return f.LoadBalancerID == t.lb.ID && f.ListenerKey == e.listener.Key && strings.Contains(f.Detail, text)
				})
				if at < 0 {
					fmt.Fprintf(&wrong, "%s has no fault of %s, %s: %q\n", s.Name, t.name, e.listener.Key, text)
					continue
				}
				faults = slices.Delete(faults, at, at+1)
			}
		}
		if q.mayExceed(t) {
			faults = slices.DeleteFunc(faults, func(f cloudv1.EdgeFault) bool {
				return f.LoadBalancerID == t.lb.ID && strings.Contains(f.Detail, refusesMembers)
			})
		}
	}
	for _, f := range faults {
		fmt.Fprintf(&wrong, "%s has an unexpected fault: %+v\n", s.Name, f)
	}
	return wrong.String()
}

// asked bounds how many endpoints of a tenant are asked after a step.
const asked = 8

// checkOwners asks at all addresses, through all edges that are connected: only members of the load balancer that has the
// address may answer, and no program of the edge. If settled, who must answer must do so.
func (q *play) checkOwners(settled bool) {
	q.Helper()
	var running sync.WaitGroup
	var mu sync.Mutex
	var wrong []string
	for _, s := range q.sites {
		if s.cut {
			continue
		}
		for _, t := range q.tenants {
			list, must := t.endpoints(), settled && !q.mayExceed(t)
			for i := range min(len(list), asked) {
				running.Go(func() {
					if err := s.ask(&list[i], must && list[i].answers(s.programs)); err != nil {
						mu.Lock()
						defer mu.Unlock()
						wrong = append(wrong, err.Error())
					}
				})
			}
			for port := range s.programs {
				for _, address := range t.addressesOf() {
					running.Go(func() {
						e := endpoint{tenant: t, listener: &cloudv1.Listener{Protocol: cloudv1.ProtocolTCP}, at: netip.AddrPortFrom(address, port)}
						if err := s.ask(&e, false); err != nil {
							mu.Lock()
							defer mu.Unlock()
							wrong = append(wrong, err.Error())
						}
					})
				}
			}
		}
	}
	running.Wait()
	if len(wrong) > 0 {
		q.Fatal(strings.Join(wrong, "\n"))
	}
}

func (t *tenant) addressesOf() []netip.Addr {
	found := map[netip.Addr]bool{}
	for _, e := range t.endpoints() {
		found[e.at.Addr()] = true
	}
	return slices.Collect(maps.Keys(found))
}

// ask asks at an endpoint through the edge. An answer must be that of the tenant's machine; without one, there is an error
// only if there must be one before patience is over.
func (s *site) ask(e *endpoint, must bool) error {
	deadline := time.Now().Add(patience)
	for {
		limit := 200 * time.Millisecond
		if must {
			limit = time.Second
		}
		who, err := s.client.identify(e.listener.Protocol, e.at, limit)
		switch {
		case err == nil && who != e.tenant.node.Name:
			return fmt.Errorf("%s %s of %s, through %s, is answered by %s", e.listener.Protocol, e.at, e.tenant.name, s.Name, who)
		case err == nil, !must:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s %s of %s, through %s: %w", e.listener.Protocol, e.at, e.tenant.name, s.Name, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

var errNoMember = errors.New("the answer is not that of a member")

// identify returns the machine that answers at an address within a time.
func (w *world) identify(protocol string, at netip.AddrPort, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	if protocol == cloudv1.ProtocolHTTP || protocol == cloudv1.ProtocolHTTPS {
		client := &http.Client{Timeout: limit, Transport: &http.Transport{
			DialContext: w.Client.Dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}}
		status, body, err := get(client, protocol+"://"+at.String()+"/")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%w: status %d", errNoMember, status)
		}
		return body, err
	}
	conn, err := w.Client.Dial(ctx, protocol, at.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	node, _, err := exchangeWithin(conn, limit)
	if strings.HasPrefix(node, "HTTP/") {
		// What HAProxy says to what is no request.
		err = errNoMember
	}
	return node, err
}

// footprint is what an edge has of the kernel and of processes.
type footprint struct {
	// Descriptors and Memory, in MiB, are those of the agent, and Processes are those of HAProxy.
	Addresses, Rules, Routes, Chains, Descriptors, Memory, Processes int
}

// measure returns the footprint of the edge.
func (s *site) measure() footprint {
	count := func(what string, args ...string) int {
		out, _ := s.Run(context.Background(), args[0], args[1:]...)
		return strings.Count(out, what)
	}
	f := footprint{
		Addresses: count("\n", "ip", "-o", "address", "show", "dev", "lo"), Rules: count("\n", "ip", "rule") + count("\n", "ip", "-6", "rule"),
		Routes: count("\n", "ip", "route", "show", "table", "all") + count("\n", "ip", "-6", "route", "show", "table", "all"),
		Chains: count("\tchain ", "nft", "--terse", "list", "table", "inet", "mycloud-edge"),
	}
	descriptors, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.agent.Process.Pid))
	f.Descriptors = len(descriptors)
	home, _ := os.Stat(s.Path())
	programs, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, program := range programs {
		name, _ := os.ReadFile(program)
		network, err := os.Stat(filepath.Join(filepath.Dir(program), "ns", "net"))
		if err == nil && strings.TrimSpace(string(name)) == "haproxy" && os.SameFile(home, network) {
			f.Processes++
		}
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.agent.Process.Pid))
	var all, resident int
	_, _ = fmt.Sscan(string(text), &all, &resident)
	f.Memory = resident * os.Getpagesize() >> 20
	return f
}

const (
	// spare is how many descriptors of an agent, which has connections of its own, may come and go.
	spare = 10
	// heap is how many MiB of memory the agent may keep for later.
	heap = 100
)

// within reports whether the edge uses no more than before.
func (f footprint) within(before footprint) bool {
	return f.Addresses <= before.Addresses && f.Rules <= before.Rules && f.Routes <= before.Routes && f.Chains <= before.Chains &&
		f.Processes <= before.Processes && f.Descriptors <= before.Descriptors+spare && f.Memory <= before.Memory+heap
}

// returns requires that the edge has no more than in the beginning.
func (q *play) returns(s *site) {
	q.Helper()
	var now footprint
	deadline := time.Now().Add(patience)
	for {
		now = s.measure()
		if now.within(s.before) {
			return
		}
		if time.Now().After(deadline) {
			q.Fatalf("%s has %+v, had %+v", s.Name, now, s.before)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
