package edge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// load is traffic from the client that goes on until it is stopped.
type load struct {
	stop func()
	wait func()

	sent, failed atomic.Int64
	mu           sync.Mutex
	// first are the first errors.
	first []error
}

// maxErrors is how many errors a load keeps.
const maxErrors = 5

func (l *load) note(err error) {
	l.sent.Add(1)
	if err == nil {
		return
	}
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.first) < maxErrors {
		l.first = append(l.first, fmt.Errorf("%s: %w", time.Now().UTC().Format("15:04:05.000"), err))
	}
}

// end stops the load and returns an error if anything failed.
func (l *load) end() error {
	l.stop()
	l.wait()
	if n := l.failed.Load(); n > 0 {
		return fmt.Errorf("%d of %d failed, such as: %v", n, l.sent.Load(), l.first)
	}
	return nil
}

func (w *world) newLoad() (*load, context.Context, *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(context.Background())
	running := &sync.WaitGroup{}
	l := &load{stop: cancel, wait: running.Wait}
	w.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return l, ctx, running
}

// paced calls do so many times a second, each in a goroutine, until ctx is done.
func paced(ctx context.Context, running *sync.WaitGroup, rate int, do func()) {
	running.Go(func() {
		start := time.Now()
		for n := 1; ctx.Err() == nil; n++ {
			running.Go(do)
			if ahead := time.Until(start.Add(time.Duration(n) * time.Second / time.Duration(rate))); ahead > 0 {
				time.Sleep(ahead)
			}
		}
	})
}

// requests asks over new connections, so many times a second.
func (w *world) requests(at netip.AddrPort, rate int) *load {
	l, ctx, running := w.newLoad()
	paced(ctx, running, rate, func() {
		// On a busy machine, the client does not run for a second now and then, and would time out with no packet lost.
		_, _, err := w.askWithin(5*time.Second, "tcp", at)
		l.note(err)
	})
	return l
}

// sentOnce returns an error if a packet of a new connection had to be sent again.
func sentOnce(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	var failed error
	err = raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if info.Total_retrans > 0 {
		return fmt.Errorf("%d packets were sent again", info.Total_retrans)
	}
	return nil
}

// httpClient returns a client whose connections are the client machine's.
func (w *world) httpClient() *http.Client {
	return &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		DialContext: w.Client.Dial, MaxIdleConnsPerHost: 100, MaxConnsPerHost: 200,
	}}
}

// get returns status and body.
func get(client *http.Client, url string) (int, string, error) {
	response, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// httpRequests gets a page over kept connections, so many times a second.
func (w *world) httpRequests(at netip.AddrPort, rate int) *load {
	client := w.httpClient()
	l, ctx, running := w.newLoad()
	paced(ctx, running, rate, func() {
		status, _, err := get(client, "http://"+at.String()+"/")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		l.note(err)
	})
	return l
}

// pause is the time between exchanges of long connections.
const pause = 100 * time.Millisecond

// long keeps connections open and asks on each of them again and again. What fails is a broken connection.
func (w *world) long(at netip.AddrPort, number int) (*load, map[string]int) {
	w.Helper()
	l, ctx, running := w.newLoad()
	nodes := map[string]int{}
	for range number {
		dialing, cancel := context.WithTimeout(ctx, time.Second)
		conn, err := w.Client.Dial(dialing, "tcp", at.String())
		cancel()
		w.must(err)
		first, _, err := exchange(conn)
		w.must(err)
		nodes[first]++
		running.Go(func() {
			defer func() { _ = conn.Close() }()
			for ctx.Err() == nil {
				time.Sleep(pause)
				// After a gap, a packet is sent again up to twice as late as the gap was long, or later on a busy machine.
				node, _, err := exchangeWithin(conn, 10*time.Second)
				if err == nil && node != first {
					err = fmt.Errorf("moved from %s to %s", first, node)
				}
				if l.note(err); err != nil {
					return
				}
			}
		})
	}
	return l, nodes
}

// packets sends packets from so many sockets, and counts those without an answer.
func (w *world) packets(at netip.AddrPort, sockets, rate int) *load {
	w.Helper()
	l, ctx, running := w.newLoad()
	for range sockets {
		conn, err := w.Client.Dial(ctx, "udp", at.String())
		w.must(err)
		running.Go(func() {
			defer func() { _ = conn.Close() }()
			for ctx.Err() == nil {
				_, _, err := exchange(conn)
				l.note(err)
				time.Sleep(time.Duration(sockets) * time.Second / time.Duration(rate))
			}
		})
	}
	return l
}

// admitted offers connections or requests at a rate, and returns how many were answered in each of some seconds, after
// a warm-up.
func admitted(rate int, warmUp, duration time.Duration, try func() bool) float64 {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var count atomic.Int64
	paced(ctx, &running, rate, func() {
		if try() {
			count.Add(1)
		}
	})
	time.Sleep(warmUp)
	start, before := time.Now(), count.Load()
	time.Sleep(duration)
	n, took := count.Load()-before, time.Since(start)
	cancel()
	running.Wait()
	return float64(n) / took.Seconds()
}

// connectors is how many connections are opened at a time.
const connectors = 64

// connected offers connections at a rate, and returns how many were answered per second, after a warm-up. Its goroutines
// stay on the client's machine, which takes much less time than going there for each connection.
func (w *world) connected(at netip.AddrPort, rate int, warmUp, duration time.Duration) float64 {
	w.Helper()
	due := make(chan struct{}, rate)
	var running sync.WaitGroup
	var count atomic.Int64
	for range connectors {
		running.Go(func() {
			_ = w.Client.Do(func() error {
				for range due {
					if w.connectHere(at) == nil {
						count.Add(1)
					}
				}
				return nil
			})
		})
	}
	offer := func(d time.Duration) {
		start := time.Now()
		for offered := 0; time.Since(start) < d; time.Sleep(time.Millisecond) {
			for ; offered < int(time.Since(start).Seconds()*float64(rate)); offered++ {
				select {
				case due <- struct{}{}:
				default:
				}
			}
		}
	}
	offer(warmUp)
	start, before := time.Now(), count.Load()
	offer(duration)
	n, took := count.Load()-before, time.Since(start)
	close(due)
	running.Wait()
	return float64(n) / took.Seconds()
}

// connectHere asks over a new connection of the machine that the goroutine is on.
func (w *world) connectHere(at netip.AddrPort) error {
	conn, err := net.DialTimeout("tcp", at.String(), time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	_, _, err = exchange(conn)
	return err
}

// percentile returns a percentile of durations.
func percentile(list []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
