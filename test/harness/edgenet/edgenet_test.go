//go:build linux

package edgenet_test

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/test/harness/edgenet"
)

// ask sends a line and returns the answer without the port of the client.
func ask(t *testing.T, from *edgenet.Machine, network string, address netip.AddrPort) (string, error) {
	t.Helper()
	conn, err := from.Dial(t.Context(), network, address.String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
	fmt.Fprintln(conn, "who")
	line, err := bufio.NewReader(conn).ReadString('\n')
	name, client, _ := strings.Cut(strings.TrimSpace(line), " ")
	host, _, _ := net.SplitHostPort(client)
	return name + " " + host, err
}

func TestTopology(t *testing.T) {
	edgenet.Require(t, "nft")
	network := edgenet.New(t, 1, 2)
	for _, node := range network.Nodes {
		node.Backends(t, 8080)
	}
	for _, node := range network.Nodes {
		for _, address := range []netip.Addr{node.Inner4, node.Inner6} {
			for _, protocol := range []string{"tcp", "udp"} {
				got, err := ask(t, network.Edges[0], protocol, netip.AddrPortFrom(address, 8080))
				source := network.Edges[0].Inner4
				if address.Is6() {
					source = network.Edges[0].Inner6
				}
				if want := node.Name + " " + source.String(); got != want || err != nil {
					t.Errorf("%s %s: answer %q, error %v, want %q", protocol, address, got, err, want)
				}
			}
		}
	}

	// An edge that only routes: the client's packets arrive as they are, and answers go past the edge.
	edge, node := network.Edges[0], network.Nodes[1]
	vip := netip.MustParseAddrPort("203.0.113.9:80")
	if err := edge.Sysctl("net.ipv4.ip_forward", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := edge.Run(t.Context(), "ip", "route", "add", "203.0.113.0/24", "via", node.Inner4.String()); err != nil {
		t.Fatal(err)
	}
	if err := node.Publish(t.Context(), "tcp", vip, 8080); err != nil {
		t.Fatal(err)
	}
	if err := network.RouteTo(edge); err != nil {
		t.Fatal(err)
	}
	want := "node2 " + network.Client.Outer4.String()
	if got, err := ask(t, network.Client, "tcp", vip); got != want || err != nil {
		t.Errorf("through the edge: answer %q, error %v, want %q", got, err, want)
	}
	if err := network.AnswerVia(edge); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(t, network.Client, "tcp", vip); got != want || err != nil {
		t.Errorf("answers through the edge: answer %q, error %v, want %q", got, err, want)
	}

	conn, err := network.Client.Dial(t.Context(), "tcp", vip.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	exchange := func() error {
		conn.SetDeadline(time.Now().Add(time.Second))
		fmt.Fprintln(conn, "who")
		_, err := answers.ReadString('\n')
		return err
	}
	if err := exchange(); err != nil {
		t.Errorf("before the cut: %v", err)
	}
	if err := edge.Cut(); err != nil {
		t.Fatal(err)
	}
	if err := exchange(); err == nil {
		t.Error("an edge that is cut off forwards packets")
	}
	if err := edge.Restore(); err != nil {
		t.Fatal(err)
	}
	if err := exchange(); err != nil {
		t.Errorf("after the cut: %v", err)
	}
}
