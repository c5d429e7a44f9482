package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// maxName is the longest encoded name. HAProxy writes two of them into each line of its state file, which is limited.
const maxName = 96

// Encode returns a name of a string that HAProxy accepts in its configuration and on its socket, and that is safe as a
// file name. Different strings have different names.
func Encode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' && i > 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "_%02x", c)
	}
	if b.Len() > maxName || b.Len() == 0 {
		sum := sha256.Sum256([]byte(s))
		return "_" + hex.EncodeToString(sum[:16])
	}
	return b.String()
}

// frontendName returns the name of a listener's frontend. Names of frontends and backends are never equal, because
// those of backends have one more part.
func frontendName(l *config.Listener) string {
	return Encode(l.LoadBalancer) + ":" + Encode(l.Key) + ":" + cloudv1.FamilyOf(l.Address.Unmap())
}

// backendName returns the name of the backend of a pool for one kind of listener.
func backendName(id config.PoolID, kind string) string {
	return Encode(id.LoadBalancer) + ":" + Encode(id.Key) + ":" + Encode(id.Family) + ":" + kind
}

// serverName returns the name of a member. It contains the address, so that a member that moves is another server: its
// connections end at the old one, and the new one does not have the old one's health.
func serverName(key string, address netip.AddrPort) string {
	sum := sha256.Sum256([]byte(address.String()))
	return Encode(key) + ":" + hex.EncodeToString(sum[:4])
}

// serverID returns a number by which all edges put the member at the same place when they hash the client's address. It
// is none of those that are taken.
func serverID(name string, taken map[uint32]bool) uint32 {
	h := fnv.New32a()
	for {
		h.Write([]byte(name))
		if id := h.Sum32()&0x3fffffff + 1; !taken[id] {
			return id
		}
	}
}

// Family returns the address family of the listener.
func (f *Frontend) Family() string { return cloudv1.FamilyOf(f.Listener.Address.Unmap()) }
