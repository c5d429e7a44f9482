package balancer

import (
	"net/netip"
	"testing"
)

func TestNextAddress(t *testing.T) {
	none := func(netip.Addr) bool { return false }
	used := func(all ...string) func(netip.Addr) bool {
		return func(a netip.Addr) bool {
			for _, u := range all {
				if netip.MustParseAddr(u) == a {
					return true
				}
			}
			return false
		}
	}
	tests := map[string]struct {
		cidr, last string
		inUse      func(netip.Addr) bool
		want       string
	}{
		"first is not the network's":                  {"192.0.2.0/29", "", none, "192.0.2.1"},
		"after the last":                              {"192.0.2.0/29", "192.0.2.3", none, "192.0.2.4"},
		"round the end, no broadcast":                 {"192.0.2.0/29", "192.0.2.6", none, "192.0.2.1"},
		"round the end, past what is used":            {"192.0.2.0/29", "192.0.2.6", used("192.0.2.1"), "192.0.2.2"},
		"the last itself, if it is the only free one": {"192.0.2.0/30", "192.0.2.2", used("192.0.2.1"), "192.0.2.2"},
		"all in use":                                  {"192.0.2.0/30", "192.0.2.1", used("192.0.2.1", "192.0.2.2"), ""},
		"last of another pool":                        {"192.0.2.0/29", "198.51.100.1", none, "192.0.2.1"},
		"pair":                                        {"192.0.2.0/31", "192.0.2.0", none, "192.0.2.1"},
		"single":                                      {"192.0.2.7/32", "192.0.2.7", none, "192.0.2.7"},
		"IPv6":                                        {"2001:db8::/64", "", none, "2001:db8::1"},
		"IPv6 has no broadcast":                       {"2001:db8::/126", "2001:db8::2", none, "2001:db8::3"},
		"end of the address space":                    {"255.255.255.252/30", "255.255.255.254", none, "255.255.255.253"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := AddressPool{Scheme: "public", Prefix: netip.MustParsePrefix(test.cidr)}
			last, _ := netip.ParseAddr(test.last)
			got, ok := p.Next(last, test.inUse)
			if ok != (test.want != "") || ok && got.String() != test.want {
				t.Errorf("%s, %t, want %q", got, ok, test.want)
			}
		})
	}
}

func TestSize(t *testing.T) {
	for cidr, want := range map[string]float64{
		"192.0.2.0/29": 6, "192.0.2.0/30": 2, "192.0.2.0/31": 2, "192.0.2.7/32": 1, "2001:db8::/126": 3, "2001:db8::/128": 1,
	} {
		if got := (AddressPool{Prefix: netip.MustParsePrefix(cidr)}).Size(); got != want {
			t.Errorf("%s: %v, want %v", cidr, got, want)
		}
	}
}
