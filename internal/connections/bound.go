// Package connections bounds how many connections a server has, so that strangers cannot keep others out.
package connections

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// unusedGrace is how long a connection without a request may keep others waiting, and grace how long any other may.
	unusedGrace = 100 * time.Millisecond
	grace       = 500 * time.Millisecond
)

// Bound is a listener with a bounded number of connections. Refusing further ones would let an attacker keep others out.
// Instead, the oldest connection without a request is closed or, if there is none, the one whose state changed longest
// ago: requests take milliseconds, and clients open connections again. Those of clients that the server trusts are closed
// only if there are no others. While every connection is fresh, the next one waits, and the kernel has those behind it.
type Bound struct {
	net.Listener
	most    int
	evicted func()

	mu   sync.Mutex
	open map[*bounded]struct{}
	// room tells Accept that a connection was closed.
	room chan struct{}
}

// NewBound returns a listener of at most that many connections, which calls evicted for each one that it closes. The
// http.Server must report to Observe.
func NewBound(l net.Listener, most int, evicted func()) *Bound {
	return &Bound{Listener: l, most: most, evicted: evicted, open: map[*bounded]struct{}{}, room: make(chan struct{}, 1)}
}

// bounded is a connection with the state that it is in, and since when.
type bounded struct {
	net.Conn
	by    *Bound
	state http.ConnState
	since time.Time
	// trusted is true once a request of the connection was authenticated.
	trusted bool
}

// Close makes room for another connection.
func (c *bounded) Close() error {
	c.by.mu.Lock()
	delete(c.by.open, c)
	c.by.mu.Unlock()
	select {
	case c.by.room <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// Accept returns the next connection once there is room for it.
func (b *Bound) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &bounded{Conn: conn, by: b, since: time.Now()}
	for {
		wait := b.add(one)
		if wait <= 0 {
			return one, nil
		}
		select {
		case <-b.room:
		case <-time.After(wait):
		}
	}
}

// add adds a connection if there is room, or if another one has had its time and can be closed. Otherwise, it returns how
// long that takes.
func (b *Bound) add(one *bounded) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= b.most {
		loser, wait := b.loser()
		if wait > 0 {
			return wait
		}
		delete(b.open, loser)
		_ = loser.Conn.Close()
		b.evicted()
	}
	one.since = time.Now()
	b.open[one] = struct{}{}
	return 0
}

// loser returns the connection to close, and how long it may stay.
func (b *Bound) loser() (loser *bounded, wait time.Duration) {
	var unused, used, trusted *bounded
	for one := range b.open {
		oldest := &used
		switch {
		case one.trusted:
			oldest = &trusted
		case one.state == http.StateNew:
			oldest = &unused
		}
		if *oldest == nil || one.since.Before((*oldest).since) {
			*oldest = one
		}
	}
	if unused == nil && used == nil {
		used = trusted
	}
	if unused != nil {
		loser, wait = unused, unusedGrace-time.Since(unused.since)
	}
	if used != nil && wait >= 0 {
		if left := grace - time.Since(used.since); loser == nil || left < wait {
			loser, wait = used, left
		}
	}
	return loser, wait
}

// Len returns the number of open connections.
func (b *Bound) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// Observe is to be ConnState of the http.Server.
func (b *Bound) Observe(conn net.Conn, state http.ConnState) {
	if one := boundedOf(conn); one != nil {
		b.mu.Lock()
		one.state, one.since = state, time.Now()
		b.mu.Unlock()
	}
}

type connectionKey struct{}

// Context is to be ConnContext of the http.Server if its handler calls Trust.
func (b *Bound) Context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, boundedOf(conn))
}

// boundedOf returns the connection that a Bound has accepted; nil for any other.
func boundedOf(conn net.Conn) *bounded {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	one, _ := conn.(*bounded)
	return one
}

// Trust marks the connection of a request that was authenticated. ctx is that of the request.
func Trust(ctx context.Context) {
	if one, _ := ctx.Value(connectionKey{}).(*bounded); one != nil {
		one.by.mu.Lock()
		one.trusted = true
		one.by.mu.Unlock()
	}
}
