//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// settings changes the kernel's settings, and notes how they were. The first error stops it.
type settings struct {
	previous map[string]string
	err      error
}

// set changes a setting to one value if it is another of those given, or any without.
func (s *settings) set(path, value string, from ...string) {
	if s.err != nil {
		return
	}
	file := "/proc/sys/" + path
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return // the interface is gone, or the machine has no IPv6
	}
	current := strings.TrimSpace(string(data))
	if err == nil && (current == value || len(from) > 0 && current != from[0]) {
		return
	}
	if err == nil {
		err = os.WriteFile(file, []byte(value), 0)
	}
	if err != nil {
		s.err = fmt.Errorf("change kernel setting: %w", err)
		return
	}
	if _, ok := s.previous[path]; !ok {
		s.previous[path] = current
	}
}

// usualTracked is how many connections the kernel tracks on machines with some memory, by default.
const usualTracked = 1 << 18

// defaultConnections returns how many connections an address may have, so that the proxy and the table of conntrack have
// room for others: the proxy has a connection to a member for each of its clients, which is tracked as well.
func defaultConnections() int {
	const most = 1 << 18
	tracked := usualTracked
	if text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max"); err == nil {
		if tracked, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil || tracked <= 0 {
			return most // no limit
		}
	}
	return min(max(tracked/8, 1), most)
}

// tracked makes the kernel forget connections that are closed before they fill its table: by default, it remembers each
// for two minutes, so that a thousand short connections per second leave no room for those of others.
func (s *settings) tracked() {
	s.set("net/netfilter/nf_conntrack_tcp_timeout_time_wait", "10", "120")
}

// forward makes the machine route packets of a family.
func (s *settings) forward(family string) {
	if family == cloudv1.FamilyIPv4 {
		s.set("net/ipv4/ip_forward", "1")
		return
	}
	// A router accepts no routes from other routers unless the value is 2.
	interfaces, _ := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_ra")
	for _, path := range interfaces {
		s.set(strings.TrimPrefix(path, "/proc/sys/"), "2", "1")
	}
	s.set("net/ipv6/conf/all/forwarding", "1")
}

// accept makes an interface to nodes accept their answers, which have the addresses of load balancers as source. The
// machine has these addresses too.
func (s *settings) accept(name string) {
	conf := "net/ipv4/conf/" + name
	s.set(conf+"/accept_local", "1")
	// The strict check looks for the way back to the source. Either setting of 1 makes it strict, 2 overrides both.
	s.set(conf+"/rp_filter", "2")
	s.set(conf+"/send_redirects", "0")
	s.set("net/ipv4/conf/all/send_redirects", "0")
}
