package plan

import (
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
)

// Whatever the strings are, HAProxy accepts the configuration or they are a fault. None of them leaves its place.
func FuzzRender(f *testing.F) {
	f.Add("lb-1", "tcp/80", "i-1", "/healthz", "200-399", 100.0, int64(1000), 1)
	f.Add("lb'1\n", "tcp 80", "i\"1", "/a'b\"$HOME\\ c", "", 0.3, int64(0), 300)
	f.Add("", "#", "\x00", "/'#%[src]\\", "200,404", -1.0, int64(-5), -1)
	f.Add("..", "/", "ü", "/{}", "200-399\nbackend x", 1e300, int64(1)<<62, 1<<40)
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		f.Skip("haproxy is not installed: tools/edge-packages.sh installs it")
	}
	h, err := process.New(process.Options{Dir: f.TempDir(), Binary: binary})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, lb, key, member, path, codes string, qps float64, milliseconds int64, weight int) {
		id := config.PoolID{LoadBalancer: lb, Key: key, Family: "ipv4"}
		duration := time.Duration(milliseconds) * time.Millisecond
		c := &config.Config{
			Listeners: []config.Listener{{
				LoadBalancer: lb, Key: key, Address: netip.MustParseAddr("127.0.0.1"), Port: 80, Protocol: "http",
				Engine: config.Proxy, Pool: id, MaxQPS: qps, IdleTimeout: duration, MaxConnections: weight,
			}},
			Pools: []config.Pool{{
				ID: id, Algorithm: "weighted_round_robin",
				Members: []config.Member{{Key: member, Address: netip.MustParseAddr("10.0.0.1"), Port: 80, Weight: weight}},
				Monitor: &config.Monitor{
					Type: "http", Port: 80, Path: path, ExpectedCodes: codes, Interval: duration, Timeout: duration, Rise: weight,
					Fall: weight,
				},
			}},
		}
		p := Of(Units(c), noCertificates, Running{}, nil, enough)
		text, structure, err := p.Render(Settings{
			StateFile: h.File(process.StateFile), LimitsFile: h.File(process.LimitsFile), Files: enough,
		})
		if err != nil {
			t.Fatal(err)
		}
		if refused, err := h.Check(t.Context(), &process.Configuration{Text: text, Structure: structure}, ""); err != nil || len(refused) > 0 {
			t.Errorf("%v %v:\n%s", refused, err, text)
		}
		if len(p.Faults) == 0 && len(p.Frontends) != 1 || len(p.Frontends)+len(p.Faults) != 1 {
			t.Errorf("%d listeners and %d faults", len(p.Frontends), len(p.Faults))
		}
	})
}
