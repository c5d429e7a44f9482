package edge_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/edgenet"
)

// servers is how many servers share the state, and frozen how long one is stopped: longer than clients wait for it.
const (
	servers = 3
	frozen  = 12 * time.Second
)

// TestFailOver: an edge with a client certificate and the endpoints of all servers follows the cloud while each server is
// killed or stopped in turn. It applies every change, reports health, and refuses no connection meanwhile.
func TestFailOver(t *testing.T) {
	t.Parallel()
	edgenet.Require(t, "nft", "haproxy")
	w := &world{T: t, Topology: edgenet.New(t, 1, 1), dir: t.TempDir()}
	s := w.newShared()
	w.createGroup()
	e := &edge{Machine: w.Edges[0], dir: filepath.Join(w.dir, w.Edges[0].Name)}
	w.edges = append(w.edges, e)
	w.Cleanup(func() { w.stopEdge(e) })
	w.must(os.MkdirAll(e.dir, 0o700))
	s.startEdge(e)
	w.Nodes[0].Backends(t, backendPort)
	w.must(w.RouteTo(w.Edges[0]))

	all := map[*cloudv1.LoadBalancer]netip.AddrPort{}
	first := w.createAnyway(all, "first")
	stop, stopped := make(chan struct{}), sync.WaitGroup{}
	asked, refused := 0, 0
	stopped.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			asked++
			if _, _, err := w.ask(cloudv1.ProtocolTCP, all[first]); err != nil {
				refused++
				w.Logf("ask through the first load balancer: %v", err)
			}
		}
	})
	others := map[*cloudv1.LoadBalancer]netip.AddrPort{}
	for i := range servers {
		if i == 1 {
			w.must(s.programs[i].Process.Signal(syscall.SIGSTOP))
			time.AfterFunc(frozen, func() { _ = s.programs[i].Process.Signal(syscall.SIGCONT) })
		} else {
			kill(s.programs[i])
		}
		for n := range 3 {
			w.createAnyway(others, fmt.Sprintf("without-%d-%d", i, n))
		}
		if i == 1 {
			time.Sleep(frozen)
		} else {
			s.start(i)
		}
		w.answers()
	}
	close(stop)
	stopped.Wait()
	if refused > 0 || asked == 0 {
		t.Errorf("%d of %d connections were refused", refused, asked)
	}
	for lb, at := range others {
		if _, _, err := w.ask(cloudv1.ProtocolTCP, at); err != nil {
			t.Errorf("load balancer %s: %v", lb.Name, err)
		}
	}
	w.eventually("all servers know the health of members", func() bool {
		for i := range servers {
			health, err := s.client(i).LoadBalancerHealth(t.Context(), first.ID)
			if err != nil || health.Pools[0].Members[0].OperatingState != cloudv1.OperatingOnline {
				return false
			}
		}
		return true
	})
}

// createAnyway creates a load balancer, whichever servers fail meanwhile, and adds it when traffic goes through it.
func (w *world) createAnyway(to map[*cloudv1.LoadBalancer]netip.AddrPort, name string) *cloudv1.LoadBalancer {
	w.Helper()
	var lb *cloudv1.LoadBalancer
	w.eventually(name+" is created", func() (ok bool) {
		var err error
		lb, _, err = w.cloud.CreateLoadBalancer(w.Context(), w.spec(name, cloudv1.ProtocolTCP, 80), cloudapi.WriteOptions{IdempotencyKey: name})
		return err == nil
	})
	at := netip.AddrPortFrom(netip.MustParseAddr(lb.VIPs[0].Address), 80)
	w.must(w.Nodes[0].Publish(w.Context(), cloudv1.ProtocolTCP, at, backendPort))
	w.eventually("traffic goes through "+name, func() bool {
		_, _, err := w.ask(cloudv1.ProtocolTCP, at)
		return err == nil
	})
	w.eventually(name+" is active", func() bool {
		now, err := w.cloud.LoadBalancer(w.Context(), lb.ID)
		return err == nil && now.ProvisioningState == cloudv1.ProvisioningActive
	})
	to[lb] = at
	return lb
}

// shared are servers that share a state in etcd, on the client's machine, with HTTPS and client certificates.
type shared struct {
	*world

	programs      []*exec.Cmd
	ca, cert, key string
	// clients has the files of the edge.
	clients tlsfiles.Files
	roots   *x509.CertPool
}

func (w *world) newShared() *shared {
	w.Helper()
	w.startEtcd(filepath.Join(w.dir, "etcd"))

	s := &shared{world: w, programs: make([]*exec.Cmd, servers), roots: x509.NewCertPool()}
	now := time.Now()
	root, clients := authority.New(w.T, "serving", now, now.Add(time.Hour)), authority.New(w.T, "clients", now, now.Add(time.Hour))
	s.roots.AddCert(root.Cert)
	serving, err := root.IssueServing("mycloud", now, now.Add(time.Hour), w.Client.Inner4.String())
	w.must(err)
	s.cert, s.key, err = serving.Write(w.dir, "tls")
	w.must(err)
	s.ca = filepath.Join(w.dir, "ca.crt")
	w.must(os.WriteFile(s.ca, root.PEM(), 0o600))
	w.must(os.WriteFile(filepath.Join(w.dir, "clients.crt"), clients.PEM(), 0o600))
	w.must(os.WriteFile(filepath.Join(w.dir, "inventory.yaml"), []byte(w.inventory()), 0o600))
	pair, err := clients.IssueClient(w.Edges[0].Name, []string{"mycloud:edge"}, now, now.Add(time.Hour))
	w.must(err)
	s.clients.Cert, s.clients.Key, err = pair.Write(w.dir, "edge")
	w.must(err)
	for i := range servers {
		s.start(i)
	}
	w.cloud = s.client(0, 1, 2)
	w.answers()
	return s
}

func (s *shared) endpoint(i int) string {
	return "https://" + netip.AddrPortFrom(s.Client.Inner4, uint16(apiPort+i)).String()
}

// start starts a server, or starts it again.
func (s *shared) start(i int) {
	s.Helper()
	name := fmt.Sprint("api-", i)
	cmd := exec.Command(s.program(), "serve", "--listen="+strings.TrimPrefix(s.endpoint(i), "https://"), "--data-dir="+filepath.Join(s.dir, name),
		"--store="+etcdStore, "--inventory="+filepath.Join(s.dir, "inventory.yaml"), "--tls-cert-file="+s.cert, "--tls-key-file="+s.key,
		"--client-ca-file="+filepath.Join(s.dir, "clients.crt"), "--encryption-key-file="+s.encryptionKey())
	cmd.Env = append(os.Environ(), "MYCLOUD_TOKEN="+clientToken)
	cmd.Stderr = s.log(name)
	s.must(s.Client.Start(cmd))
	s.programs[i] = cmd
	s.Cleanup(func() { kill(cmd) })
}

// client returns a client of servers.
func (s *shared) client(of ...int) *cloudapi.Client {
	s.Helper()
	o := cloudapi.Options{
		Endpoint: s.endpoint(of[0]), Token: cloudapi.StaticToken(clientToken), QuotaShare: 1,
		Wrap: func(http.RoundTripper) http.RoundTripper {
			return &http.Transport{DialContext: s.Client.Dial, TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}}
		},
	}
	for _, i := range of[1:] {
		o.OtherEndpoints = append(o.OtherEndpoints, s.endpoint(i))
	}
	c, err := cloudapi.New(o)
	s.must(err)
	return c
}

// startEdge starts an edge that has no token.
func (s *shared) startEdge(e *edge) {
	s.Helper()
	e.agent = exec.Command(s.program(), "edge", "--name="+e.Name, "--endpoint="+s.endpoint(0), "--endpoint="+s.endpoint(1),
		"--endpoint="+s.endpoint(2), "--ca-file="+s.ca, "--client-cert-file="+s.clients.Cert, "--client-key-file="+s.clients.Key,
		"--data-dir="+e.dir, "--address-pool="+edgenet.Pool4.String(), "--address-pool="+edgenet.Pool6.String())
	e.agent.Stderr = s.log(e.Name)
	s.must(e.Start(e.agent))
}
