package certs

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

// Certificates are replaced while 50 clients send requests, half of them on persistent connections and half on new
// ones, and no request fails.
func TestRotationUnderLoad(t *testing.T) {
	const rotations, clients = 20, 50
	from := time.Now()
	ca := mustAuthority(t, from, day)
	source := NewCertManager(CertManagerOptions{Secret: tlsSecret, Clock: testingclock.NewFakeClock(from)})
	rotate := func() *x509.Certificate {
		serving := mustSign(t, ca, from, day, "127.0.0.1")
		source.load(t.Context(), unstructuredOf(t, secretOf(t, &issued{ca.Leaf, serving})))
		return serving.Leaf
	}
	rotate()

	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
	)
	config := &tls.Config{}
	ServerOptions(source, false)(config)
	// StartTLS would add its own certificate.
	server.Listener = tls.NewListener(server.Listener, config)
	server.Start()
	defer server.Close()
	url := "https://" + server.Listener.Addr().String()
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	var load sync.WaitGroup
	var calls atomic.Int64
	done := make(chan struct{})
	for i := range clients {
		load.Go(func() {
			client := newClient(roots, i%2 == 0)
			defer client.CloseIdleConnections()
			for !t.Failed() {
				select {
				case <-done:
					return
				default:
					call(t, client, url)
					calls.Add(1)
				}
			}
		})
	}
	fresh := newClient(roots, false)
	for range rotations {
		before := calls.Load()
		leaf := rotate()
		if got := call(t, fresh, url); !got.Equal(leaf) {
			t.Error("a new connection got an old certificate")
		}
		for calls.Load() < before+2*clients && !t.Failed() {
			call(t, fresh, url)
		}
	}
	close(done)
	load.Wait()
	t.Logf("%d requests while the certificate changed %d times", calls.Load(), rotations)
}

// newClient returns a client that trusts roots, and opens a connection for each request unless it keeps them alive.
func newClient(roots *x509.CertPool, keepAlives bool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: !keepAlives},
	}
}

// call returns the certificate of a server that answers a request; nil if the request failed.
func call(t *testing.T, client *http.Client, url string) *x509.Certificate {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Errorf("request failed: %v", err)
		return nil
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "ok" {
		t.Errorf("got %q, %v", text, err)
	}
	return response.TLS.PeerCertificates[0]
}
