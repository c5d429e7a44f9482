package plan

import (
	"errors"
	"flag"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/mycloud/edge/config"
)

var update = flag.Bool("update", false, "write the golden files")

// enough files are open for everything.
const enough = 1 << 14

var settings = Settings{StateFile: "/run/edge/servers.state", LimitsFile: "/run/edge/limits.map", Files: enough}

// noCertificates has no certificates, allCertificates has all.
func noCertificates([]string) ([]string, error) {
	return nil, errors.New("the certificates are not known")
}

func allCertificates(ids []string) ([]string, error) {
	var files []string
	for _, id := range ids {
		files = append(files, "/run/edge/certs/"+Encode(id)+".pem")
	}
	return files, nil
}

// fixed returns a configuration with one of everything.
func fixed() *config.Config {
	v4, v6 := netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("2001:db8::10")
	members := []config.Member{
		{Key: "i-1", Address: netip.MustParseAddr("10.0.0.1"), Port: 30080, Weight: 1},
		{Key: "i-2/ü", Address: netip.MustParseAddr("10.0.0.2"), Port: 30080, Weight: 100, Draining: true},
	}
	id := func(key, family string) config.PoolID {
		return config.PoolID{LoadBalancer: "lb-1", Key: key, Family: family}
	}
	var many []netip.Prefix
	for i := range 40 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16))
	}
	c := &config.Config{
		Listeners: []config.Listener{
			{
				LoadBalancer: "lb-1", Key: "tcp/80", Address: v4, Port: 80, Protocol: "http", Engine: config.Proxy,
				Pool: id("tcp/80", "ipv4"), MaxQPS: 100.0 / 3, IdleTimeout: 90 * time.Second,
			},
			{
				LoadBalancer: "lb-1", Key: "tcp/443", Address: v6, Port: 443, Protocol: "https", Engine: config.Proxy,
				Pool: id("tcp/80", "ipv6"), Certificates: []string{"cert-a", "cert-b"},
			},
			{
				LoadBalancer: "lb-1", Key: "tcp/5432", Address: v4, Port: 5432, Protocol: "tcp", Engine: config.Proxy,
				Pool: id("tcp/5432", "ipv4"), MaxQPS: 50, MaxConnections: 200, ProxyProtocol: "v2", Allowed: many,
			},
			{LoadBalancer: "lb-1", Key: "udp/53", Address: v4, Port: 53, Protocol: "udp", Engine: config.Direct, Pool: id("udp/53", "ipv4")},
		},
		Pools: []config.Pool{
			{
				ID: id("tcp/80", "ipv4"), Protocol: "http", Algorithm: "weighted_round_robin", Members: members,
				Monitor: &config.Monitor{
					Type: "http", Port: 10256, Path: "/healthz?it's=\"$HOME\"\\", ExpectedCodes: "200-299,404",
					Interval: 10 * time.Second, Timeout: 5 * time.Second, Rise: 2, Fall: 3,
				},
			},
			{
				ID: id("tcp/80", "ipv6"), Protocol: "http", Algorithm: "source_ip",
				Members: []config.Member{{Key: "i-1", Address: netip.MustParseAddr("2001:db8::1"), Port: 30080, Weight: 1}},
				Monitor: &config.Monitor{Type: "https", Port: 30080, Interval: time.Second, Timeout: 500 * time.Millisecond, Rise: 1, Fall: 1},
			},
			{
				ID: id("tcp/5432", "ipv4"), Protocol: "tcp", Algorithm: "least_connections", Members: members,
				Monitor: &config.Monitor{Type: "tcp", Port: 30080, Interval: 10 * time.Second, Timeout: 5 * time.Second, Rise: 2, Fall: 3},
			},
			{
				ID: id("udp/53", "ipv4"), Protocol: "udp", Algorithm: "source_ip",
				Members: []config.Member{{Key: "i-1", Address: netip.MustParseAddr("10.0.0.1"), Weight: 1}},
				Monitor: &config.Monitor{Type: "http", Port: 10256, Path: "/healthz", Interval: 10 * time.Second, Timeout: 5 * time.Second, Rise: 2, Fall: 3},
			},
			{ID: id("udp/54", "ipv4"), Protocol: "udp", Algorithm: "source_ip"},
		},
	}
	c.Pools[2].Members = slices.Clone(members)
	return c
}

func TestRender(t *testing.T) {
	t.Parallel()
	p := Of(Units(fixed()), allCertificates, Running{}, nil, enough)
	if len(p.Faults) != 0 {
		t.Fatalf("faults: %+v", p.Faults)
	}
	s := settings
	s.User, s.Group = "103", "106"
	text, _, err := p.Render(s)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "haproxy.cfg")
	if *update {
		if err := os.WriteFile(golden, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("the configuration differs; -update writes it (-want +got):\n%s", diff)
	}
}

func TestServersAndLimitsLeaveTheStructureAsItIs(t *testing.T) {
	t.Parallel()
	structure := func(change func(*config.Config)) string {
		c := fixed()
		change(c)
		_, structure, err := Of(Units(c), allCertificates, Running{}, nil, enough).Render(settings)
		if err != nil {
			t.Fatal(err)
		}
		return structure
	}
	before := structure(func(*config.Config) {})
	for name, c := range map[string]struct {
		change func(*config.Config)
		same   bool
	}{
		"a member leaves":    {func(c *config.Config) { c.Pools[0].Members = nil }, true},
		"a member drains":    {func(c *config.Config) { c.Pools[0].Members[0].Draining = true }, true},
		"a weight":           {func(c *config.Config) { c.Pools[0].Members[0].Weight = 7 }, true},
		"an address":         {func(c *config.Config) { c.Pools[0].Members[0].Port = 7 }, true},
		"the time to drain":  {func(c *config.Config) { c.Pools[0].Drain = time.Hour }, true},
		"a kernel listener":  {func(c *config.Config) { c.Listeners = c.Listeners[:3] }, true},
		"a limit":            {func(c *config.Config) { c.Listeners[0].MaxQPS = 34.5 }, true},
		"most connections":   {func(c *config.Config) { c.Listeners[2].MaxConnections++ }, true},
		"a period":           {func(c *config.Config) { c.Listeners[0].MaxQPS = 5 }, false},
		"no limit":           {func(c *config.Config) { c.Listeners[2].MaxConnections = 0 }, false},
		"an idle timeout":    {func(c *config.Config) { c.Listeners[0].IdleTimeout = time.Second }, false},
		"a certificate":      {func(c *config.Config) { c.Listeners[1].Certificates = []string{"cert-b"} }, false},
		"a monitor":          {func(c *config.Config) { c.Pools[0].Monitor.Fall = 9 }, false},
		"the monitor's port": {func(c *config.Config) { c.Pools[0].Monitor.Port = 9 }, false},
		"a listener leaves":  {func(c *config.Config) { c.Listeners = c.Listeners[1:] }, false},
	} {
		if got := structure(c.change) == before; got != c.same {
			t.Errorf("%s: structure is the same: %t, want %t", name, got, c.same)
		}
	}
}

func TestFaultsLeaveTheRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"protocol":      {func(c *config.Config) { c.Listeners[0].Protocol = "sctp" }, `protocol "sctp"`},
		"algorithm":     {func(c *config.Config) { c.Pools[0].Algorithm = "random" }, `algorithm "random"`},
		"no pool":       {func(c *config.Config) { c.Listeners[0].Pool.Key = "gone" }, "algorithm"},
		"path":          {func(c *config.Config) { c.Pools[0].Monitor.Path = "/a\nb" }, "path"},
		"codes":         {func(c *config.Config) { c.Pools[0].Monitor.ExpectedCodes = "200-" }, "codes"},
		"codes reverse": {func(c *config.Config) { c.Pools[0].Monitor.ExpectedCodes = "404-200" }, "ascending"},
		"type":          {func(c *config.Config) { c.Pools[0].Monitor.Type = "grpc" }, `type "grpc"`},
		"member":        {func(c *config.Config) { c.Pools[0].Members[0].Port = 0 }, `member "i-1"`},
		"member twice":  {func(c *config.Config) { c.Pools[0].Members[1] = c.Pools[0].Members[0] }, "twice"},
		"proxy version": {func(c *config.Config) { c.Listeners[0].ProxyProtocol = "v3" }, `version "v3"`},
		"port":          {func(c *config.Config) { c.Listeners[0].Port = 0 }, "address and port"},
	} {
		conf := fixed()
		c.change(conf)
		p := Of(Units(conf), allCertificates, Running{}, nil, enough)
		if len(p.Faults) != 1 || p.Faults[0].LoadBalancerID != "lb-1" || p.Faults[0].ListenerKey != "tcp/80" ||
			!strings.Contains(p.Faults[0].Detail, c.want) {
			t.Errorf("%s: faults are %+v, want one of tcp/80 with %q", name, p.Faults, c.want)
		}
		// A faulty member leaves the listener to the others.
		want := 2
		if strings.HasPrefix(name, "member") {
			want = 3
		}
		if len(p.Frontends) != want {
			t.Errorf("%s: %d listeners are left, want %d", name, len(p.Frontends), want)
		}
	}
	p := Of(Units(fixed()), noCertificates, Running{}, nil, enough)
	if len(p.Faults) != 1 || p.Faults[0].ListenerKey != "tcp/443" || len(p.Frontends) != 2 {
		t.Errorf("missing certificate: faults are %+v", p.Faults)
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	for perSecond, want := range map[float64]quota{
		0: {}, -1: {}, math.NaN(): {}, 1: {1, 1}, 100: {100, 1}, 1e6: {1000000, 1},
		100.0 / 3: {67, 2}, 50.5: {51, 1}, 0.5: {1, 2}, 1.0 / 16: {1, 16}, 1e-9: {1, longestPeriod},
	} {
		if got := quotaOf(perSecond); got != want {
			t.Errorf("quotaOf(%v) is %+v, want %+v", perSecond, got, want)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"lb-1": "lb-1", "tcp/80": "tcp_2f80", "a_b": "a_5fb", "..": "_2e.", "a b'\n": "a_20b_27_0a", "": "_e3b0c44298fc1c149afbf4c8996fb924",
	} {
		if got := Encode(in); got != want {
			t.Errorf("Encode(%q) is %q, want %q", in, got, want)
		}
	}
	long := Encode(strings.Repeat("x", 255))
	if len(long) > maxName || long == Encode(strings.Repeat("x", 254)) {
		t.Errorf("a long name is encoded as %q", long)
	}
}

// However many files HAProxy may open, it accepts some connections, and each has two.
func TestConnections(t *testing.T) {
	t.Parallel()
	p := &Plan{Backends: make([]Backend, 27)}
	for i := range p.Backends {
		p.Backends[i] = Backend{Monitor: &monitor{}, Servers: make([]Server, 30)}
	}
	for _, files := range []int{100, 2000, 1 << 20} {
		if n := p.connections(files); n < leastConnections || 2*n > max(files, 2*leastConnections) {
			t.Errorf("%d connections with %d files", n, files)
		}
	}
}

// A dead member must be out within interval × fall + 1 s even if its checks time out, where the timeout allows it.
func TestChecksFollowFasterByWhatTimeoutsLose(t *testing.T) {
	t.Parallel()
	for _, m := range []config.Monitor{
		{Type: "tcp", Interval: 10 * time.Second, Timeout: 5 * time.Second, Fall: 3},
		{Type: "tcp", Interval: time.Second, Timeout: 500 * time.Millisecond, Fall: 2},
		{Type: "tcp", Interval: 5 * time.Second, Timeout: 4 * time.Second, Fall: 5},
		{Type: "tcp", Interval: 10 * time.Second, Timeout: 800 * time.Millisecond, Fall: 1},
	} {
		got, err := monitorOf(&m)
		if err != nil {
			t.Fatal(err)
		}
		// The first check begins up to one interval after the death.
		out, limit := got.Interval, time.Second
		for i := range m.Fall {
			if out, limit = out+got.Limit, limit+m.Interval; i > 0 {
				out += got.Transition
			}
		}
		if out > limit || got.Transition > got.Interval {
			t.Errorf("%+v: out after %v, with checks each %v", m, out, got.Transition)
		}
	}
}
