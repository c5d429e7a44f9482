package adversarial_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/test/adversarial"
	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/env"
)

const (
	maxConnections = 100
	// attackers is how many connections an attack keeps open, or tries to.
	attackers = 3 * maxConnections / 2
	// answers is how many the victim needs during each attack, some of them over new connections.
	answers = 20
)

// server is a running quaymaster webhook. Its API server does not answer, so that policies are unknown; that changes the
// decisions, and not whether there are any.
type server struct {
	target  adversarial.Target
	metrics string
	// trust is a file with the CA of the server.
	trust string
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// start runs quaymaster for callers with a certificate, which is only requested with --client-ca-file.
func start(t *testing.T, caller tls.Certificate, args ...string) *server {
	t.Helper()
	dir := t.TempDir()
	ca := authority.New(t, "adversarial", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	cert, key, err := ca.Serving(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)).Write(dir, "tls")
	if err != nil {
		t.Fatal(err)
	}
	trust, _, err := ca.Write(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(config, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	freePort := func() string {
		t.Helper()
		port, err := env.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(port)
	}
	port, metrics := freePort(), freePort()
	program, err := env.Program("quaymaster")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{
		"webhook", "--kubeconfig=" + config, "--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-mode=files",
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key, "--health-probe-bind-address=0",
		"--metrics-bind-address=127.0.0.1:" + metrics, "--max-connections=" + strconv.Itoa(maxConnections),
	}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	s := &server{
		target: adversarial.Target{
			Address: "127.0.0.1:" + port, Path: "/validate-service", TLS: &tls.Config{
				RootCAs: roots, ServerName: "127.0.0.1", Certificates: []tls.Certificate{caller},
			},
		},
		metrics: "http://127.0.0.1:" + metrics + "/metrics",
		trust:   trust,
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := adversarial.NewVictim(s.target).Ask(t.Context(), adversarial.Review(adversarial.SmallService()))
		if err == nil {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not answer: %v", err)
		}
	}
}

// attackVariable makes the test program an attacker; its arguments are those of runAttack.
const attackVariable = "QUAYMASTER_TEST_ATTACK"

func TestMain(m *testing.M) {
	if os.Getenv(attackVariable) != "" {
		if err := runAttack(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runAttack runs an attack on an address, with the CA of a file, from an IP address, until its standard input ends.
func runAttack(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("want name, address, file and origin of an attack, got %q", args)
	}
	pem, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	attacks := adversarial.Attacks()
	i := slices.IndexFunc(attacks, func(a adversarial.Attack) bool { return a.Name == args[0] })
	if i < 0 {
		return fmt.Errorf("unknown attack %q", args[0])
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	attacks[i].Run(ctx, adversarial.Target{
		Address: args[1], Path: "/validate-service", TLS: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, From: args[3],
	}, attackers)
	return nil
}

// attack runs an attack until the end of the test. It is a process of low priority: an attacker on another machine would
// take no time from the processors of the server and of the victim.
func (s *server) attack(t *testing.T, name, from string) {
	t.Helper()
	cmd := exec.Command("nice", "-n", "19", os.Args[0], name, s.target.Address, s.trust, from)
	cmd.Env = append(os.Environ(), attackVariable+"=1")
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}

// measure returns a metric without labels.
func (s *server) measure(t *testing.T, name string) float64 {
	t.Helper()
	response, err := http.Get(s.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// During every attack the victim gets its answers, and the server stays small. The attacks come from the victim's own
// address, as behind a NAT, and from another one.
func TestAnswersDuringAttacks(t *testing.T) {
	s := start(t, tls.Certificate{})
	review := adversarial.Review(adversarial.SmallService())
	idle := s.measure(t, "process_resident_memory_bytes")
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		l, err := net.Listen("tcp", from+":0")
		if err != nil {
			t.Logf("no attacks from %s: %v", from, err)
			continue
		}
		l.Close()
		for _, attack := range adversarial.Attacks() {
			t.Run(fmt.Sprintf("%s from %s", attack.Name, from), func(t *testing.T) {
				s.attack(t, attack.Name, from)
				victim := adversarial.NewVictim(s.target)
				// The attack is under way when it has taken what it can get.
				for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
					if s.measure(t, "quaymaster_webhook_open_connections") > maxConnections/2 {
						break
					}
				}
				// A flood of valid requests from the victim's own address cannot be told apart from the victim, whose
				// connections are closed as often as those of others. How often depends on the machine.
				// From another address, one may be lost on a machine that is too slow for the timeouts.
				tolerated := 1
				if from == "127.0.0.1" {
					tolerated = answers / 2
				}
				failed := 0
				for i := range answers {
					if i%8 == 0 {
						victim.Reconnect()
					}
					if err := victim.Ask(t.Context(), review); err != nil {
						failed++
						t.Log(err)
					}
				}
				if failed > tolerated {
					t.Errorf("%d of %d requests got no decision", failed, answers)
				}
				if n := s.measure(t, "quaymaster_webhook_open_connections"); n > maxConnections {
					t.Errorf("%g open connections, want at most %d", n, maxConnections)
				}
				if n := s.measure(t, "go_goroutines"); n > 100+10*maxConnections {
					t.Errorf("%g goroutines", n)
				}
				grown := (s.measure(t, "process_resident_memory_bytes") - idle) / (1 << 20)
				if t.Logf("%.0f MiB more than idle", grown); grown > 64 {
					t.Errorf("the process has grown by %.0f MiB", grown)
				}
			})
		}
	}
}

// With client authentication, a caller without a certificate gets no answer at all, and API servers get theirs.
func TestAnonymousCaller(t *testing.T) {
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := authority.New(t, "callers", from, until)
	dir := t.TempDir()
	file, _, err := ca.Write(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string) tls.Certificate {
		t.Helper()
		pair, err := ca.IssueClient(name, nil, from, until)
		if err != nil {
			t.Fatal(err)
		}
		cert, key, err := pair.Write(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return loaded
	}
	s := start(t, issue("apiserver"), "--client-ca-file="+file, "--client-allowed-names=apiserver")
	review := adversarial.Review(adversarial.SmallService())
	for name, certificates := range map[string][]tls.Certificate{"no certificate": nil, "other name": {issue("kubelet")}} {
		target := s.target
		target.TLS = target.TLS.Clone()
		target.TLS.Certificates = certificates
		if err := adversarial.NewVictim(target).Ask(t.Context(), review); err == nil {
			t.Errorf("%s: got a decision", name)
		}
	}
	if err := adversarial.NewVictim(s.target).Ask(t.Context(), review); err != nil {
		t.Error(err)
	}
	if n := s.measure(t, "quaymaster_webhook_rejected_clients_total"); n < 2 {
		t.Errorf("%g rejections counted", n)
	}
}
