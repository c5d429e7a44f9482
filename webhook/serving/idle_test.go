package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pipes is a listener of connections in memory.
type pipes struct{ accepted chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.accepted
	if !ok {
		return nil, errors.New("closed")
	}
	return conn, nil
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9443} }

// API servers keep an idle connection for as long as http.DefaultTransport, from which client-go takes the time. The
// server must not close it before: the next request might be on its way.
func TestIdleConnectionsOutliveThoseOfAPIServers(t *testing.T) {
	certificate := httptest.NewTLSServer(http.NotFoundHandler())
	defer certificate.Close()
	synctest.Test(t, func(t *testing.T) {
		listener := pipes{make(chan net.Conn)}
		server := New(t.Context(), listener, Options{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
			TLS:     &tls.Config{Certificates: certificate.TLS.Certificates}, Timeout: 10 * time.Second, MaxConnections: 10,
			Registerer: prometheus.NewRegistry(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server.Start(ctx) }()

		dials := 0
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				dials++
				near, far := net.Pipe()
				listener.accepted <- far
				return near, nil
			},
		}}
		for range 3 {
			response, err := client.Get("https://127.0.0.1:9443/")
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(response.Body); err != nil || string(text) != "ok" {
				t.Fatalf("got %q, %v", text, err)
			}
			_ = response.Body.Close()
			time.Sleep(http.DefaultTransport.(*http.Transport).IdleConnTimeout + time.Second)
		}
		if dials != 1 {
			t.Errorf("%d connections, want 1 that stays open", dials)
		}
		client.CloseIdleConnections()
		cancel()
		close(listener.accepted)
		<-done
	})
}
