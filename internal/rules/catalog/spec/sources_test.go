package spec

import (
	"net/netip"
	"strings"
	"testing"

	netutils "k8s.io/utils/net"
)

// A range means the same to both parsers.
func FuzzSourceRange(f *testing.F) {
	for _, text := range []string{
		"10.0.0.0/8", " 10.1.2.3/8 ", "010.000.0.0/8", "10.0.0.0/08", "2001:db8::/32", "2001:db8::1/128", "::ffff:10.0.0.0/104",
		"::ffff:10.0.0.0/8", "fe80::1%eth0/64", "10.0.0.0", "10.0.0.0/33", "", "/", "::/0", "0.0.0.0/0", "1.2.3.4/+8",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := newSourceRange(0, text)
		want := SourceRange{Text: text}
		if _, network, err := netutils.ParseCIDRSloppy(strings.TrimSpace(text)); err == nil {
			addr, ok := netip.AddrFromSlice(network.IP)
			ones, _ := network.Mask.Size()
			want.Prefix, want.Valid = netip.PrefixFrom(addr, ones).Masked(), ok
		}
		if got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	})
}
