//go:build linux

package edgenet

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
)

// Publish makes the machine redirect what arrives for a load balancer's address and port to a local port, as kube-proxy
// does on a node: the packets keep the client's address. Protocol is tcp or udp. Connections that the machine has not
// seen from the start are reset or not answered.
func (m *Machine) Publish(ctx context.Context, protocol string, address netip.AddrPort, local uint16) error {
	family, source := "ip", "ip"
	if address.Addr().Is6() {
		family, source = "ip6", "ip6"
	}
	rules := fmt.Sprintf(`
add table %[1]s published
add chain %[1]s published prerouting { type nat hook prerouting priority dstnat; }
add rule %[1]s published prerouting %[2]s daddr %[3]s %[4]s dport %[5]d redirect to :%[6]d
`, family, source, address.Addr(), protocol, address.Port(), local)
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	var out strings.Builder
	cmd.Stderr = &out
	if err := m.Start(cmd); err != nil {
		return fmt.Errorf("publish %s on %s: %w", address, m.Name, err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("publish %s on %s: %w: %s", address, m.Name, err, out.String())
	}
	return nil
}
