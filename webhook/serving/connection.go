package serving

import (
	"encoding/binary"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// phase is what a connection has come to.
type phase int

const (
	// arrived connections wait for room.
	arrived phase = iota
	handshake
	secured
	// unused connections wait for their first request, which http.Server has given a deadline. With HTTP/2, it gives none.
	unused
	used
)

// connection is a connection and its group.
//
// API servers open connections for requests that other connections then serve, and use them for later requests. The
// deadline that http.Server gives the first request begins with the end of the handshake, so it would close such a
// connection, perhaps while its first request is on its way. Here, that deadline begins with the request.
type connection struct {
	net.Conn
	all     *connections
	address string
	state   atomic.Int32
	// since is when the state changed, in nanoseconds since 1970.
	since atomic.Int64
	// phase and record change in one goroutine, until the first request has arrived.
	phase  phase
	record record
}

// Read waits for room first.
func (c *connection) Read(b []byte) (int, error) {
	if c.phase == arrived {
		if err := c.all.wait(c); err != nil {
			return 0, err
		}
		c.phase = handshake
		// The server has set a deadline for the handshake before the wait. It sets others later.
		if err := c.SetDeadline(time.Now().Add(c.all.patience)); err != nil {
			return 0, err
		}
	}
	if c.phase == handshake {
		// Nothing of the first request is read before the handshake ends.
		b = b[:c.record.limit(len(b))]
	}
	n, err := c.Conn.Read(b)
	switch {
	case c.phase == handshake:
		c.record.add(b[:n])
	case c.phase == unused && err == nil:
		c.phase = used
		err = c.Conn.SetReadDeadline(time.Now().Add(c.all.patience))
	}
	return n, err
}

// SetReadDeadline lets an unused connection wait for its first request for as long as others do for their next one.
// http.Server removes the deadline when the handshake has ended.
func (c *connection) SetReadDeadline(t time.Time) error {
	switch {
	case c.phase == handshake && t.IsZero():
		c.phase = secured
	case c.phase == secured && !t.IsZero():
		c.phase, t = unused, time.Now().Add(idleTimeout)
	}
	return c.Conn.SetReadDeadline(t)
}

// Close makes room for another connection.
func (c *connection) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

func (c *connection) enter(state http.ConnState) {
	c.since.Store(time.Now().UnixNano())
	c.state.Store(int32(state))
}

// record is the TLS record that is being read: a header, which ends with a length, and as many bytes (RFC 8446, 5.1).
type record struct {
	header [5]byte
	// read is the number of bytes of the header that have been read, and rest is how many follow it.
	read, rest int
}

// limit returns how many of n bytes may be read without reading into the next record.
func (r *record) limit(n int) int {
	if r.read < len(r.header) {
		return min(n, len(r.header)-r.read)
	}
	return min(n, r.rest)
}

// add notes what was read.
func (r *record) add(b []byte) {
	if r.read < len(r.header) {
		r.read += copy(r.header[r.read:], b)
		if r.read < len(r.header) {
			return
		}
		r.rest = int(binary.BigEndian.Uint16(r.header[3:]))
	} else {
		r.rest -= len(b)
	}
	if r.rest == 0 {
		r.read = 0
	}
}
