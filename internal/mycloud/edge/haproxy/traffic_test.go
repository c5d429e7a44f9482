package haproxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

func address(l config.Listener) string { return netip.AddrPortFrom(l.Address, l.Port).String() }

// dial connects to a listener, from a source address if one is given.
func dial(t testing.TB, l config.Listener, source string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 5 * time.Second}
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	c, err := d.Dial("tcp", address(l))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// says sends a line and reports whether it comes back.
func says(c net.Conn, line string) bool {
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return false
	}
	answer := make([]byte, len(line)+1)
	_, err := io.ReadFull(c, answer)
	return err == nil && string(answer) == line+"\n"
}

func TestNothingFailsOverReloadsAndMemberChanges(t *testing.T) {
	e := newEngine(t, nil)
	web, long := listener(t, "http", "tcp/80"), listener(t, "tcp", "tcp/81")
	members := []config.Member{member(t, "a"), member(t, "b"), member(t, "c")}
	c := &config.Config{
		Listeners: []config.Listener{web, long},
		Pools:     []config.Pool{pool("tcp/80", members...), pool("tcp/81", echo(t, "d"))},
	}
	apply(t, e, c)

	var connections []net.Conn
	for range 10 {
		connections = append(connections, dial(t, long, ""))
	}
	var requests, failed atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			client := &http.Client{
				Transport: &http.Transport{DisableKeepAlives: i%2 == 0}, Timeout: 5 * time.Second,
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := client.Get(url(web))
				if requests.Add(1); err != nil {
					failed.Add(1)
					t.Log(err)
					continue
				}
				if _, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 200 {
					failed.Add(1)
					t.Log(r.StatusCode, err)
				}
				r.Body.Close()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	extra, first := listener(t, "http", "tcp/90"), worker(t, e)
	extra.Pool = web.Pool
	for round := range 10 {
		// By turns a listener comes and goes; in between a member leaves, returns, drains and no longer drains.
		c.Listeners = []config.Listener{web, long}
		if round%2 == 0 {
			c.Listeners = append(c.Listeners, extra)
		}
		apply(t, e, c)
		for change := range 4 {
			changed := []config.Member{members[0], members[1], members[2]}
			switch change {
			case 0:
				changed = changed[:2]
			case 2:
				changed[1].Draining = true
			}
			c.Pools[0].Members = changed
			apply(t, e, c)
		}
		for i, connection := range connections {
			if !says(connection, "round") {
				t.Errorf("round %d: long connection %d is broken", round, i)
			}
		}
	}
	close(stop)
	load.Wait()
	if worker(t, e) == first {
		t.Error("there was no reload")
	}
	t.Logf("%d requests, %d failed", requests.Load(), failed.Load())
	if failed.Load() > 0 || requests.Load() < 100 {
		t.Errorf("%d of %d requests failed", failed.Load(), requests.Load())
	}
}

// offer calls try as often as a busy machine allows, for a second and the measured time, and returns how many calls of
// the latter succeeded, and how many there were.
func offer(perSecond int, measured time.Duration, try func() bool) (passed, offered int) {
	var succeeded atomic.Int64
	var tries sync.WaitGroup
	start := time.Now()
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for now := range ticker.C {
		if now.Sub(start) > time.Second+measured {
			break
		}
		counts := now.Sub(start) > time.Second
		if counts {
			offered++
		}
		tries.Go(func() {
			if try() && counts {
				succeeded.Add(1)
			}
		})
	}
	tries.Wait()
	return int(succeeded.Load()), offered
}

func TestMaxQPS(t *testing.T) {
	e := newEngine(t, nil)
	web, tcp := listener(t, "http", "tcp/80"), listener(t, "tcp", "tcp/81")
	web.MaxQPS, tcp.MaxQPS = 50, 50
	c := &config.Config{
		Listeners: []config.Listener{web, tcp},
		Pools:     []config.Pool{pool("tcp/80", member(t, "a")), pool("tcp/81", echo(t, "b"))},
	}
	apply(t, e, c)
	client := &http.Client{Timeout: 5 * time.Second}
	tries := map[string]func() bool{
		"http": func() bool {
			r, err := client.Get(url(web))
			if err != nil {
				return false
			}
			defer r.Body.Close()
			io.Copy(io.Discard, r.Body)
			if r.StatusCode == http.StatusTooManyRequests && r.Header.Get("Retry-After") != "1" {
				t.Error("429 has no Retry-After")
			}
			return r.StatusCode == 200
		},
		"tcp": func() bool {
			connection, err := net.Dial("tcp", address(tcp))
			if err != nil {
				return false
			}
			defer connection.Close()
			return says(connection, "x")
		},
	}
	var both sync.WaitGroup
	for name, try := range tries {
		both.Go(func() {
			// Twice as many as are allowed are offered.
			passed, offered := offer(100, 3*time.Second, try)
			if passed < min(130, offered*13/30) || passed > 165 {
				t.Errorf("%s: %d of %d passed in 3 s, want 50 in each", name, passed, offered)
			}
		})
	}
	both.Wait()
	counters, err := e.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, counter := range counters {
		if counter.Accepted < 150 || counter.Refused < 50 || counter.Accepted+counter.Refused > 420 {
			t.Errorf("counters are %+v", counter)
		}
	}
}

func TestMaxConnectionsAndSources(t *testing.T) {
	e := newEngine(t, nil)
	l := listener(t, "tcp", "tcp/80")
	l.MaxConnections, l.Allowed = 2, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/29"), netip.MustParsePrefix("10.0.0.0/8")}
	apply(t, e, &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{pool("tcp/80", echo(t, "a"))}})
	outside := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.9")}}
	if c, err := outside.Dial("tcp", address(l)); err == nil && says(c, "x") {
		t.Error("a client outside the source ranges is served")
	}
	// A connection counts until HAProxy has closed it, which its client may see before.
	open := func() (c net.Conn) {
		eventually(t, time.Second, "a connection within the limit", func() bool {
			var err error
			if c, err = net.Dial("tcp", address(l)); err != nil {
				return false
			}
			t.Cleanup(func() { c.Close() })
			return says(c, "x")
		})
		return c
	}
	first, _ := open(), open()
	serves := func() bool {
		c, err := net.Dial("tcp", address(l))
		if err != nil {
			return false
		}
		defer c.Close()
		return says(c, "x")
	}
	if serves() {
		t.Error("a connection beyond the limit is served")
	}
	first.Close()
	eventually(t, time.Second, "a connection in the place of one that has ended", serves)
	counters, err := e.Counters(t.Context())
	if err != nil || len(counters) != 1 || counters[0].Accepted < 3 || counters[0].Refused < 2 || counters[0].BytesIn == 0 {
		t.Errorf("counters are %+v, error %v", counters, err)
	}
}

func TestIdleTimeoutProxyProtocolAndIPv6(t *testing.T) {
	e := newEngine(t, nil)
	accepting, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 on loopback")
	}
	defer accepting.Close()
	l := listener(t, "tcp", "tcp/80")
	l.Address, l.Pool.Family, l.ProxyProtocol, l.IdleTimeout = netip.IPv6Loopback(), "ipv6", "v1", 300*time.Millisecond
	p := pool("tcp/80", memberAt("a", accepting.Addr()))
	p.ID.Family = "ipv6"
	apply(t, e, &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}})
	client := dial(t, l, "")
	io.WriteString(client, "hello\n")
	start := time.Now()
	server, err := accepting.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	lines := bufio.NewReader(server)
	header, _ := lines.ReadString('\n')
	line, _ := lines.ReadString('\n')
	if !strings.HasPrefix(header, "PROXY TCP6 ::1 ::1 ") || line != "hello\n" {
		t.Errorf("the member receives %q and %q", header, line)
	}
	if _, err := io.ReadAll(lines); err != nil {
		t.Log(err)
	}
	if idle := time.Since(start); idle < 200*time.Millisecond || idle > 3*time.Second {
		t.Errorf("an idle connection is closed after %v", idle)
	}
}

// askFrom sends one request from a source address, and returns the body.
func askFrom(t testing.TB, l config.Listener, source string) string {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 5 * time.Second}
	client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	r, err := client.Get(url(l))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	return string(body)
}

func TestAffinity(t *testing.T) {
	e := newEngine(t, nil)
	l := listener(t, "http", "tcp/80")
	p := pool("tcp/80", member(t, "a"), member(t, "b"))
	p.Algorithm = cloudv1.AlgorithmSourceIP
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}}
	apply(t, e, c)
	sources := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8"}
	chosen := map[string]string{}
	for _, source := range sources {
		chosen[source] = askFrom(t, l, source)
	}
	for _, key := range []string{"c", "d", "e", "f"} {
		c.Pools[0].Members = append(c.Pools[0].Members, member(t, key))
	}
	apply(t, e, c)
	c.Listeners[0].IdleTimeout = 50 * time.Second
	apply(t, e, c)
	for _, source := range sources {
		now := askFrom(t, l, source)
		if now != chosen[source] && (now == "a" || now == "b") {
			t.Errorf("client %s moved from %s to %s, which is not new", source, chosen[source], now)
		}
		chosen[source] = now
	}
	c.Listeners[0].IdleTimeout = 40 * time.Second
	apply(t, e, c)
	for _, source := range sources {
		if now := askFrom(t, l, source); now != chosen[source] {
			t.Errorf("client %s moved from %s to %s by a reload", source, chosen[source], now)
		}
	}

	// A member that drains gets not even these.
	c.Pools[0].Members[0].Draining = true
	apply(t, e, c)
	for _, source := range sources {
		if now := askFrom(t, l, source); now == "a" {
			t.Errorf("client %s is still sent to the member that drains", source)
		} else if chosen[source] != "a" && now != chosen[source] {
			t.Errorf("client %s moved from a member that stays to %s", source, now)
		}
	}
}

// A client may open connections before it has requests, as browsers do. One that is closed because none came must not be
// answered: the answer would be taken for that to a request that is sent at this moment.
func TestUnusedConnectionsAreClosedSilently(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l, p := other(t)
	apply(t, e, &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}})
	unused := dial(t, l, "")
	unused.SetReadDeadline(time.Now().Add(30 * time.Second))
	if answer, err := io.ReadAll(unused); err != nil || len(answer) > 0 {
		t.Errorf("the answer is %.30q, error %v", answer, err)
	}
	begun := dial(t, l, "")
	if _, err := io.WriteString(begun, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	begun.SetReadDeadline(time.Now().Add(30 * time.Second))
	if answer, err := io.ReadAll(begun); err != nil || !strings.Contains(string(answer), " 408 ") {
		t.Errorf("a request that does not end is answered by %.30q, error %v", answer, err)
	}
}
