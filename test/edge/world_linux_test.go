package edge_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
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

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/edgenet"
	"quaymaster.dev/test/harness/env"
)

const (
	clientToken, edgeToken = "client-token", "edge-token"
	apiPort                = 8090
	// backendPort is where the backends of nodes listen; nodes redirect what arrives for a load balancer to it.
	backendPort = 8080
	// httpPort is where the http backends of nodes listen.
	httpPort = 8081
	// patience bounds every wait.
	patience = 30 * time.Second
)

// full makes the tests as long as what they claim; without it they are bounded.
var full = flag.Bool("full", false, "run the tests at full length")

// world is a network with the API, on the client's machine, edges and nodes.
type world struct {
	*testing.T
	*edgenet.Topology
	cloud *cloudapi.Client
	api   *exec.Cmd
	// etcd has the state, if env.EtcdVariable is set.
	etcd  *exec.Cmd
	dir   string
	group *cloudv1.NodeGroup
	edges []*edge
}

// edge is a machine that runs mycloud edge.
type edge struct {
	*edgenet.Machine
	dir  string
	args []string
	// env are environment variables of the agent.
	env   []string
	agent *exec.Cmd
}

// newWorld starts everything, with a route from the client to the first edge. setups change edges before they start.
func newWorld(t *testing.T, edges, nodes int, setups ...func(*edge)) *world {
	t.Helper()
	edgenet.Require(t, "nft", "haproxy")
	dir := t.TempDir()
	w := &world{T: t, Topology: edgenet.New(t, edges, nodes), dir: dir}
	w.startAPI()
	w.connect()
	w.createGroup()
	for _, m := range w.Edges {
		e := &edge{Machine: m, dir: filepath.Join(dir, m.Name)}
		w.must(os.MkdirAll(e.dir, 0o700))
		for _, setup := range setups {
			setup(e)
		}
		w.edges = append(w.edges, e)
		w.Cleanup(func() { w.stopEdge(e) })
		w.startAgent(e)
	}
	for _, n := range w.Nodes {
		n.Backends(t, backendPort)
		w.serveHTTP(n)
	}
	w.must(w.RouteTo(w.Edges[0]))
	w.eventually("all edges are active", func() bool {
		list, err := w.cloud.ListEdges(w.Context(), cloudapi.ListOptions{})
		w.must(err)
		active := 0
		for _, e := range list.Items {
			if e.State == cloudv1.EdgeActive && e.AppliedRevision != "" {
				active++
			}
		}
		return active == edges
	})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// eventually waits until a condition holds, and returns how long that took.
func (w *world) eventually(what string, holds func() bool) time.Duration {
	w.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > patience {
			w.Fatalf("%s: not within %s", what, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

func (w *world) program() string {
	w.Helper()
	program, err := env.Program("mycloud")
	w.must(err)
	return program
}

// startAPI starts mycloud serve, or starts it again. What it stores, in files or in etcd, is in the directory api.
func (w *world) startAPI() {
	w.Helper()
	data, file := filepath.Join(w.dir, "api"), filepath.Join(w.dir, "inventory.yaml")
	w.must(os.WriteFile(file, []byte(w.inventory()), 0o600))
	w.api = exec.Command(w.program(), "serve", "--listen="+w.apiAddress(), "--allow-insecure-http", "--data-dir="+data, "--inventory="+file)
	if env.Etcd() != "" {
		if w.etcd == nil {
			w.etcd = w.startEtcd(filepath.Join(data, "etcd"))
		}
		w.api.Args = append(w.api.Args, "--store="+etcdStore, "--encryption-key-file="+w.encryptionKey())
	}
	w.api.Env = append(os.Environ(), "MYCLOUD_TOKEN="+clientToken, "MYCLOUD_EDGE_TOKEN="+edgeToken)
	w.api.Stderr = w.log("api")
	w.must(w.Client.Start(w.api))
	api := w.api
	w.Cleanup(func() { kill(api) })
}

// etcdStore is the state of a cloud in the etcd on the client's machine.
const etcdStore = "etcd://127.0.0.1:2379/cloud"

// startEtcd starts an etcd of one member on the client's machine.
func (w *world) startEtcd(dir string) *exec.Cmd {
	w.Helper()
	program, err := env.Tool("etcd")
	w.must(err)
	const at, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	cmd := exec.Command(program, "--data-dir="+dir, "--listen-client-urls="+at, "--advertise-client-urls="+at,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--log-level=error")
	cmd.Stderr = w.log("etcd")
	w.must(w.Client.Start(cmd))
	w.Cleanup(func() { kill(cmd) })
	return cmd
}

// encryptionKey returns a file with the key that servers share.
func (w *world) encryptionKey() string {
	w.Helper()
	file := filepath.Join(w.dir, "encryption.key")
	w.must(os.WriteFile(file, []byte(strings.Repeat("A", 43)+"="), 0o600))
	return file
}

// inventory returns that of the API.
func (w *world) inventory() string {
	return fmt.Sprintf(`regions: [{id: r}]
zones: [{id: z, region: r}]
address_pools: [{scheme: public, cidr: %s}, {scheme: public, cidr: "%s"}]
`, edgenet.Pool4, edgenet.Pool6)
}

func (w *world) apiAddress() string {
	return netip.AddrPortFrom(w.Client.Inner4, apiPort).String()
}

// log returns a file for what a program prints, which is shown if the test fails.
func (w *world) log(name string) *os.File {
	w.Helper()
	f, err := os.OpenFile(filepath.Join(w.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	w.must(err)
	w.Cleanup(func() {
		if text, err := os.ReadFile(f.Name()); err == nil && w.Failed() && len(text) > 0 {
			w.Logf("%s:\n%s", name, text)
		}
		_ = f.Close()
	})
	return f
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// connect creates a client of the API.
func (w *world) connect() {
	w.Helper()
	var err error
	w.cloud, err = cloudapi.New(cloudapi.Options{
		Endpoint: "http://" + w.apiAddress(), AllowInsecureHTTP: true, Token: cloudapi.StaticToken(clientToken), QuotaShare: 1,
		Wrap: func(http.RoundTripper) http.RoundTripper { return &http.Transport{DialContext: w.Client.Dial} },
	})
	w.must(err)
	w.answers()
}

// answers waits until the API answers.
func (w *world) answers() {
	w.Helper()
	w.eventually("the API answers", func() bool {
		_, err := w.cloud.Meta(w.Context())
		return err == nil
	})
}

// startAgent starts mycloud edge on the machine.
func (w *world) startAgent(e *edge) {
	w.Helper()
	e.agent = exec.Command(w.program(), append([]string{
		"edge", "--name=" + e.Name, "--endpoint=http://" + w.apiAddress(), "--allow-insecure-http", "--data-dir=" + e.dir,
		"--address-pool=" + edgenet.Pool4.String(), "--address-pool=" + edgenet.Pool6.String(),
	}, e.args...)...)
	e.agent.Env = slices.Concat(os.Environ(), e.env, []string{"MYCLOUD_EDGE_TOKEN=" + edgeToken})
	e.agent.Stderr = w.log(e.Name)
	w.must(e.Start(e.agent))
}

// stopEdge ends the agent, and what outlives it.
func (w *world) stopEdge(e *edge) {
	if e.agent != nil {
		kill(e.agent)
	}
	if text, err := os.ReadFile(filepath.Join(e.dir, "haproxy", "haproxy.log")); err == nil && w.Failed() {
		w.Logf("haproxy of %s:\n%s", e.Name, text)
	}
	for _, file := range []string{"haproxy/haproxy.pid", "probes/haproxy.pid", "bird/bird.pid", "keepalived/keepalived.pid", "keepalived/keepalived-vrrp.pid"} {
		killByFile(filepath.Join(e.dir, file))
	}
}

// killByFile ends the process whose id is in a file, and those of its group.
func killByFile(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (w *world) createGroup() {
	w.Helper()
	spec := cloudv1.NodeGroupSpec{Name: "nodes"}
	for _, n := range w.Nodes {
		spec.Members = append(spec.Members, member(n, cloudv1.MemberActive))
	}
	var err error
	w.group, err = w.cloud.CreateNodeGroup(w.Context(), spec, cloudapi.WriteOptions{})
	w.must(err)
}

func member(n *edgenet.Machine, state string) cloudv1.GroupMember {
	return cloudv1.GroupMember{
		Key: n.Name, Weight: 1, State: state, Addresses: []cloudv1.MemberAddress{
			{Family: cloudv1.FamilyIPv4, Address: n.Inner4.String()}, {Family: cloudv1.FamilyIPv6, Address: n.Inner6.String()},
		},
	}
}

// setMembers changes members of the node group.
func (w *world) setMembers(p cloudv1.MembersPatch) {
	w.Helper()
	var err error
	w.group, err = w.cloud.PatchMembers(w.Context(), w.group.ID, p, cloudapi.WriteOptions{IfMatch: w.group.Revision})
	w.must(err)
}

// options of a load balancer.
type option func(*cloudv1.LoadBalancerSpec)

func mode(mode string) option {
	return func(s *cloudv1.LoadBalancerSpec) {
		for i := range s.VIPs {
			s.VIPs[i].Mode = mode
		}
	}
}

func listeners(change func(*cloudv1.Listener)) option {
	return func(s *cloudv1.LoadBalancerSpec) {
		for i := range s.Listeners {
			change(&s.Listeners[i])
		}
	}
}

// spec returns a load balancer with one listener per key, such as tcp/80, whose members are the nodes.
func (w *world) spec(name, protocol string, port int32, options ...option) cloudv1.LoadBalancerSpec {
	transport, target, pool := "tcp", int32(backendPort), cloudv1.ProtocolTCP
	switch protocol {
	case cloudv1.ProtocolUDP:
		transport, pool = "udp", cloudv1.ProtocolUDP
	case cloudv1.ProtocolHTTP, cloudv1.ProtocolHTTPS:
		target, pool = httpPort, cloudv1.ProtocolHTTP
	}
	key := transport + "/" + strconv.Itoa(int(port))
	s := cloudv1.LoadBalancerSpec{Name: name, LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: cloudv1.VIPModeVIP}},
		Listeners: []cloudv1.Listener{{Key: key, Protocol: protocol, Port: port, PoolKey: key}},
		Pools: []cloudv1.Pool{{
			Key: key, Family: cloudv1.FamilyIPv4, Protocol: pool, Algorithm: cloudv1.AlgorithmRoundRobin, TargetPort: target,
			NodeGroupID: w.group.ID, DrainTimeoutS: 60,
			HealthMonitor: &cloudv1.HealthMonitor{
				Type: cloudv1.ProtocolTCP, Port: backendPort, IntervalMS: 1000, TimeoutMS: 500, Rise: 1, Fall: 2,
			},
		}},
	}}
	for _, o := range options {
		o(&s)
	}
	return s
}

// create creates a load balancer, waits until it is active, and returns its IPv4 address and port.
func (w *world) create(s cloudv1.LoadBalancerSpec) (*cloudv1.LoadBalancer, netip.AddrPort) {
	w.Helper()
	lb, job, err := w.cloud.CreateLoadBalancer(w.Context(), s, cloudapi.WriteOptions{})
	w.must(err)
	w.must(w.cloud.WaitJob(w.Context(), job))
	lb, err = w.cloud.LoadBalancer(w.Context(), lb.ID)
	w.must(err)
	at := netip.AddrPortFrom(netip.MustParseAddr(lb.VIPs[0].Address), uint16(s.Listeners[0].Port))
	if s.VIPs[0].Mode == cloudv1.VIPModeVIP && !s.Listeners[0].NeedsProxy() {
		for _, n := range w.Nodes {
			w.must(n.Publish(w.Context(), s.Listeners[0].Protocol, at, uint16(s.Pools[0].TargetPort)))
		}
	}
	return lb, at
}

// update replaces a load balancer and waits until it is active.
func (w *world) update(id string, change func(*cloudv1.LoadBalancerSpec)) {
	w.Helper()
	w.must(w.cloud.WaitJob(w.Context(), w.replace(id, change)))
}

// replace replaces a load balancer and returns the job that waits until it is active.
func (w *world) replace(id string, change func(*cloudv1.LoadBalancerSpec)) (job string) {
	w.Helper()
	lb, err := w.cloud.LoadBalancer(w.Context(), id)
	w.must(err)
	s := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	change(&s)
	_, job, err = w.cloud.UpdateLoadBalancer(w.Context(), id, s, cloudapi.WriteOptions{IfMatch: lb.Revision})
	w.must(err)
	return job
}

// ask sends one line over a new connection and returns the answer: the node and the client that it saw.
func (w *world) ask(protocol string, at netip.AddrPort) (node, client string, err error) {
	return w.askWithin(time.Second, protocol, at)
}

func (w *world) askWithin(limit time.Duration, protocol string, at netip.AddrPort) (node, client string, err error) {
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	conn, err := w.Client.Dial(ctx, protocol, at.String())
	if err != nil {
		return "", "", err
	}
	defer func() { _ = conn.Close() }()
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := sentOnce(tcp); err != nil {
			return "", "", err
		}
		// Closed connections would otherwise keep their ports for a minute, and the client has only so many.
		if err := tcp.SetLinger(0); err != nil {
			return "", "", err
		}
	}
	return exchange(conn)
}

// exchange sends a line and returns the two words of the answer. Slow backends are not what is tested, lost packets are.
func exchange(conn net.Conn) (node, client string, err error) {
	return exchangeWithin(conn, 3*time.Second)
}

func exchangeWithin(conn net.Conn, limit time.Duration) (node, client string, err error) {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", "", err
	}
	if _, err := conn.Write([]byte("x\n")); err != nil {
		return "", "", err
	}
	buffer := make([]byte, 256)
	n, err := conn.Read(buffer)
	if err != nil {
		return "", "", err
	}
	node, client, _ = strings.Cut(strings.TrimSpace(string(buffer[:n])), " ")
	return node, client, nil
}

// serveHTTP runs an http backend on the machine, which answers with its name.
func (w *world) serveHTTP(m *edgenet.Machine) {
	w.Helper()
	listener, err := m.Listen(w.Context(), "tcp", fmt.Sprintf("[::]:%d", httpPort))
	w.must(err)
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write([]byte(m.Name))
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	w.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}
