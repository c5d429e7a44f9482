package app_test

import (
	"strings"
	"testing"

	"quaymaster.dev/cmd/mycloud/app"
)

// All problems of the flags are reported at once.
func TestEdgeFlags(t *testing.T) {
	for name, test := range map[string]struct {
		args, want []string
	}{
		"several": {
			[]string{"--forwarding=fast", "--address-pool=203.0.113.1"},
			[]string{`--forwarding "fast": must be direct or nat`, `--address-pool "203.0.113.1": must be a network such as 203.0.113.0/24`},
		},
		"withdraw-after": {[]string{"--withdraw-after=5s"}, []string{"--withdraw-after 5s: must be 0 or at least 30s"}},
		"announce":       {[]string{"--announce=ospf"}, []string{`--announce "ospf": must be none, bgp or vrrp`}},
		"bgp": {
			[]string{"--announce=bgp", "--bgp-router-id=fd00::1", "--bgp-peer=198.51.100.1"},
			[]string{
				"--bgp-as is required", `--bgp-router-id "fd00::1": must be an IPv4 address`,
				`--bgp-peer "198.51.100.1": must be address=AS, such as 198.51.100.1=64500`,
			},
		},
		"vrrp": {
			[]string{"--announce=vrrp", "--vrrp-id=256", "--vrrp-priority=0", "--vrrp-source=here", "--vrrp-peer=there"},
			[]string{
				"--vrrp-interface is required", "--vrrp-id 256: must be between 1 and 255",
				"--vrrp-priority 0: must be between 1 and 254", `--vrrp-source "here": must be an IP address`,
				`--vrrp-peer "there": must be an IP address`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut strings.Builder
			code := app.Run(t.Context(), append([]string{"edge"}, test.args...), &out, &errOut)
			if code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			for _, want := range test.want {
				if !strings.Contains(errOut.String(), want) {
					t.Errorf("%q is missing in %q", want, errOut.String())
				}
			}
			if strings.Count(errOut.String(), "\n") != 1 {
				t.Errorf("not one line: %q", errOut.String())
			}
		})
	}
}
