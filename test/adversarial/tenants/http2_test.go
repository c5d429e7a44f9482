package tenants_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2 is a connection that writes frames as it likes.
type h2 struct {
	*http2.Framer
	conn    *tls.Conn
	headers []byte
	stream  uint32
}

func dialH2(ctx context.Context, s *stage, from string) (*h2, error) {
	target := s.target(from)
	config := target.TLS.Clone()
	config.NextProtos = []string{"h2"}
	raw, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", target.Address)
	if err != nil {
		return nil, err
	}
	conn := raw.(*tls.Conn)
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		return nil, fmt.Errorf("the protocol is %q", got)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	c := &h2{Framer: http2.NewFramer(conn, conn), conn: conn, stream: 1}
	if err := c.WriteSettings(); err != nil {
		return nil, err
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "https"}, {":authority", target.Address}, {":path", target.Path}, {"content-type", plainJSON},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1], Sensitive: true}); err != nil {
			return nil, err
		}
	}
	c.headers = block.Bytes()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	return c, nil
}

// open opens a stream.
func (c *h2) open() (uint32, error) {
	stream := c.stream
	c.stream += 2
	return stream, c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.headers, EndHeaders: true})
}

// reset opens streams and closes them at once.
func reset(c *h2) error {
	stream, err := c.open()
	if err != nil {
		return err
	}
	return c.WriteRSTStream(stream, http2.ErrCodeCancel)
}

// stall opens streams whose bodies do not end.
func stall(c *h2) error {
	stream, err := c.open()
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond)
	return c.WriteData(stream, false, bytes.Repeat([]byte(" "), 16<<10))
}

// ping asks for answers that are not read fast.
func ping(c *h2) error { return c.WritePing(false, [8]byte{}) }

// continued sends headers without end.
func continued(c *h2) error {
	if c.stream == 1 {
		c.stream = 3
		return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers})
	}
	return c.WriteContinuation(1, false, make([]byte, 1<<10))
}

// attackHTTP2 attacks by what only HTTP/2 has.
func attackHTTP2(s *stage) {
	for _, kind := range []struct {
		name string
		once func(*h2) error
	}{{"streams that are reset", reset}, {"pings", ping}, {"endless headers", continued}, {"streams that stall", stall}} {
		name, once := kind.name, kind.once
		ctx, cancel := context.WithTimeout(s.Context(), duration(1200*time.Millisecond, 5*time.Second))
		var attacking sync.WaitGroup
		connected := 0
		var mu sync.Mutex
		for range 10 {
			attacking.Go(func() {
				for ctx.Err() == nil {
					c, err := dialH2(ctx, s, "127.0.0.2")
					if err == nil {
						mu.Lock()
						connected++
						mu.Unlock()
						for frames := 0; err == nil && ctx.Err() == nil; frames++ {
							err = once(c)
							if frames%100 == 99 {
								// An attacker with a connection of limited speed.
								time.Sleep(5 * time.Millisecond)
							}
						}
						_ = c.conn.Close()
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		for ctx.Err() == nil {
			if err := innocentPair(s.Context(), shared.innocents[1]); err != nil {
				s.Errorf("%s: %v", name, err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		cancel()
		attacking.Wait()
		s.tally.mu.Lock()
		s.note("%s: %d connections, %d invalid Services stored so far", name, connected, len(s.tally.stored))
		s.tally.mu.Unlock()
		if connected == 0 {
			s.Errorf("%s: no connection", name)
		}
	}
}
