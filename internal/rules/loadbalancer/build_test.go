package loadbalancer_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/builder"
)

// defaultListener returns the listener of a TCP port without any annotation, after a change.
func defaultListener(change func(*loadbalancer.Listener)) loadbalancer.Listener {
	l := loadbalancer.Listener{
		Transport: "tcp", Port: 80, NodePort: 30080, Protocol: "tcp", MaxQPS: 10000, IdleTimeout: time.Minute,
		ProxyProtocol: "none", Scheduler: "round-robin",
		HealthCheck: loadbalancer.HealthCheck{
			Protocol: "tcp", Interval: 10 * time.Second, Timeout: 5 * time.Second, Healthy: 2, Unhealthy: 3,
		},
	}
	if change != nil {
		change(&l)
	}
	return l
}

// parse returns the View of Quaymaster's own catalog of a Service without errors.
func parse(t testing.TB, svc *corev1.Service) *catalog.View {
	t.Helper()
	parsed := catalog.Own("mycloud.io/dlb", true).Parse(svc)
	if errs := finding.Errors(parsed.Validate()); len(errs) > 0 {
		t.Fatal(finding.Summary(errs))
	}
	return parsed.Own()
}

func build(t testing.TB, svc *corev1.Service) *loadbalancer.Desired {
	t.Helper()
	return loadbalancer.Build(parse(t, svc), loadbalancer.DefaultKubeProxyHealthCheckPort)
}

func TestBuildListeners(t *testing.T) {
	tests := map[string]struct {
		service *corev1.Service
		want    []loadbalancer.Listener
	}{
		"defaults": {builder.Service(), []loadbalancer.Listener{defaultListener(nil)}},
		"the form for a port overrides the plain key": {
			builder.Service(
				builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("tls", corev1.ProtocolTCP, 443)),
				builder.DLB("listener-maxqps", "5"), builder.DLB("listener-maxqps.443", "7"), builder.DLB("listener-maxconn.web", "9")),
			[]loadbalancer.Listener{
				defaultListener(func(l *loadbalancer.Listener) { l.MaxQPS, l.MaxConnections = 5, 9 }),
				defaultListener(func(l *loadbalancer.Listener) { l.Port, l.NodePort, l.MaxQPS = 443, 30443, 7 }),
			},
		},
		"http by appProtocol": {
			builder.Service(builder.Ports(corev1.ServicePort{Port: 80, NodePort: 30080, AppProtocol: new("http")})),
			[]loadbalancer.Listener{defaultListener(func(l *loadbalancer.Listener) { l.Protocol = "http" })},
		},
		"appProtocol of another spelling is tcp": {
			builder.Service(builder.Ports(corev1.ServicePort{Port: 80, NodePort: 30080, AppProtocol: new("HTTP")})),
			[]loadbalancer.Listener{defaultListener(nil)},
		},
		"udp is probed at kube-proxy": {
			builder.Service(builder.Ports(builder.Port("dns", corev1.ProtocolUDP, 53))),
			[]loadbalancer.Listener{defaultListener(func(l *loadbalancer.Listener) {
				l.Transport, l.Port, l.NodePort, l.Protocol = "udp", 53, 30053, "udp"
				l.HealthCheck.Protocol, l.HealthCheck.Port, l.HealthCheck.Path = "http", 10256, "/healthz"
				l.HealthCheck.ExpectedCodes = []string{"200"}
			})},
		},
		"without a node port, kube-proxy is probed, too": {
			builder.Service(builder.Ports(corev1.ServicePort{Port: 80}), builder.Spec(func(s *corev1.ServiceSpec) {
				s.AllocateLoadBalancerNodePorts = new(false)
			})),
			[]loadbalancer.Listener{defaultListener(func(l *loadbalancer.Listener) {
				l.NodePort = 0
				l.HealthCheck.Protocol, l.HealthCheck.Port, l.HealthCheck.Path = "http", 10256, "/healthz"
				l.HealthCheck.ExpectedCodes = []string{"200"}
			})},
		},
		"traffic policy Local is probed at the health check node port": {
			builder.Service(builder.DLB("health-check-interval", "3s"), builder.DLB("health-check-timeout", "1s"),
				builder.Spec(func(s *corev1.ServiceSpec) {
					s.ExternalTrafficPolicy, s.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31999
				})),
			[]loadbalancer.Listener{defaultListener(func(l *loadbalancer.Listener) {
				l.HealthCheck = loadbalancer.HealthCheck{
					Protocol: "http", Port: 31999, Path: "/healthz", ExpectedCodes: []string{"200"},
					Interval: 3 * time.Second, Timeout: time.Second, Healthy: 2, Unhealthy: 3,
				}
			})},
		},
		"plain keys are ignored at ports to which they do not apply": {
			builder.Service(
				builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("dns", corev1.ProtocolUDP, 53)),
				builder.DLB("listener-proxy-protocol", "v2"), builder.DLB("health-check-protocol", "http"),
				builder.DLB("health-check-path", "/ready")),
			[]loadbalancer.Listener{
				defaultListener(func(l *loadbalancer.Listener) {
					l.ProxyProtocol = "v2"
					l.HealthCheck.Protocol, l.HealthCheck.Path = "http", "/ready"
					l.HealthCheck.ExpectedCodes = []string{"200-399"}
				}),
				defaultListener(func(l *loadbalancer.Listener) {
					l.Transport, l.Port, l.NodePort, l.Protocol = "udp", 53, 30053, "udp"
					l.HealthCheck.Protocol, l.HealthCheck.Port, l.HealthCheck.Path = "http", 10256, "/healthz"
					l.HealthCheck.ExpectedCodes = []string{"200"}
				}),
			},
		},
		"session affinity with its default timeout": {
			builder.Service(builder.Spec(func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP })),
			[]loadbalancer.Listener{defaultListener(func(l *loadbalancer.Listener) { l.AffinityTimeout = 3 * time.Hour })},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			desired := build(t, test.service)
			if diff := cmp.Diff(test.want, desired.Listeners); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildIPMode(t *testing.T) {
	tests := map[string]struct {
		service *corev1.Service
		want    string
	}{
		"tcp":            {builder.Service(), "vip"},
		"http":           {builder.Service(builder.DLB("listener-protocol", "http")), "proxy"},
		"PROXY protocol": {builder.Service(builder.DLB("listener-proxy-protocol", "v1")), "proxy"},
		"host name":      {builder.Service(builder.DLB("hostname", "shop.example.com")), "proxy"},
		"connections":    {builder.Service(builder.DLB("listener-maxconn.80", "10")), "proxy"},
		"idle timeout":   {builder.Service(builder.DLB("listener-idle-timeout", "61s")), "proxy"},
		"usual timeout":  {builder.Service(builder.DLB("listener-idle-timeout", "60s")), "vip"},
		"usual minute":   {builder.Service(builder.DLB("listener-idle-timeout", "1m")), "vip"},
		"explicit vip":   {builder.Service(builder.DLB("listener-protocol", "http"), builder.DLB("ip-mode", "vip")), "vip"},
		"explicit proxy": {builder.Service(builder.DLB("ip-mode", "proxy")), "proxy"},
	}
	for name, test := range tests {
		if desired := build(t, test.service); desired.IPMode != test.want {
			t.Errorf("%s: got %+v, want %s", name, desired, test.want)
		}
	}
}

func TestBuildWhole(t *testing.T) {
	svc := builder.Service(
		builder.DLB("network-type", "private"), builder.DLB("subnet-id", "subnet-a"), builder.DLB("zones", "b,a"),
		builder.DLB("flavor", "large"), builder.DLB("bandwidth-mbps", "50"), builder.DLB("ingress-group", "edge"),
		builder.DLB("drain-timeout", "1m"), builder.DLB("tags", "team=a"), builder.DLB("deletion-protection", "true"),
		builder.DLB("retain-on-delete", "true"), builder.DLB("load-balancer-id", "lb-1"), builder.DLB("hostname", "a.b"),
		builder.Spec(func(s *corev1.ServiceSpec) {
			s.LoadBalancerSourceRanges = []string{"10.1.2.3/8", "2001:db8::/32"}
			s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}))
	want := &loadbalancer.Desired{
		NetworkType: "private", SubnetID: "subnet-a", Zones: []string{"b", "a"}, Flavor: "large", BandwidthMbps: 50,
		IngressGroup: "edge", DrainTimeout: time.Minute, Tags: map[string]string{"team": "a"}, DeletionProtection: true,
		RetainOnDelete: true, AdoptID: "lb-1", Hostname: "a.b", IPMode: "proxy",
		AllowedSources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
		Families:       []string{"ipv6", "ipv4"},
		Listeners:      []loadbalancer.Listener{defaultListener(nil)},
	}
	got := build(t, svc)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMaxQPS(t *testing.T) {
	two := builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("api", corev1.ProtocolTCP, 443))
	tests := map[string]struct {
		service *corev1.Service
		want    int64
	}{
		"by default": {builder.Service(two), 20000},
		"by port":    {builder.Service(two, builder.DLB("listener-maxqps", "5"), builder.DLB("listener-maxqps.443", "7")), 12},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := loadbalancer.MaxQPS(parse(t, test.service)); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// Every key of the catalog changes a field of the desired load balancer.
func TestEveryKeyHasAField(t *testing.T) {
	own, _ := library.BuiltIn().Find(loadbalancer.Catalog)
	requires := map[string][]builder.ServiceOption{
		"subnet-id":                   {builder.DLB("network-type", "private")},
		"listener-tls-certificate-id": {builder.DLB("listener-protocol", "https")},
		"health-check-path":           {builder.DLB("health-check-protocol", "http")},
		"health-check-expected-codes": {builder.DLB("health-check-protocol", "http")},
	}
	for _, a := range own.Document().Annotations {
		name := strings.TrimPrefix(a.Name, loadbalancer.Prefix)
		value := a.Valid
		if value == a.Default {
			value = map[string]string{"listener-idle-timeout": "61s", "health-check-interval": "11s", "health-check-timeout": "4s",
				"health-check-healthy-threshold": "4", "health-check-unhealthy-threshold": "4", "drain-timeout": "31s"}[name]
		}
		before := builder.Service(requires[name]...)
		after := builder.Service(append(requires[name], builder.DLB(name, value))...)
		if name == "listener-tls-certificate-id" {
			before = builder.Service()
		}
		old, changed := build(t, before), build(t, after)
		if cmp.Equal(old, changed, cmpopts.EquateComparable(netip.Prefix{})) {
			t.Errorf("%s=%s changes nothing in the desired load balancer", name, value)
		}
	}
}

// Only listeners of udp under traffic policy Cluster ask kube-proxy, at the port that the cluster sets.
func TestBuildAsksKubeProxyAtItsPort(t *testing.T) {
	ports := builder.Ports(builder.Port("dns", corev1.ProtocolUDP, 53), builder.Port("web", corev1.ProtocolTCP, 80))
	desired := loadbalancer.Build(parse(t, builder.Service(ports)), 9999)
	if got := []int32{desired.Listeners[0].HealthCheck.Port, desired.Listeners[1].HealthCheck.Port}; got[0] != 9999 || got[1] != 0 {
		t.Errorf("health check ports of udp and tcp: %d; want 9999 and 0", got)
	}
}
