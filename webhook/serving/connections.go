package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

const (
	// grace is how long a connection may keep others waiting.
	grace = 500 * time.Millisecond
	// poll is how often the first one that waits looks for room.
	poll = 5 * time.Millisecond
	// maxWaiting is how many times as many connections may wait as are served. They need little memory.
	maxWaiting = 4
)

// connections bounds the number of connections that are served. Refusing further ones would let an attacker keep API
// servers out. Instead, the largest group loses the connection that has waited longest. A group has the same address and
// state: new (until the first request), active (until the response) or idle. So the address with the most connections
// loses first, and of the connections of one address the stalled ones do.
//
// A connection that would replace another one from its own address waits until that one has had some time, or until it
// has itself waited for as long. Otherwise an attacker that keeps connecting would also close the connections of API
// servers behind the same address, before they get to their request.
type connections struct {
	maximum int
	// patience is how long a connection waits.
	patience time.Duration
	evicted  prometheus.Counter
	// first is held by the connection that has waited longest.
	first   *semaphore.Weighted
	waiting atomic.Int64

	mu   sync.Mutex
	open map[*connection]struct{}
}

func newConnections(maximum int, patience time.Duration) *connections {
	return &connections{
		maximum: maximum, patience: patience, first: semaphore.NewWeighted(1), open: map[*connection]struct{}{},
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quaymaster_webhook_evicted_connections_total",
			Help: "Connections to the webhooks that were closed to make room for others.",
		}),
	}
}

func (c *connections) register(registerer prometheus.Registerer) error {
	return errors.Join(registerer.Register(c.evicted), registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quaymaster_webhook_open_connections",
		Help: "Open connections to the webhooks.",
	}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(len(c.open))
	})))
}

// observe implements ConnState of http.Server.
func (c *connections) observe(conn net.Conn, state http.ConnState) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if one, ok := conn.(*connection); ok && (state == http.StateActive || state == http.StateIdle) {
		one.enter(state)
	}
}

// listen returns a listener that accepts the connections.
func (c *connections) listen(l net.Listener) net.Listener { return &listener{l, c} }

type listener struct {
	net.Listener
	all *connections
}

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn, all: l.all, address: host(conn.RemoteAddr())}, nil
}

// wait returns when there is room for the connection.
func (c *connections) wait(one *connection) error {
	if c.add(one, false) {
		return nil
	}
	start := time.Now()
	defer c.waiting.Add(-1)
	if c.waiting.Add(1) > maxWaiting*int64(c.maximum) {
		return errTooMany
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	if c.first.Acquire(ctx, 1) != nil {
		return errTooMany
	}
	defer c.first.Release(1)
	for !c.add(one, time.Since(start) >= grace) {
		select {
		case <-ctx.Done():
			return errTooMany
		case <-time.After(poll):
		}
	}
	return nil
}

var errTooMany = errors.New("too many connections")

// add reports whether there is room for the connection, if necessary after closing another one.
func (c *connections) add(one *connection, hasWaited bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.maximum {
		loser := c.loser()
		if !hasWaited && loser.address == one.address && time.Now().UnixNano()-loser.since.Load() < int64(grace) {
			return false
		}
		delete(c.open, loser)
		c.evicted.Inc()
		_ = loser.Conn.Close()
	}
	one.enter(http.StateNew)
	c.open[one] = struct{}{}
	return true
}

// loser returns the connection of the largest group that has waited longest.
func (c *connections) loser() *connection {
	type group struct {
		address string
		state   int32
	}
	type members struct {
		number int
		oldest *connection
		since  int64
	}
	groups := map[group]members{}
	var largest members
	for one := range c.open {
		g := group{one.address, one.state.Load()}
		m := groups[g]
		m.number++
		if since := one.since.Load(); m.oldest == nil || since < m.since {
			m.oldest, m.since = one, since
		}
		groups[g] = m
	}
	for _, m := range groups {
		if m.number > largest.number || m.number == largest.number && m.since < largest.since {
			largest = m
		}
	}
	return largest.oldest
}

// host returns an address without its port.
func host(address net.Addr) string {
	name, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return name
}
