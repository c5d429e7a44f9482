// Package adversarial attacks a webhook server as a pod without any rights could. Tests and benchmarks run the attacks
// and observe whether API servers still get their answers.
package adversarial

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Target is the server under attack.
type Target struct {
	// Address is its host and port.
	Address string
	// Path is that of a webhook.
	Path string
	// TLS trusts the server; a client certificate is optional.
	TLS *tls.Config
	// From is the IP address to connect from; empty for any.
	From string
}

// Attack is one way of keeping a server from its work.
type Attack struct {
	// Name says what the attacker does.
	Name string
	// once attacks with one connection, until the server closes it or the context ends.
	once func(context.Context, Target) error
}

const (
	// smallBuffer is the size of an attacker's receive buffer.
	smallBuffer = 4 << 10
	// drip is the pause between bytes of a slow sender.
	drip = 50 * time.Millisecond
	// announced is the length of a body that does not arrive. Two of them used to be enough.
	announced = 4 << 20
	// stalled is the length of a body that arrives except for its last byte. Sending longer ones in a loop would take more
	// of the attacker's processors than of the server's.
	stalled = 256 << 10
	// pause keeps an attacker whose connections fail from using all processors itself: with handshakes alone, the
	// side with most of them wins.
	pause = 100 * time.Millisecond
)

// Attacks returns all attacks on the server. See Objects for those on the handlers.
func Attacks() []Attack {
	return []Attack{
		{"stalled handshakes", stalledHandshake},
		{"slow headers", slowHeaders},
		{"announced bodies that never arrive", func(ctx context.Context, t Target) error { return sendBody(ctx, t, announced, 0, false) }},
		{"slow bodies", func(ctx context.Context, t Target) error { return sendBody(ctx, t, announced, 0, true) }},
		{"bodies that stall before the end", func(ctx context.Context, t Target) error { return sendBody(ctx, t, stalled, stalled-1, false) }},
		{"small bodies that stall before the end", stalledSmallBody},
		{"idle connections", idle},
		{"unread responses", unreadResponses},
		{"many short connections", shortConnection},
		{"slow bodies to unknown paths", func(ctx context.Context, t Target) error {
			t.Path = "/unknown"
			return sendBody(ctx, t, announced, 0, true)
		}},
	}
}

// Run attacks with that many connections at a time until the context ends, and waits for their end.
func (a Attack) Run(ctx context.Context, t Target, connections int) {
	var running sync.WaitGroup
	for range connections {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := a.once(ctx, t); err != nil {
					sleep(ctx, pause)
				}
			}
		})
	}
	running.Wait()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// dial opens a connection that is closed when the context ends.
func dial(ctx context.Context, t Target) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if t.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(t.From)}
	}
	conn, err := dialer.DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return nil, fmt.Errorf("attack: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	if tcp, ok := conn.(*net.TCPConn); ok {
		// So that responses that are not read soon get in the way.
		_ = tcp.SetReadBuffer(smallBuffer)
	}
	return conn, nil
}

func dialTLS(ctx context.Context, t Target) (*tls.Conn, error) {
	raw, err := dial(ctx, t)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, t.TLS)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("attack: %w", err)
	}
	return conn, nil
}

// wait returns when the server closes the connection.
func wait(conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	_, err := conn.Read(make([]byte, 1))
	for err == nil {
		_, err = conn.Read(make([]byte, 1024))
	}
	return err
}

func stalledHandshake(ctx context.Context, t Target) error {
	conn, err := dial(ctx, t)
	if err != nil {
		return err
	}
	return wait(conn)
}

// drop sends a byte from time to time until the server closes the connection.
func drop(ctx context.Context, conn net.Conn) error {
	go func() { _ = wait(conn) }()
	for {
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		sleep(ctx, drip)
	}
}

func slowHeaders(ctx context.Context, t Target) error {
	conn, err := dialTLS(ctx, t)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "POST %s?timeout=30s HTTP/1.1\r\nHost: %s\r\nX-Slow: ", t.Path, t.Address); err != nil {
		return err
	}
	return drop(ctx, conn)
}

func head(t Target, length int) string {
	return fmt.Sprintf("POST %s?timeout=30s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		t.Path, t.Address, length)
}

// sendBody announces a body, sends a part of it, and then sends nothing or a byte from time to time.
func sendBody(ctx context.Context, t Target, length, sent int, slowly bool) error {
	conn, err := dialTLS(ctx, t)
	if err != nil {
		return err
	}
	if _, err := conn.Write([]byte(head(t, length) + strings.Repeat(" ", sent))); err != nil {
		_ = conn.Close()
		return err
	}
	if slowly {
		return drop(ctx, conn)
	}
	return wait(conn)
}

func stalledSmallBody(ctx context.Context, t Target) error {
	conn, err := dialTLS(ctx, t)
	if err != nil {
		return err
	}
	const length = 16 << 10
	if _, err := conn.Write([]byte(head(t, length) + strings.Repeat(" ", length-1))); err != nil {
		_ = conn.Close()
		return err
	}
	return wait(conn)
}

// idle makes the server answer once, so that the connection looks like one of an API server.
func idle(ctx context.Context, t Target) error {
	conn, err := dialTLS(ctx, t)
	if err != nil {
		return err
	}
	body := Review(SmallService())
	if _, err := conn.Write(append([]byte(head(t, len(body))), body...)); err != nil {
		_ = conn.Close()
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		_ = conn.Close()
		return err
	}
	_ = response.Body.Close()
	return wait(conn)
}

// unreadResponses sends requests without reading the responses, until the server stops reading.
func unreadResponses(ctx context.Context, t Target) error {
	conn, err := dialTLS(ctx, t)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	body := Review(SmallService())
	request := append([]byte(head(t, len(body))), body...)
	for {
		if _, err := conn.Write(request); err != nil {
			return err
		}
	}
}

func shortConnection(ctx context.Context, t Target) error {
	conn, err := dialTLS(ctx, t)
	if err != nil {
		return err
	}
	return conn.Close()
}
