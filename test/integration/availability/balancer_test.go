package availability_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"quaymaster.dev/test/harness/env"
)

// late is the delay with which the balancer learns about readiness, like kube-proxy on a busy cluster.
const late = time.Second

// balancer is one address for several replicas, like a Service behind kube-proxy: a new connection goes to a ready
// replica, round robin, and stays with it for as long as both ends keep it open.
type balancer struct {
	port int

	mu       sync.Mutex
	replicas []*env.Webhook
	ready    []string
	turn     int
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{port: listener.Addr().(*net.TCPAddr).Port}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { b.probe(ctx) })
	running.Go(func() {
		for {
			client, err := listener.AcceptTCP()
			if err != nil {
				return // the listener is closed
			}
			running.Go(func() { forward(ctx, client, b.choose()) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		running.Wait()
	})
	return b
}

// add forwards connections to a replica while it is ready.
func (b *balancer) add(t *testing.T, w *env.Webhook) {
	t.Helper()
	b.mu.Lock()
	b.replicas = append(b.replicas, w)
	b.mu.Unlock()
	env.Eventually(t, soon, "connections to the new replica", func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !slices.Contains(b.ready, w.Address) {
			return errors.New("it is not ready")
		}
		return nil
	})
}

// probe checks periodically which replicas are ready.
func (b *balancer) probe(ctx context.Context) {
	ticker := time.NewTicker(late)
	defer ticker.Stop()
	for ctx.Err() == nil {
		b.mu.Lock()
		replicas := slices.Clone(b.replicas)
		b.mu.Unlock()
		var ready []string
		for _, w := range replicas {
			if w.Ready(ctx) == nil {
				ready = append(ready, w.Address)
			}
		}
		b.mu.Lock()
		b.ready = ready
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// choose returns the next address, round robin; it is empty if no replica is ready.
func (b *balancer) choose() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return ""
	}
	b.turn++
	return b.ready[b.turn%len(b.ready)]
}

// forward copies bytes in both directions, and the end of each, until both have ended or the context has.
func forward(ctx context.Context, client *net.TCPConn, address string) {
	defer client.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return // the client's connection is closed
	}
	defer conn.Close()
	server := conn.(*net.TCPConn)
	defer context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})()
	var ways sync.WaitGroup
	for from, to := range map[*net.TCPConn]*net.TCPConn{client: server, server: client} {
		ways.Go(func() {
			// The end of a connection on one side ends it on the other.
			_, _ = io.Copy(to, from)
			_ = to.CloseWrite()
		})
	}
	ways.Wait()
}
