// Package port finds ports for the servers of tests.
package port

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Free returns a TCP port of the loopback interface that is currently unused. It is none of those from which the system
// chooses for outgoing connections: one of them could take it before it is used.
func Free() (int, error) {
	var failed error
	for range 100 {
		port := 10_000 + rand.IntN(20_000) //nolint:gosec // not a secret
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			return port, listener.Close()
		}
		failed = err
	}
	return 0, fmt.Errorf("choose a free port: %w", failed)
}
