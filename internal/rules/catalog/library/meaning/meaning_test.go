package meaning_test

import (
	"strings"
	"testing"

	"quaymaster.dev/internal/rules/catalog/library/meaning"
)

// The names are what people write; each has the known one that it means, and others that it does not.
func TestNearest(t *testing.T) {
	const none = ""
	for unknown, test := range map[string]struct {
		known []string
		want  string
		typo  bool
	}{
		"https-ports":            {[]string{"http-ports", "http2-ports", "tls-ports"}, "tls-ports", false},
		"load-balancer-sku":      {[]string{"load-balancer-mode", "load-balancer-internal"}, none, false},
		"load-balancer-scheme":   {[]string{"load-balancer-type", "load-balancer-internal"}, "load-balancer-internal", false},
		"algorithm":              {[]string{"algorithm-type", "location"}, "algorithm-type", false},
		"scheduler":              {[]string{"algorithm-type", "scheme"}, "algorithm-type", false},
		"public-net-ipv4":        {[]string{"ipv4", "private-ipv4"}, none, false},
		"public-net-ipv6":        {[]string{"public-net-ipv4"}, none, false},
		"load-balancer-node":     {[]string{"load-balancer-mode", "node-selector"}, none, false},
		"internal":               {[]string{"external", "interval"}, none, false},
		"disable-http":           {[]string{"enable-http", "disable-https"}, none, false},
		"unhealthy-threshold":    {[]string{"healthy-threshold"}, none, false},
		"lokation":               {[]string{"location"}, "location", true},
		"Location":               {[]string{"location"}, "location", true},
		"helth-check-path":       {[]string{"health-check-port", "health-check-path"}, "health-check-path", true},
		"healthcheck-path":       {[]string{"health-check-port", "health-check-path"}, "health-check-path", true},
		"networktype":            {[]string{"network-type"}, "network-type", true},
		"network_type":           {[]string{"network-type"}, "network-type", true},
		"certificate":            {[]string{"cert", "secret"}, "cert", false},
		"zone":                   {[]string{"zones", "tags"}, "zones", true},
		"maxqps":                 {[]string{"listener-maxqps", "listener-maxconn"}, "listener-maxqps", false},
		"protcol":                {[]string{"protocol", "proxy-protocol"}, "protocol", true},
		"idle-timeuot":           {[]string{"idle-timeout"}, "idle-timeout", true},
		"port_80_probe-port":     {[]string{"port_{port}_probe_port", "port_{port}_rule"}, "port_{port}_probe_port", true},
		"something-else":         {[]string{"ipv4", "location"}, none, false},
		strings.Repeat("a", 500): {[]string{"location"}, none, false},
	} {
		t.Run(unknown, func(t *testing.T) {
			m, _ := meaning.NewVocabulary(test.known).Nearest(unknown)
			got := m.Name
			if !m.Near {
				got = none
			}
			if got != test.want || m.Typo != test.typo {
				t.Errorf("got %q, typo %t (%+v), want %q, typo %t", got, m.Typo, m, test.want, test.typo)
			}
		})
	}
	if m, ok := meaning.NewVocabulary(nil).Nearest("location"); ok {
		t.Errorf("found %+v among no names", m)
	}
}
