// Package port finds ports for the servers of tests.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// given are the ports that Free has returned: others of this process may not use theirs yet.
var given sync.Map

// Free returns a TCP port of the loopback interface that is currently unused, and never the same one twice. It is none of
// those from which the system chooses for outgoing connections: one of them could take it before it is used.
func Free() (int, error) {
	var failed error
	for range 100 {
		port := 10_000 + rand.IntN(20_000) //nolint:gosec // not a secret
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			failed = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, fmt.Errorf("choose a free port: %w", failed)
}
