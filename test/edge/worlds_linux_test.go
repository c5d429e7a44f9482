package edge_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/edgenet"
	"quaymaster.dev/test/harness/soak"
)

var (
	seed      = flag.Uint64("seed", 1, "seed of the first sequence of TestWorlds")
	sequences = flag.Uint64("sequences", 1, "how many sequences TestWorlds plays")
	length    = flag.Int("length", 100, "how many steps a sequence of TestWorlds has")
	only      = flag.String("only", "", "numbers of the steps that TestWorlds plays, separated by commas; empty means all")
)

const (
	// tenants is how many load balancers other than the witness there may be; each has members on a machine of its own.
	tenants = 4
	// addresses is how many addresses of each family the machine of a tenant has.
	addresses = 8
	// prompt is how soon a change of the witness must be applied.
	prompt = 5 * time.Second
	// short bounds a sequence that is not played at full length.
	short = 20 * time.Second
)

// TestWorlds plays random sequences of what tenants and the programs of two edges do, and checks after every step that
// no other load balancer notices: the witness, which has a load balancer of each engine and traffic through both edges, loses
// nothing and changes at once; every address leads to the members of its owner; what an edge must refuse is one fault.
// What happens in a sequence depends on its seed alone.
func TestWorlds(t *testing.T) {
	var total soak.Counts
	for n := range *sequences {
		s := *seed + n
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			q := newPlay(t, s)
			defer func() {
				if t.Failed() {
					q.counts.Note("violations", 1)
					t.Log("what has happened:\n" + strings.Join(q.log, "\n"))
				}
				total.Add(q.counts)
			}()
			q.play()
			t.Logf("the slowest change of the witness took %s", q.slowest.Round(time.Millisecond))
		})
	}
	t.Logf("worlds: seed=%d %s", *seed, total)
}

// play is a sequence in a world with a witness.
type play struct {
	*world
	seed uint64
	// random is that of the current step.
	random  *rand.Rand
	tenants []*tenant
	sites   []*site
	witness *witness
	// certificate is one that listeners may use.
	certificate string
	// disturbed is true if a step has ended something that takes time to come back.
	disturbed bool
	counts    soak.Counts
	// slowest is how long the slowest change of the witness took.
	slowest time.Duration
	log     []string
}

// site is an edge with a client whose traffic passes through it.
type site struct {
	*edge
	client *world
	cut    bool
	// marks is the folder with files that make programs of the edge hang, or slow.
	marks string
	// programs are those of the edge that listen on ports.
	programs map[uint16]func()
	before   footprint
}

func newPlay(t *testing.T, seed uint64) *play {
	t.Helper()
	q := &play{seed: seed}
	for _, name := range []string{"sequences", "steps", "rejected", "exchanges", "stalls", "violations"} {
		q.counts.Note(name, 0)
	}
	q.counts.Note("sequences", 1)
	bin := t.TempDir()
	for _, program := range []string{"nft", "haproxy"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		script := fmt.Sprintf(`#!/bin/sh
while [ -e $MARKS/%[1]s-hangs ]; do sleep 0.1; done
if [ -e $MARKS/%[1]s-is-slow ]; then sleep 0.5; fi
exec %[2]s "$@"
`, program, path)
		if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	q.world = newWorld(t, 2, witnesses+tenants, func(e *edge) {
		marks := filepath.Join(bin, e.Name)
		if err := os.Mkdir(marks, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", e.dir, "tmpfs", 0, "size=32m"); err != nil {
			t.Skipf("no small disk: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(e.dir, syscall.MNT_DETACH) })
		e.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "MARKS=" + marks}
		q.sites = append(q.sites, &site{edge: e, marks: marks, programs: map[uint16]func(){}})
	})
	for i, s := range q.sites {
		s.client = q.world
		if i > 0 {
			s.client = q.behind(s.edge)
		}
	}
	for i := range tenants {
		q.tenants = append(q.tenants, q.newTenant(i))
	}
	q.issue()
	q.witness = q.newWitness()
	// What the first load balancer with an address of IPv6 leaves behind is left once.
	q.tenants[0].lb, _ = q.create(q.spec("first", cloudv1.ProtocolTCP, 80, func(s *cloudv1.LoadBalancerSpec) {
		s.VIPs[0].Family, s.Pools[0].Family = cloudv1.FamilyIPv6, cloudv1.FamilyIPv6
	}))
	q.delete(q.tenants[0])
	q.witness.change()
	q.witness.reset()
	for _, s := range q.sites {
		s.before = s.measure()
	}
	q.witness.start(q.sites...)
	return q
}

// behind returns the world as a client sees it whose traffic passes through the edge.
func (w *world) behind(e *edge) *world {
	w.Helper()
	client, err := w.AddClient("at-" + e.Name)
	w.must(err)
	topology, view := *w.Topology, *w
	topology.Client, view.Topology = client, &topology
	w.must(view.RouteTo(e.Machine))
	return &view
}

// issue creates the certificate.
func (q *play) issue() {
	q.Helper()
	from := time.Now().Add(-time.Hour)
	pair := authority.New(q.T, "tenants", from, from.Add(48*time.Hour)).Serving(q.T, from, from.Add(24*time.Hour))
	c, err := q.cloud.CreateCertificate(q.Context(),
		cloudv1.CertificateSpec{Name: "tenants", Chain: string(pair.PEM()), Key: string(pair.KeyPEM(q.T))}, cloudapi.WriteOptions{})
	q.must(err)
	q.certificate = c.ID
}

// tenant is who has a load balancer, whose members are all on one machine.
type tenant struct {
	name string
	node *edgenet.Machine
	// addresses are those of the machine, by family.
	addresses map[string][]netip.Addr
	group     *cloudv1.NodeGroup
	lb        *cloudv1.LoadBalancer
	// silent is true if the machine did not answer for a while: monitors that ask rarely may not know that it does again.
	silent bool
}

func (q *play) newTenant(n int) *tenant {
	q.Helper()
	t := &tenant{name: fmt.Sprintf("tenant%d", n), node: q.Nodes[witnesses+n], addresses: map[string][]netip.Addr{}}
	link, err := t.node.Links.LinkByName(edgenet.Inner)
	q.must(err)
	for family, address := range map[string]netip.Addr{cloudv1.FamilyIPv4: t.node.Inner4, cloudv1.FamilyIPv6: t.node.Inner6} {
		t.addresses[family] = []netip.Addr{address}
		for i := 1; i < addresses; i++ {
			more := address.AsSlice()
			more[len(more)-1] = byte(120 + addresses*n + i)
			a, _ := netip.AddrFromSlice(more)
			q.must(t.node.Links.AddrAdd(link, &netlink.Addr{IPNet: edgenet.IPNet(netip.PrefixFrom(a, a.BitLen()))}))
			t.addresses[family] = append(t.addresses[family], a)
		}
	}
	t.group, err = q.cloud.CreateNodeGroup(q.Context(), cloudv1.NodeGroupSpec{Name: t.name}, cloudapi.WriteOptions{})
	q.must(err)
	return t
}

func (q *play) play() {
	possible, begin := steps(), time.Now()
	for _, n := range soak.Steps(*only, *length) {
		if !*full && time.Since(begin) > short {
			break
		}
		// Each step has random numbers of its own, so that the others stay the same without it.
		q.random = rand.New(rand.NewPCG(q.seed, uint64(n)))
		name := possible[q.random.IntN(len(possible))]
		start := time.Now()
		what := name(q)
		q.log = append(q.log, fmt.Sprintf("%s step %d: %s", start.UTC().Format("15:04:05.000"), n, what))
		q.counts.Note("steps", 1)
		q.check()
	}
	q.end()
}

// end removes all tenants and programs, after which the edges must have no more than in the beginning.
func (q *play) end() {
	for _, s := range q.sites {
		if s.cut {
			q.rejoin(s)
		}
		for port := range s.programs {
			s.release(port)
		}
	}
	for _, t := range q.tenants {
		q.delete(t)
	}
	q.log = append(q.log, "all tenants are deleted")
	q.disturbed = true
	q.check()
	q.witness.stop(q.sites...)
	q.witness.reset()
	for _, s := range q.sites {
		q.returns(s)
	}
}

// step does something, and says what.
type step func(*play) string

// steps returns the steps to choose from, each as often as its share.
func steps() []step {
	var list []step
	for _, s := range []struct {
		share int
		step  step
	}{
		{8, (*play).write},
		{2, (*play).remove},
		{4, (*play).members},
		{3, (*play).occupy},
		{2, (*play).hang},
		{1, (*play).silence},
		{1, (*play).fill},
		{1, (*play).killAgent},
		{1, (*play).killHAProxy},
		{1, (*play).killAPI},
		{1, (*play).pauseHAProxy},
		{1, (*play).cutOff},
	} {
		list = append(list, slices.Repeat([]step{s.step}, s.share)...)
	}
	return list
}

func (q *play) tenant() *tenant { return q.tenants[q.random.IntN(tenants)] }

// live returns an edge that is not cut off.
func (q *play) live() *site {
	s := q.sites[q.random.IntN(len(q.sites))]
	if s.cut {
		return q.others(s)[0]
	}
	return s
}

func (q *play) others(s *site) []*site {
	return slices.DeleteFunc(slices.Clone(q.sites), func(o *site) bool { return o == s })
}

// write creates the load balancer of a tenant, or replaces it.
func (q *play) write() string {
	t := q.tenant()
	spec := q.draw(t)
	said := fmt.Sprintf("%s wants %s", t.name, describe(&spec))
	lb, err := t.lb, error(nil)
	if lb == nil {
		lb, _, err = q.cloud.CreateLoadBalancer(q.Context(), spec, cloudapi.WriteOptions{})
	} else {
		lb, err = q.cloud.LoadBalancer(q.Context(), lb.ID)
		q.must(err)
		lb, _, err = q.cloud.UpdateLoadBalancer(q.Context(), lb.ID, spec, cloudapi.WriteOptions{IfMatch: lb.Revision})
	}
	if err != nil {
		q.counts.Note("rejected", 1)
		return fmt.Sprintf("%s; the API rejects it: %v", said, err)
	}
	t.lb = lb
	return said
}

func (q *play) remove() string {
	t := q.tenant()
	if t.lb == nil {
		return q.write()
	}
	q.delete(t)
	return t.name + " is deleted"
}

// delete deletes the load balancer of a tenant, and waits until no edge in contact has it.
func (q *play) delete(t *tenant) {
	q.Helper()
	if t.lb == nil {
		return
	}
	var job string
	// Meanwhile, the cloud may note what its edges have applied.
	for ok := false; !ok; {
		lb, err := q.cloud.LoadBalancer(q.Context(), t.lb.ID)
		q.must(err)
		job, err = q.cloud.DeleteLoadBalancer(q.Context(), lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision})
		if ok = err == nil; !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
			q.must(err)
		}
	}
	q.must(q.cloud.WaitJob(q.Context(), job))
	t.lb, t.silent = nil, false
}

// members replaces the node group of a tenant.
func (q *play) members() string {
	t := q.tenant()
	var group []cloudv1.GroupMember
	n := q.size(12, 1000)
	for i := range n {
		group = append(group, cloudv1.GroupMember{
			Key: fmt.Sprintf("node-%d", i), Weight: q.random.IntN(257), State: q.state(), Addresses: []cloudv1.MemberAddress{
				{Family: cloudv1.FamilyIPv4, Address: t.address(cloudv1.FamilyIPv4, i)},
				{Family: cloudv1.FamilyIPv6, Address: t.address(cloudv1.FamilyIPv6, i)},
			},
		})
	}
	if q.random.IntN(4) == 0 && n > 0 {
		group[0].Key, group[0].Addresses = badMember, []cloudv1.MemberAddress{{Family: cloudv1.FamilyIPv4, Address: badAddress}}
	}
	var err error
	t.group, err = q.cloud.UpdateNodeGroup(q.Context(), t.group.ID, cloudv1.NodeGroupSpec{Name: t.name, Members: group},
		cloudapi.WriteOptions{IfMatch: t.group.Revision})
	q.must(err)
	return fmt.Sprintf("the node group of %s has %d members", t.name, n)
}

// occupy has a program of an edge listen on a port that listeners want as well, or no longer do so.
func (q *play) occupy() string {
	s, port := q.live(), one(q, ports()...)
	if s.programs[port] != nil {
		s.release(port)
		return fmt.Sprintf("the program of %s on port %d ends", s.Name, port)
	}
	stop, err := s.Answer(q.Context(), port)
	if err != nil {
		return fmt.Sprintf("a program cannot listen: %v", err)
	}
	s.programs[port] = stop
	q.Cleanup(stop)
	return fmt.Sprintf("a program of %s listens on port %d", s.Name, port)
}

func (s *site) release(port uint16) {
	s.programs[port]()
	delete(s.programs, port)
}

// hang has a program of an edge hang, or be slow, while tenants change their load balancers.
func (q *play) hang() string {
	s, how := q.live(), one(q, "nft-hangs", "nft-is-slow", "haproxy-hangs", "haproxy-is-slow")
	mark := filepath.Join(s.marks, how)
	q.must(os.WriteFile(mark, nil, 0o600))
	what := q.write()
	q.wait(3 * time.Second)
	q.must(os.Remove(mark))
	q.disturbed = true
	return fmt.Sprintf("%s on %s, while %s", how, s.Name, what)
}

// silence takes the machine of a tenant off the network for a while, so that its members do not answer.
func (q *play) silence() string {
	t := q.tenant()
	q.must(t.node.Cut())
	t.silent = true
	what := q.write()
	q.wait(4 * time.Second)
	q.must(t.node.Restore())
	q.disturbed = true
	return fmt.Sprintf("the machine of %s was silent, while %s", t.name, what)
}

// wait lets some time pass, less than longest, and checks that whatever lasts does not disturb others.
func (q *play) wait(longest time.Duration) {
	q.Helper()
	time.Sleep(time.Duration(q.random.Int64N(int64(longest))))
	q.checkOwners(false)
	q.witness.check()
}

// fill has the disk of an edge full while tenants change their load balancers.
func (q *play) fill() string {
	s := q.live()
	filling := filepath.Join(s.dir, "filling")
	// It fills what there is, and fails.
	_ = os.WriteFile(filling, make([]byte, 33<<20), 0o600)
	what := q.write()
	q.wait(2 * time.Second)
	q.must(os.Remove(filling))
	q.disturbed = true
	return fmt.Sprintf("the disk of %s is full, while %s", s.Name, what)
}

func (q *play) killAgent() string {
	s := q.live()
	kill(s.agent)
	what := q.write()
	q.wait(time.Second)
	q.startAgent(s.edge)
	q.disturbed = true
	return fmt.Sprintf("the agent of %s is killed, and %s", s.Name, what)
}

// killHAProxy kills all processes of HAProxy on an edge, which breaks the connections that it has.
func (q *play) killHAProxy() string {
	s := q.live()
	q.witness.stop(s)
	killByFile(filepath.Join(s.dir, "haproxy", "haproxy.pid"))
	q.disturbed = true
	what := q.write()
	q.settle()
	q.witness.start(s)
	return fmt.Sprintf("HAProxy of %s is killed, and %s", s.Name, what)
}

// pauseHAProxy stops the master process of HAProxy for a while, but not its workers.
func (q *play) pauseHAProxy() string {
	s := q.live()
	text, err := os.ReadFile(filepath.Join(s.dir, "haproxy", "haproxy.pid"))
	q.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	q.must(err)
	q.must(syscall.Kill(pid, syscall.SIGSTOP))
	what := q.write()
	q.wait(4 * time.Second)
	_ = syscall.Kill(pid, syscall.SIGCONT)
	q.disturbed = true
	return fmt.Sprintf("the master process of HAProxy on %s was stopped, while %s", s.Name, what)
}

func (q *play) killAPI() string {
	kill(q.api)
	q.wait(2 * time.Second)
	q.startAPI()
	q.answers()
	q.disturbed = true
	return "the API is killed, and comes back"
}

// cutOff takes an edge off the network, so that the other one goes on with newer revisions, or brings it back.
func (q *play) cutOff() string {
	for _, s := range q.sites {
		if s.cut {
			q.rejoin(s)
			return s.Name + " is back"
		}
	}
	s := one(q, q.sites...)
	q.witness.stop(s)
	q.must(s.Cut())
	s.cut = true
	q.eventually("the API knows", func() bool { return q.reported(s).State == cloudv1.EdgeOffline })
	return s.Name + " is cut off"
}

// rejoin connects an edge again. Until it has heard of what happened meanwhile, it must not answer for addresses that
// others have got.
func (q *play) rejoin(s *site) {
	q.Helper()
	q.must(s.Restore())
	s.cut, q.disturbed = false, true
	q.checkOwners(false)
	// It has seen all members fail, and probes them once a second.
	for _, at := range []netip.AddrPort{q.witness.directAt, q.witness.proxyAt} {
		q.eventually(fmt.Sprintf("%s has members for %s again", s.Name, at), func() bool {
			_, _, err := s.client.ask("tcp", at)
			return err == nil
		})
	}
	q.settle()
	q.witness.start(s)
}
