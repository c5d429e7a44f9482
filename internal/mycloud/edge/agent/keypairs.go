package agent

import (
	"sync"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Certificates are the key pairs that the agent has read last, for the proxy.
type Certificates struct {
	mu    sync.Mutex
	pairs map[string]cloudv1.KeyPair
}

// KeyPair returns chain and key of a certificate in PEM; ok is false if there is no such certificate.
func (c *Certificates) KeyPair(id string) (chain, key []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pair, ok := c.pairs[id]
	return []byte(pair.Chain), []byte(pair.Key), ok
}

// set replaces all key pairs.
func (c *Certificates) set(pairs map[string]cloudv1.KeyPair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pairs = pairs
}
