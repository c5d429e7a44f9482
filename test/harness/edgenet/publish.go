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
	if err := m.nft(ctx, rules); err != nil {
		return fmt.Errorf("publish %s on %s: %w", address, m.Name, err)
	}
	return nil
}

// PublishAll is Publish for all ports of all addresses of load balancers. What arrives at the local port for another address
// of the machine is answered from that address.
func (m *Machine) PublishAll(ctx context.Context, local uint16) error {
	rules := fmt.Sprintf(`
add table inet published
add chain inet published prerouting { type nat hook prerouting priority dstnat; }
add rule inet published prerouting ip daddr %[1]s meta l4proto { tcp, udp } redirect to :%[3]d
add rule inet published prerouting ip6 daddr %[2]s meta l4proto { tcp, udp } redirect to :%[3]d
add rule inet published prerouting udp dport %[3]d redirect to :%[3]d
`, Pool4, Pool6, local)
	if err := m.nft(ctx, rules); err != nil {
		return fmt.Errorf("publish all addresses on %s: %w", m.Name, err)
	}
	return nil
}

func (m *Machine) nft(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	var out strings.Builder
	cmd.Stderr = &out
	if err := m.Start(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	return nil
}
