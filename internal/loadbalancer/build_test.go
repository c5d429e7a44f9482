package loadbalancer_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/test/builder"
)

// defaults is what a TCP port becomes without any annotation.
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

func TestBuildListeners(t *testing.T) {
	tests := map[string]struct {
		service *corev1.Service
		want    []loadbalancer.Listener
	}{
		"defaults": {builder.Service(), []loadbalancer.Listener{defaultListener(nil)}},
		"own port form beats plain key": {
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
		"plain keys are skipped where they do not apply": {
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
			desired, findings := loadbalancer.Build(test.service, options)
			if desired == nil {
				t.Fatalf("refused: %v", findings)
			}
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
		"explicit vip":   {builder.Service(builder.DLB("listener-protocol", "http"), builder.DLB("ip-mode", "vip")), "vip"},
		"explicit proxy": {builder.Service(builder.DLB("ip-mode", "proxy")), "proxy"},
	}
	for name, test := range tests {
		if desired, _ := loadbalancer.Build(test.service, options); desired == nil || desired.IPMode != test.want {
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
		RetainOnDelete: true, AdoptID: "lb-1", Hostname: "a.b", IPMode: "vip",
		AllowedSources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
		Families:       []string{"ipv6", "ipv4"},
		Listeners:      []loadbalancer.Listener{defaultListener(nil)},
	}
	got, findings := loadbalancer.Build(svc, options)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("%v (-want +got):\n%s", findings, diff)
	}
}

func TestSourceRangesFailClosed(t *testing.T) {
	svc := builder.Service(builder.Annotation(corev1.AnnotationLoadBalancerSourceRangesKey, "10.0.0.0/8, nonsense"))
	desired, findings := loadbalancer.Build(svc, options)
	if desired != nil || len(finding.Errors(findings)) != 1 || findings[0].Value != " nonsense" {
		t.Errorf("got %+v, %+v", desired, findings)
	}
}

func TestDefaults(t *testing.T) {
	const qps, idle = loadbalancer.Prefix + "listener-maxqps", loadbalancer.Prefix + "listener-idle-timeout"
	tests := map[string]struct {
		service *corev1.Service
		want    map[string]string
	}{
		"nothing set":     {builder.Service(), map[string]string{qps: "10000", idle: "60s"}},
		"one set":         {builder.Service(builder.DLB("listener-maxqps", "1")), map[string]string{idle: "60s"}},
		"bad is set":      {builder.Service(builder.DLB("listener-maxqps", "")), map[string]string{idle: "60s"}},
		"port forms only": {builder.Service(builder.DLB("listener-maxqps.80", "1")), map[string]string{qps: "10000", idle: "60s"}},
		"our class":       {builder.Service(builder.Class("mycloud.io/dlb")), map[string]string{qps: "10000", idle: "60s"}},
		"other class":     {builder.Service(builder.Class("example.com/x")), nil},
		"no LoadBalancer": {builder.Service(builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })), nil},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, loadbalancer.Defaults(test.service, options)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzReview looks for annotations that panic, that lose a finding's parts, or that admission and reconcile judge
// differently.
func FuzzReview(f *testing.F) {
	for _, key := range loadbalancer.Keys() {
		f.Add(key.Name, key.Example, "80")
		f.Add(key.Name+".web", key.Example+" ", "")
		f.Add(key.Name+".080", key.Default, "443")
	}
	f.Fuzz(func(t *testing.T, name, value, suffix string) {
		svc := builder.Service(builder.DLB(name, value), builder.DLB("listener-protocol."+suffix, value), builder.DLB(name+"."+suffix, value))
		desired, findings := loadbalancer.Build(svc, options)
		if refused := len(finding.Errors(findings)) > 0; refused == (desired != nil) {
			t.Errorf("desired %v with findings %v", desired, findings)
		}
		if diff := cmp.Diff(findings, loadbalancer.Review(nil, svc, options)); diff != "" {
			t.Errorf("admission differs from reconcile:\n%s", diff)
		}
		if left := finding.Errors(loadbalancer.Review(svc, svc, options)); len(left) > 0 {
			t.Errorf("an update that changes nothing is refused: %v", left)
		}
		for _, finding := range findings {
			if finding.ID == "" || finding.Field == "" || finding.Message == "" || finding.Remedy == "" {
				t.Errorf("incomplete finding %+v", finding)
			}
		}
	})
}

func BenchmarkReview(b *testing.B) {
	svc := builder.Service(builder.DLB("listener-maxqps", "5000"), builder.DLB("listener-idle-timeout", "60s"),
		builder.DLB("scheduler", "source-ip"), builder.DLB("health-check-interval", "5s"),
		builder.DLB("health-check-timeout", "2s"), builder.DLB("tags", "team=a,env=b"))
	b.ReportAllocs()
	for b.Loop() {
		loadbalancer.Review(nil, svc, options)
	}
}
