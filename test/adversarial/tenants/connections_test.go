package tenants_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"quaymaster.dev/test/adversarial"
)

const (
	// crowd is how many connections strangers keep open.
	crowd = 12_000
	// replaced is how many of them strangers replace in a second.
	replaced = 500
	// spare is how many files the test needs besides.
	spare = 1_000
	// patience is how long strangers try to open them, and for one of them.
	patience, dialPatience = 4 * time.Second, 500 * time.Millisecond
	// soonEnough is how long a kubelet or Prometheus waits.
	soonEnough = time.Second
)

// strangers keep connections open, and open further ones.
type strangers struct {
	mu     sync.Mutex
	open   []net.Conn
	opened int
	stop   func()
}

// occupyPort opens connections to an address and sends some bytes over each. It returns when that many are open or the server
// accepts no more, and then continues to replace the oldest ones.
func occupyPort(ctx context.Context, address, from string, n int, greeting []byte) *strangers {
	const dialers = 64
	ctx, cancel := context.WithCancel(ctx)
	c := &strangers{}
	var dialing sync.WaitGroup
	next := make(chan struct{})
	for range dialers {
		dialing.Go(func() {
			dialer := &net.Dialer{Timeout: dialPatience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			for range next {
				if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
					_, _ = conn.Write(greeting)
					c.add(conn, n)
				}
			}
		})
	}
	occupied := make(chan struct{})
	dialing.Go(func() {
		defer close(next)
		begin := time.Now()
		for i := 0; ; i++ {
			if i == n || i < n && time.Since(begin) > patience {
				i = max(i, n)
				close(occupied)
			}
			if i >= n {
				time.Sleep(time.Second / replaced)
			}
			select {
			case next <- struct{}{}:
			case <-ctx.Done():
				if i < n {
					close(occupied)
				}
				return
			}
		}
	})
	c.stop = func() {
		cancel()
		dialing.Wait()
		for _, conn := range c.open {
			end(conn)
		}
	}
	<-occupied
	return c
}

func (c *strangers) add(conn net.Conn, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened++
	if c.open = append(c.open, conn); len(c.open) > most {
		end(c.open[0])
		c.open = c.open[1:]
	}
}

func (c *strangers) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// end resets a connection, so that it does not wait for packets.
func end(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// allowedCrowd returns how many connections this process may open.
func (s *stage) allowedCrowd() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		s.Fatal(err)
	}
	if limit.Cur >= crowd+spare {
		return crowd
	}
	n := max(0, int(limit.Cur)-spare)
	s.note("%d connections only: the limit on open files is %d", n, limit.Cur)
	return n
}

// occupy keeps connections open to every port of the webhook, and sends nothing or too little.
func occupy(s *stage) {
	n := s.allowedCrowd()
	health, metrics, webhooks := s.webhook.Health, hostOf(s.webhook.Metrics), s.webhook.Address
	headers := []byte("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	// The head of a record with a ClientHello that does not arrive.
	hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}
	const same, other = "127.0.0.1", "127.0.0.2"
	for _, crowd := range []struct {
		what, address, from string
		greeting            []byte
		long                bool
	}{
		{"idle connections to the health port", health, same, nil, false},
		{"slow headers to the health port", health, same, headers, true},
		{"idle connections to the metrics port", metrics, same, nil, false},
		{"slow headers to the metrics port", metrics, other, headers, true},
		{"idle connections to the webhooks", webhooks, same, nil, false},
		{"stalled handshakes with the webhooks", webhooks, other, hello, false},
		{"stalled handshakes with the webhooks from its API server's address", webhooks, same, hello, true},
	} {
		if crowd.long && !*full {
			continue
		}
		open := occupyPort(s.Context(), crowd.address, crowd.from, n, crowd.greeting)
		s.answersSoon(crowd.what)
		time.Sleep(duration(500*time.Millisecond, 5*time.Second))
		s.answersSoon(crowd.what)
		s.note("%s: %d opened, %d MiB", crowd.what, open.count(), s.memory().Resident/mebibyte)
		open.stop()
	}
}

// answersSoon fails the test unless probes, scrapes and reviews get an answer.
func (s *stage) answersSoon(during string) {
	s.Helper()
	for what, url := range map[string]string{
		"a probe": "http://" + s.webhook.Health + "/healthz", "a scrape": s.webhook.Metrics,
	} {
		if _, err := fetch(s.Context(), url, soonEnough); err != nil {
			s.Errorf("%s during %s: %v", what, during, err)
		}
	}
	if err := innocentPair(s.Context(), shared.innocents[1]); err != nil {
		s.Errorf("during %s: %v", during, err)
	}
}

func hostOf(url string) string {
	var host string
	if _, err := fmt.Sscanf(url, "http://%s", &host); err != nil {
		panic(err)
	}
	for i := range host {
		if host[i] == '/' {
			return host[:i]
		}
	}
	return host
}

// target is the webhook as strangers see it.
func (s *stage) target(from string) adversarial.Target {
	return adversarial.Target{
		Address: s.webhook.Address, Path: "/validate-service", From: from,
		// The attacker does not care whom it talks to.
		TLS: &tls.Config{InsecureSkipVerify: true},
	}
}

// stallBodies keeps some connections with bodies that are large enough to count as such, and then do not arrive. Services
// of innocent tenants that are as large must not wait for them.
func stallBodies(s *stage) {
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		ctx, cancel := context.WithTimeout(s.Context(), duration(4*time.Second, 20*time.Second))
		var stalling sync.WaitGroup
		for i := range 60 {
			stalling.Go(func() {
				for ctx.Err() == nil {
					if err := stallBody(ctx, s.target(from), i%2 == 0); err != nil && ctx.Err() == nil {
						time.Sleep(50 * time.Millisecond)
					}
				}
			})
		}
		asked := 0
		for ; ctx.Err() == nil; asked++ {
			s.crowdOfPadded()
		}
		cancel()
		stalling.Wait()
		s.note("from %s: 8 large Services were tried %d times", from, asked)
	}
}

// crowdOfPadded creates several large Services with mistakes at a time.
func (s *stage) crowdOfPadded() {
	u := shared.innocents[2]
	body := encode(service("crowd", mistake, padded(padding)))
	s.concurrently(8, func(int) {
		s.expectRefusal("a large Service of a crowd", u.send(s.Context(), http.MethodPost, servicesOf(u.name)+"?dryRun=All", plainJSON, body))
	})
}

// stallBody sends the begin of a review, and waits until the server closes the connection.
func stallBody(ctx context.Context, t adversarial.Target, chunked bool) error {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(t.From)}}, Config: t.TLS}
	conn, err := dialer.DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	begin := reviewOf("services", `{"metadata":{"annotations":{"a":"`+strings.Repeat("a", 20<<10)+`"}`, "")
	begin = begin[:strings.LastIndex(begin, `"}`)]
	length, body := fmt.Sprintf("Content-Length: %d", 1<<20), begin
	if chunked {
		length, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(begin), begin)
	}
	if _, err := fmt.Fprintf(conn, "POST %s?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n%s",
		t.Path, length, body); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// attackServer runs the attacks on the server: all at once or, with -full, one after the other.
func attackServer(s *stage) {
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		var groups [][]adversarial.Attack
		if *full {
			for _, a := range adversarial.Attacks() {
				groups = append(groups, []adversarial.Attack{a})
			}
		} else {
			groups = append(groups, adversarial.Attacks())
		}
		for _, group := range groups {
			ctx, cancel := context.WithTimeout(s.Context(), duration(2500*time.Millisecond, 4*time.Second))
			var attacking sync.WaitGroup
			for _, a := range group {
				attacking.Go(func() { a.Run(ctx, s.target(from), 600/len(group)/4) })
			}
			for ctx.Err() == nil {
				if err := innocentPair(s.Context(), shared.innocents[1]); err != nil {
					s.Errorf("%s from %s: %v", group[0].Name, from, err)
				}
				time.Sleep(200 * time.Millisecond)
			}
			cancel()
			attacking.Wait()
		}
	}
}
