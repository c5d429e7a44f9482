//go:build linux

package edgenet

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
)

// Backends runs a TCP and a UDP server on a port of the machine, on all its addresses, until the test ends. Both answer
// each line, or packet, with one line: the name of the machine and the address of the client, separated by a space.
func (m *Machine) Backends(tb testing.TB, port uint16) {
	tb.Helper()
	packets, err := m.ListenPacket(tb.Context(), "udp", fmt.Sprintf("[::]:%d", port))
	if err != nil {
		tb.Fatalf("listen on %s: %v", m.Name, err)
	}
	var running sync.WaitGroup
	running.Go(func() { m.answerPackets(packets) })
	tb.Cleanup(func() {
		_ = packets.Close()
		running.Wait()
	})
	stop, err := m.Answer(tb.Context(), port)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
}

// Answer runs the TCP server of Backends alone, until stop is called.
func (m *Machine) Answer(ctx context.Context, port uint16) (stop func(), err error) {
	listener, err := m.Listen(ctx, "tcp", fmt.Sprintf("[::]:%d", port))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", m.Name, err)
	}
	var running sync.WaitGroup
	running.Go(func() { m.serve(listener) })
	return sync.OnceFunc(func() {
		listener.Close()
		running.Wait()
	}), nil
}

func (m *Machine) answer(client net.Addr) []byte {
	return fmt.Appendf(nil, "%s %s\n", m.Name, client)
}

func (m *Machine) answerPackets(packets net.PacketConn) {
	buffer := make([]byte, 2048)
	for {
		_, client, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		if _, err := packets.WriteTo(m.answer(client), client); err != nil {
			return
		}
	}
}

func (m *Machine) serve(listener net.Listener) {
	var mutex sync.Mutex
	conns := map[net.Conn]bool{}
	var running sync.WaitGroup
	for {
		conn, err := listener.Accept()
		if err != nil {
			break
		}
		mutex.Lock()
		conns[conn] = true
		mutex.Unlock()
		running.Go(func() {
			defer func() {
				_ = conn.Close()
				mutex.Lock()
				defer mutex.Unlock()
				delete(conns, conn)
			}()
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if _, err := conn.Write(m.answer(conn.RemoteAddr())); err != nil {
					return
				}
			}
		})
	}
	mutex.Lock()
	for conn := range conns {
		_ = conn.Close()
	}
	mutex.Unlock()
	running.Wait()
}
