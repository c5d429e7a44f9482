package serving

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quaymaster.dev/internal/connections"
	"quaymaster.dev/test/harness/authority"
)

const timeout = 400 * time.Millisecond

// running is a running server on loopback.
type running struct {
	registry *prometheus.Registry
	address  string
	client   *tls.Config
}

// open returns the number of open connections, as in the metric.
func (r *running) open(t *testing.T) int {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "quaymaster_webhook_open_connections" {
			return int(family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	t.Fatal("no metric of open connections")
	return 0
}

func start(t *testing.T, timeout time.Duration, maximum int, handler http.HandlerFunc) *running {
	t.Helper()
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := authority.New(t, "serving", from, until)
	cert, key, err := ca.Serving(t, from, until).Write(t.TempDir(), "tls")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux, registry := http.NewServeMux(), prometheus.NewRegistry()
	mux.Handle("/hook", handler)
	s := New(t.Context(), listener, Options{
		Handler: mux,
		TLS:     &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}},
		Timeout: timeout, MaxConnections: maximum, Registerer: registry,
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	return &running{registry, listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}}
}

func (r *running) dial(t *testing.T) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", r.address, r.client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A client that stops sending during the handshake or a body is disconnected within the timeout of requests; one that
// sends no headers, when another needs its place. Without read deadlines, the
// test would wait forever.
func TestStalledClients(t *testing.T) {
	r := start(t, timeout, 10, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	for name, sent := range map[string]string{
		"body":                 "POST /hook HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx",
		"body of unknown path": "POST /unknown HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			conn := r.dial(t)
			if _, err := conn.Write([]byte(sent)); err != nil {
				t.Fatal(err)
			}
			// It may get a response before.
			if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.EOF) {
				t.Log(err)
			}
		})
	}
	t.Run("handshake", func(t *testing.T) {
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if n, _ := io.Copy(io.Discard, conn); n != 0 {
			t.Errorf("got %d bytes", n)
		}
	})
}

// Headers are bounded: 100 connections with the default of net/http could hold 100 MiB.
func TestLongHeaders(t *testing.T) {
	r := start(t, timeout, 10, func(http.ResponseWriter, *http.Request) { t.Error("the request was handled") })
	conn := r.dial(t)
	go func() {
		_, _ = conn.Write([]byte("POST /hook HTTP/1.1\r\nHost: h\r\nX-Long: " + strings.Repeat("x", 1<<16) + "\r\n\r\n"))
	}()
	answer, _ := io.ReadAll(conn)
	if len(answer) > 0 && !strings.Contains(string(answer), "431") {
		t.Errorf("got %q", answer)
	}
}

// API servers close idle connections after 90 s. A server that closes them first makes requests fail.
func TestIdleTimeout(t *testing.T) {
	if idleTimeout <= 90*time.Second {
		t.Errorf("idle connections are closed after %s", idleTimeout)
	}
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			r := start(t, timeout, 10, func(http.ResponseWriter, *http.Request) {})
			client := http.Client{Transport: &http.Transport{TLSClientConfig: r.client, ForceAttemptHTTP2: http2}}
			defer client.CloseIdleConnections()
			reused := 0
			trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
				if i.Reused {
					reused++
				}
			}})
			for range 2 {
				request, err := http.NewRequestWithContext(trace, http.MethodGet, "https://"+r.address+"/hook", nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.Proto[:6] != name[:6] {
					t.Errorf("the response is of %s", response.Proto)
				}
				// Longer than a request may take to arrive: that deadline does not apply between requests.
				time.Sleep(timeout)
			}
			if n := r.open(t); n != 1 || reused != 1 {
				t.Errorf("%d connections, %d used again, want the first one to be", n, reused)
			}
		})
	}
}

// API servers open connections for requests that other connections then serve, and use these later.
func TestUnusedConnection(t *testing.T) {
	r := start(t, timeout, 10, func(http.ResponseWriter, *http.Request) {})
	conn := r.dial(t)
	// Longer than a request may take.
	time.Sleep(2 * timeout)
	if _, err := conn.Write([]byte("GET /hook HTTP/1.1\r\nHost: h\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("got %s", response.Status)
	}
}

// A port for probes answers although others hold as many connections as they can get.
func TestPlain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := Plain(t.Context(), "probes", l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}), nil)
	bound, _ := server.Listener.(*connections.Bound)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	for range plainConnections + 50 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	for range 5 {
		client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	if n := bound.Len(); n > plainConnections {
		t.Errorf("%d connections", n)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// While an attacker holds every connection, others are served, and no more connections than allowed are open.
func TestServedDuringAttack(t *testing.T) {
	const maximum = 5
	// Long enough for a handshake on a busy machine.
	r := start(t, 20*time.Second, maximum, func(http.ResponseWriter, *http.Request) {})
	ctx, stop := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	defer attackers.Wait()
	defer stop()
	for range 2 * maximum {
		attackers.Go(func() {
			conn, err := net.Dial("tcp", r.address)
			if err != nil {
				t.Error(err)
				return
			}
			context.AfterFunc(ctx, func() { conn.Close() })
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: r.client, DialContext: from("127.0.0.2")}}
	defer client.CloseIdleConnections()
	for range 10 {
		response, err := client.Get("https://" + r.address + "/hook")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		client.CloseIdleConnections()
	}
	if n := r.open(t); n > maximum {
		t.Errorf("%d open connections", n)
	}
}

// from returns a dialer from another address of the loopback interface, or from any if the system has no other one.
func from(address string) func(context.Context, string, string) (net.Conn, error) {
	dialer := &net.Dialer{}
	if l, err := net.Listen("tcp", address+":0"); err == nil {
		l.Close()
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	return dialer.DialContext
}
