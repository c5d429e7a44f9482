package traffic_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quaymaster.dev/test/harness/edgenet"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

// What the scripts of the cluster set up; the addresses of load balancers are a part of what they route to the edges.
const (
	nodeAddress   = "10.89.0.1"
	clientAddress = "198.51.100.10"
	pool          = "10.90.1.0/24"
	kubeconfig    = "/var/lib/realcluster/kubeconfig/admin.conf"
)

const (
	namespace = "quaymaster-system"
	endpoint  = "http://" + nodeAddress + ":8090"
	// The autonomous systems of the router and of the edges.
	routerAS, edgeAS = 64500, 64512
	// patience bounds every wait for something to start.
	patience = 3 * time.Minute
)

// world is a cluster of two nodes with the chart, its cloud with two edges, and a client that reaches load balancers
// through the edges only.
type world struct {
	*testing.T
	scripts string
	dir     string
	edges   []*edgenet.Machine
	client  *edgenet.Machine
}

// newWorld starts everything, or skips the test where the scripts are missing.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, scripts: os.Getenv("REALCLUSTER"), dir: t.TempDir()}
	if _, err := os.Stat(filepath.Join(w.scripts, "up.sh")); w.scripts == "" || err != nil {
		t.Skip("REALCLUSTER does not contain the scripts of a cluster; see docs/operations/e2e.md")
	}
	edgenet.Require(t, "nft", "haproxy", "bird", "conntrack")
	if _, err := os.Stat(kubeconfig); err == nil {
		t.Fatalf("a cluster is up already; run %s/down.sh", w.scripts)
	}
	t.Cleanup(func() { w.run(context.WithoutCancel(t.Context()), w.script("down.sh")) })
	w.run(t.Context(), w.script("up.sh", "--nodes", "2"))
	w.startCloud()
	w.installChart()
	for i := range 2 {
		w.edges = append(w.edges, w.startEdge(i+1))
	}
	w.startRouter()
	return w
}

func (w *world) script(name string, args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(w.scripts, name), args...)
}

// run ends the test if the command fails, and otherwise returns what it prints.
func (w *world) run(ctx context.Context, cmd *exec.Cmd) string {
	w.Helper()
	out, err := env.Run(ctx, "", cmd.Path, cmd.Args[1:]...)
	if err != nil || out.Code != 0 {
		w.Fatalf("%s: %v, code %d\n%s%s", strings.Join(cmd.Args, " "), err, out.Code, out.Stdout, out.Stderr)
	}
	return out.Stdout
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) program(name string) string {
	w.Helper()
	path, err := env.Program(name)
	w.must(err)
	return path
}

func (w *world) tool(name string, args ...string) string {
	w.Helper()
	path, err := env.Tool(name)
	w.must(err)
	return w.run(w.Context(), exec.Command(path, append(args, "--kubeconfig", kubeconfig)...))
}

// file writes a file, and returns its path.
func (w *world) file(name, content string) string {
	w.Helper()
	path := filepath.Join(w.dir, name)
	w.must(os.WriteFile(path, []byte(content), 0o600))
	return path
}

// start starts a program in a network namespace, or in that of the test if it is empty, until the test ends.
func (w *world) start(name, netns string, args ...string) {
	w.Helper()
	spec := process.Spec{Name: name, Path: args[0], Args: args[1:], LogDir: w.dir, Env: []string{
		"MYCLOUD_TOKEN=token", "MYCLOUD_EDGE_TOKEN=edge-token",
	}}
	if netns != "" {
		nsenter, err := exec.LookPath("nsenter")
		w.must(err)
		spec.Path, spec.Args = nsenter, append([]string{"--net=/run/netns/" + netns, "--"}, args...)
	}
	p, err := process.Start(spec)
	w.must(err)
	w.Cleanup(func() {
		p.Kill()
		if w.Failed() {
			w.Logf("%s:\n%s", name, process.Tail(p.Log(), 30))
		}
	})
}

func (w *world) startCloud() {
	w.Helper()
	inventory := w.file("inventory.yaml", fmt.Sprintf(`regions: [{id: r}]
zones: [{id: z, region: r}]
instance_types: [{id: t, cpus: 2, memory_mib: 4096}]
instances:
- {id: i-1, hostname: rcnode, type: t, zone: z, addresses: [{type: internal, family: ipv4, address: 10.89.0.1}]}
- {id: i-2, hostname: rcnode2, type: t, zone: z, addresses: [{type: internal, family: ipv4, address: 10.89.0.2}]}
address_pools: [{scheme: public, cidr: %s}]
`, pool))
	w.start("mycloud", "", w.program("mycloud"), "serve", "--listen="+strings.TrimPrefix(endpoint, "http://"), "--allow-insecure-http",
		"--data-dir="+filepath.Join(w.dir, "mycloud"), "--inventory="+inventory)
}

// installChart installs the chart of this repository with its own programs, and waits until the nodes are initialized.
func (w *world) installChart() {
	w.Helper()
	w.run(w.Context(), w.script("load-image.sh", "docker.io/library/quaymaster:e2e", w.program("quaymaster"),
		"--entrypoint", "/quaymaster", "--add", w.program("quaymaster-controllers")+":/quaymaster-controllers"))
	root, err := env.Root()
	w.must(err)
	values := w.file("values.yaml", `image: {repository: quaymaster, tag: e2e, pullPolicy: Never}
certs: {mode: self-signed}
webhook: {failurePolicy: {validateService: Fail}}
cloud: {clusterID: e2e, endpoint: "`+endpoint+`", allowInsecureHTTP: true, token: token}
cloudController: {nodeSelector: null}
`)
	w.tool("helm", "install", "quaymaster", filepath.Join(root, "charts", "quaymaster"), "--namespace", namespace,
		"--create-namespace", "--values", values)
	for _, name := range []string{"quaymaster-controllers", "quaymaster-webhook"} {
		w.tool("kubectl", "--namespace", namespace, "rollout", "status", "deployment", name, "--timeout", patience.String())
	}
	w.tool("kubectl", "wait", "nodes", "--all", "--timeout", patience.String(), "--for",
		"jsonpath={.spec.providerID}")
}

// startEdge makes the namespace of an edge, and runs mycloud edge in it.
func (w *world) startEdge(number int) *edgenet.Machine {
	w.Helper()
	name := fmt.Sprintf("edge%d", number)
	w.run(w.Context(), w.script("netns.sh", "edge", fmt.Sprint(number)))
	m := w.open(name)
	w.Cleanup(func() { w.killAll(name) })
	w.start(name, name, w.program("mycloud"), "edge", "--name="+name, "--endpoint="+endpoint, "--allow-insecure-http",
		"--data-dir="+filepath.Join(w.dir, name), "--address-pool="+pool, "--member-network=10.89.0.0/24,"+nodeAddress+"/32", "--announce=bgp", fmt.Sprintf("--bgp-as=%d", edgeAS),
		"--bgp-router-id=198.51.100."+fmt.Sprint(1+number), fmt.Sprintf("--bgp-peer=%s=%d", clientAddress, routerAS))
	return m
}

func (w *world) open(netns string) *edgenet.Machine {
	w.Helper()
	m, err := edgenet.Open(netns, "/run/netns/"+netns)
	w.must(err)
	w.Cleanup(m.Close)
	return m
}

// startRouter makes the namespace of the client, which learns the addresses of load balancers by BGP like a router.
func (w *world) startRouter() {
	w.Helper()
	w.run(w.Context(), w.script("netns.sh", "client", "client", "10"))
	w.client = w.open("client")
	w.Cleanup(func() { w.killAll("client") })
	// The machine is busy: an edge may miss half a second.
	router := edgenet.Router{ID: netip.MustParseAddr(clientAddress), AS: routerAS, EdgeAS: edgeAS, Misses: 5}
	for i := range w.edges {
		router.Edges = append(router.Edges, netip.MustParseAddr(fmt.Sprintf("198.51.100.%d", i+2)))
	}
	config, err := router.Configure(w.client)
	w.must(err)
	w.start("router", "client", "bird", "-f", "-c", w.file("router.conf", config), "-s", filepath.Join(w.dir, "router.ctl"))
}

// killAll ends what still runs in a namespace: HAProxy and bird go on when an agent ends.
func (w *world) killAll(netns string) {
	out, _ := exec.Command("ip", "netns", "pids", netns).Output()
	for field := range strings.FieldsSeq(string(out)) {
		var pid int
		if _, err := fmt.Sscan(field, &pid); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// get reads a URL on a machine.
func get(ctx context.Context, m *edgenet.Machine, url string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{DialContext: m.Dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}
