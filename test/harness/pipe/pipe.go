// Package pipe connects HTTP clients and servers inside one process, without sockets, so that they work on the virtual
// time of testing/synctest.
package pipe

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Listener accepts the connections that Dial opens.
type Listener struct {
	connections chan net.Conn
	once        sync.Once
	closed      chan struct{}
}

// Listen returns a Listener.
func Listen() *Listener {
	return &Listener{connections: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return address{} }

// Dial opens a connection, whatever the address.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Transport returns a client's transport to the server behind the Listener.
func (l *Listener) Transport() *http.Transport {
	return &http.Transport{DialContext: l.Dial, MaxIdleConnsPerHost: 100}
}

// address is the address of every Listener.
type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "pipe" }
