package haproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
)

// keyPair returns a certificate for a name, with a key that HAProxy accepts or refuses.
func keyPair(t testing.TB, name string, serial int64, weak bool) [2][]byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
	}
	var key, public any
	if weak {
		k, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			t.Fatal(err)
		}
		key, public = k, &k.PublicKey
	} else {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key, public = k, &k.PublicKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return [2][]byte{
		append([]byte("a comment\n\n"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// serial returns the serial number of the certificate that a client of that name is shown.
func serial(t testing.TB, l config.Listener, name string) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", address(l), &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.ConnectionState().NegotiatedProtocol != "h2" {
		t.Error("no HTTP/2")
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestCertificates(t *testing.T) {
	source := certificates{"cert-a": keyPair(t, "a.test", 1, false), "cert-b": keyPair(t, "b.test", 2, false)}
	e := newEngine(t, source)
	l := listener(t, "https", "tcp/443")
	l.Certificates = []string{"cert-a", "cert-b"}
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{pool("tcp/443", member(t, "a"))}}
	apply(t, e, c)
	if a, b, other := serial(t, l, "a.test"), serial(t, l, "b.test"), serial(t, l, "c.test"); a != 1 || b != 2 || other != 1 {
		t.Errorf("certificates are %d for a, %d for b, %d for others", a, b, other)
	}

	first := worker(t, e)
	source["cert-b"] = keyPair(t, "b.test", 3, false)
	apply(t, e, c)
	if b := serial(t, l, "b.test"); b != 3 {
		t.Errorf("certificate of b is %d after the change", b)
	}
	source["cert-b"] = keyPair(t, "b.test", 4, true)
	faults := apply(t, e, c, "tcp/443")
	if b := serial(t, l, "b.test"); b != 3 || !strings.Contains(faults[0].Detail, "cert-b") {
		t.Errorf("a certificate that HAProxy refuses: served is %d, faults %+v", b, faults)
	}
	delete(source, "cert-b")
	apply(t, e, c, "tcp/443")
	if b := serial(t, l, "b.test"); b != 3 {
		t.Errorf("a certificate that is gone: served is %d", b)
	}
	if worker(t, e) != first {
		t.Error("certificates reload HAProxy")
	}
	if content, err := os.ReadFile(certificateFile(e.Dir, "cert-b")); err != nil || strings.Contains(string(content), "comment") {
		t.Errorf("file is %q, error %v", content, err)
	}
}

func TestListenersThatCannotBeServedAreFaults(t *testing.T) {
	t.Parallel()
	source := certificates{"weak": keyPair(t, "a.test", 1, true)}
	e := newEngine(t, source)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good := listener(t, "http", "tcp/80")
	weak, missing, occupied := listener(t, "https", "tcp/1"), listener(t, "https", "tcp/2"), listener(t, "tcp", "tcp/3")
	weak.Certificates, missing.Certificates = []string{"weak"}, []string{"missing"}
	occupied.Port = uint16(taken.Addr().(*net.TCPAddr).Port)
	weak.Pool, missing.Pool, occupied.Pool = good.Pool, good.Pool, good.Pool
	c := &config.Config{
		Listeners: []config.Listener{weak, missing, occupied, good}, Pools: []config.Pool{pool("tcp/80", member(t, "a"))},
	}
	apply(t, e, c, "tcp/1", "tcp/2", "tcp/3")
	if status, _ := get(t, url(good)); status != 200 {
		t.Errorf("answer is %d", status)
	}
	first := worker(t, e)
	faults := apply(t, e, c, "tcp/1", "tcp/2", "tcp/3")
	if worker(t, e) != first {
		t.Error("faults reload HAProxy again and again")
	}
	for i, want := range []string{"unable to load SSL certificate", `certificate "missing" is not known`, "another program"} {
		if !strings.Contains(faults[i].Detail, want) {
			t.Errorf("fault %d is %q, want %q", i, faults[i].Detail, want)
		}
	}

	taken.Close()
	source["missing"], source["weak"] = keyPair(t, "b.test", 2, false), keyPair(t, "a.test", 3, false)
	apply(t, engineIn(t, e.Dir, e.Binary, source), c)
	if serial(t, weak, "a.test") != 3 || serial(t, missing, "b.test") != 2 || !strings.Contains(address(occupied), "127.0.0.1") {
		t.Error("listeners are not served after the faults are gone")
	}
	if status, _ := get(t, url(occupied)); status != 200 {
		t.Errorf("answer is %d", status)
	}
}

// What cannot be changed stays as it was, also over the reloads of others.
func TestFaultyListenersStay(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := []config.Listener{listener(t, "http", "tcp/1"), listener(t, "http", "tcp/2"), listener(t, "http", "tcp/3")}
	for i := range before {
		before[i].Pool = before[0].Pool
	}
	c := &config.Config{Listeners: slices.Clone(before), Pools: []config.Pool{pool("tcp/1", member(t, "a"))}}
	apply(t, e, c)
	c.Listeners[0].ProxyProtocol = "v3"
	c.Listeners[1].Port = uint16(taken.Addr().(*net.TCPAddr).Port)
	other := listener(t, "http", "tcp/4")
	other.Pool = before[0].Pool
	for range 2 {
		c.Listeners[2].MaxQPS++
		c.Listeners = append(c.Listeners[:3], other)
		c.Pools = []config.Pool{pool("tcp/1", member(t, "b"))}
		apply(t, e, c, "tcp/1", "tcp/2")
		for _, l := range append(slices.Clone(before), other) {
			if status, body := get(t, url(l)); status != 200 || body != "b" {
				t.Errorf("%s: answer is %d, %q", l.Key, status, body)
			}
		}
	}
	// What is not wanted any more goes, faulty or not.
	c.Listeners = c.Listeners[2:]
	apply(t, e, c)
	if l, err := net.Listen("tcp", address(before[0])); err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}

func TestManyChecksLeaveFilesForConnections(t *testing.T) {
	e := newEngine(t, nil)
	wrapper := e.haproxy.File("haproxy.sh")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nulimit -n 3000\nexec "+e.Binary+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	e.haproxy.Binary, e.files = wrapper, 3000
	l := listener(t, "http", "tcp/80")
	c := &config.Config{Listeners: []config.Listener{l}}
	alive := member(t, "a")
	for i := range 27 {
		p := pool("tcp/"+strconv.Itoa(80+i), alive)
		// One load balancer does not get all checks.
		p.ID.LoadBalancer = "lb-" + strconv.Itoa(i%9+1)
		for j := range 30 {
			m := alive
			m.Key = strconv.Itoa(j)
			p.Members = append(p.Members, m)
		}
		p.Monitor = &config.Monitor{Type: "tcp", Port: alive.Port, Interval: time.Minute, Timeout: time.Second}
		c.Pools = append(c.Pools, p)
	}
	apply(t, e, c)
	if status, _ := get(t, url(l)); status != 200 {
		t.Errorf("answer is %d", status)
	}
}

// The agent can end while HAProxy reloads, so that the file is not what HAProxy has loaded.
func TestOwnListenersAreNotTakenForOthers(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l, other := listener(t, "http", "tcp/80"), listener(t, "http", "tcp/81")
	other.Pool = l.Pool
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{pool("tcp/80", member(t, "a"))}}
	apply(t, e, c)
	if err := e.haproxy.Write("haproxy.cfg", []byte("global\n    description other\n")); err != nil {
		t.Fatal(err)
	}
	c.Listeners = append(c.Listeners, other)
	apply(t, engineIn(t, e.Dir, e.Binary, nil), c)
	for _, l := range c.Listeners {
		if status, _ := get(t, url(l)); status != 200 {
			t.Errorf("answer is %d", status)
		}
	}
}

// What runs goes on, and so do changes that need no file: those of members.
func TestWhatCannotBeWrittenIsAFaultAndCaughtUpLater(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l, other := listener(t, "http", "tcp/80"), listener(t, "http", "tcp/81")
	other.Pool = l.Pool
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{pool("tcp/80", member(t, "a"))}}
	apply(t, e, c)
	first := worker(t, e)
	c.Listeners = append(c.Listeners, other)
	for _, name := range []string{"candidate.cfg", process.StateFile, "haproxy.cfg"} {
		// Root may write everywhere, but not into a folder as if it were a file.
		if err := os.Mkdir(e.haproxy.File(name+".new"), 0o700); err != nil {
			t.Fatal(err)
		}
		c.Pools[0].Members = []config.Member{member(t, name)}
		if faults := apply(t, e, c, "tcp/81"); !strings.Contains(faults[0].Detail, name) {
			t.Errorf("%s cannot be written, and the fault is %q", name, faults[0].Detail)
		}
		if status, body := get(t, url(l)); status != 200 || body != name || worker(t, e) != first {
			t.Errorf("%s cannot be written: answer is %d %q, worker %d instead of %d", name, status, body, worker(t, e), first)
		}
		if err := os.Remove(e.haproxy.File(name + ".new")); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, e, c)
	if status, _ := get(t, url(other)); status != 200 {
		t.Errorf("answer is %d", status)
	}
}

func TestCrashAndCounters(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l := listener(t, "http", "tcp/80")
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{pool("tcp/80", member(t, "a"))}}
	apply(t, e, c)
	accepted := func(e *Engine) uint64 {
		counters, err := e.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return counters[0].Accepted
	}
	get(t, url(l))
	get(t, url(l))
	if n := accepted(e); n != 2 {
		t.Errorf("%d requests are counted, want 2", n)
	}
	c.Listeners[0].MaxQPS = 1000
	apply(t, e, c)
	get(t, url(l))
	if n := accepted(e); n != 3 {
		t.Errorf("%d requests are counted after a reload, want 3", n)
	}

	if err := syscall.Kill(master(t, e), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "HAProxy is started again", func() bool {
		return e.supervise(t.Context()) == nil && master(t, e) != 0
	})
	get(t, url(l))
	if n := accepted(e); n != 4 {
		t.Errorf("%d requests are counted after a crash, want 4", n)
	}
	restarted := engineIn(t, e.Dir, e.Binary, nil)
	apply(t, restarted, c)
	get(t, url(l))
	if n := accepted(restarted); n != 5 {
		t.Errorf("%d requests are counted after the agent's restart, want 5", n)
	}
}

// Packages and deployments replace the folders that agents are started in.
func TestFolderOfTheAgentIsRemoved(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	e := newEngine(t, nil)
	c := &config.Config{
		Listeners: []config.Listener{listener(t, "http", "tcp/80")}, Pools: []config.Pool{pool("tcp/80", member(t, "a"))},
	}
	apply(t, e, c)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	c.Listeners[0].IdleTimeout = 50 * time.Second
	apply(t, e, c)
}
