//go:build linux

package kernel_test

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/kernel"
)

// repetitions is how often the changes are repeated under new flows.
var repetitions = flag.Int("repetitions", 1, "how often to repeat 100 changes under new flows")

// flood sends packets of new flows from the client's machine, as fast as it can, until it is stopped.
type flood struct {
	stop    atomic.Bool
	sent    atomic.Int64
	running sync.WaitGroup
}

func (w *world) flood(to netip.AddrPort) *flood { return w.floodOf("udp", to) }

func (w *world) floodOf(protocol string, to netip.AddrPort) *flood {
	f := &flood{}
	f.running.Go(func() {
		w.must(w.Client.Do(func() error {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_RAW)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			packet := make([]byte, 40)
			packet[0], packet[8], packet[9] = 0x45, 64, syscall.IPPROTO_UDP
			if protocol == "tcp" {
				// The first packet of a connection, without options.
				packet[9], packet[32], packet[33] = syscall.IPPROTO_TCP, 5<<4, 2
			}
			source, destination := w.Client.Outer4.As4(), to.Addr().As4()
			copy(packet[12:], source[:3])
			copy(packet[16:], destination[:])
			binary.BigEndian.PutUint16(packet[22:], to.Port())
			if protocol == "udp" {
				packet[25] = byte(len(packet) - 20)
			}
			for !f.stop.Load() {
				// Without a checksum, any source will do.
				packet[15] = byte(128 + rand.N(64))
				binary.BigEndian.PutUint16(packet[20:], uint16(1024+rand.N(60000)))
				if err := syscall.Sendto(fd, packet, 0, &syscall.SockaddrInet4{Addr: destination}); err != nil {
					return err
				}
				f.sent.Add(1)
			}
			return nil
		}))
	})
	return f
}

func (f *flood) end() int64 {
	f.stop.Store(true)
	f.running.Wait()
	return f.sent.Load()
}

var packets = regexp.MustCompile(`counter packets (\d+)`)

// No new flow is refused while members and limits change: what a packet has found must be there until it has passed,
// although the kernel looks into each map by itself.
func TestUpdatesRefuseNothing(t *testing.T) {
	for name, engine := range map[string]config.Engine{"direct": config.Direct, "nat": config.NAT} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 3)
			// Hardly a flow is remembered, so that a member is chosen for nearly every packet.
			w.edges[0].engine = kernel.New(kernel.Options{Dir: w.edges[0].dir, MaxFlows: 64, MaxConnections: 1 << 20})
			pool := w.listen("udp", vip4, func(l *config.Listener, p *config.Pool) { l.Engine, l.Port, p.Drain = engine, 81, time.Hour })
			members := pool.Members
			w.apply()
			if _, err := w.Edges[0].Run(t.Context(), "nft", "insert", "rule", "inet", "mycloud-edge", "refuse", "counter"); err != nil {
				t.Fatal(err)
			}
			load := w.flood(netip.AddrPortFrom(vip4, 81))
			for i := range *repetitions * 100 {
				pool.Members = members[:2+i%2]
				if i%10 == 0 {
					w.config.Listeners[0].MaxQPS = float64(1e9 + i)
				}
				w.apply()
			}
			sent := load.end()
			out, err := w.Edges[0].Run(t.Context(), "nft", "list", "chain", "inet", "mycloud-edge", "refuse")
			w.must(err)
			refused, err := strconv.Atoi(packets.FindStringSubmatch(out)[1])
			w.must(err)
			t.Logf("%d packets, %d refused", sent, refused)
			if refused > 0 {
				t.Errorf("%d of %d packets were refused", refused, sent)
			}
		})
	}
}
