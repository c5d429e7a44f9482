package review_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/builder"
)

func TestSourceRangesFailClosed(t *testing.T) {
	svc := builder.Service(builder.Annotation(corev1.AnnotationLoadBalancerSourceRangesKey, "10.0.0.0/8, nonsense"))
	findings := own.Review(nil, svc, nil)
	if len(finding.Errors(findings)) != 1 || findings[0].Value != " nonsense" {
		t.Errorf("got %+v", findings)
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
		"invalid value":   {builder.Service(builder.DLB("listener-maxqps", "")), map[string]string{idle: "60s"}},
		"port forms only": {builder.Service(builder.DLB("listener-maxqps.80", "1")), map[string]string{qps: "10000", idle: "60s"}},
		"our class":       {builder.Service(builder.Class("mycloud.io/dlb")), map[string]string{qps: "10000", idle: "60s"}},
		"other class":     {builder.Service(builder.Class("example.com/x")), map[string]string{}},
		"no LoadBalancer": {builder.Service(builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })), map[string]string{}},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, own.Parse(test.service).WrittenDefaults()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNearestKey(t *testing.T) {
	tests := map[string]string{
		"listener-maxqsp":          "listener-maxqps",
		"listener-max-qps":         "listener-maxqps",
		"listener_maxqps":          "listener-maxqps",
		"maxqps":                   "listener-maxqps",
		"listener-maxqsp.80":       "listener-maxqps.80",
		"listener-maxqps-80":       "listener-maxqps.80",
		"listener-maxqps-web":      "listener-maxqps.web",
		"listener.maxqps":          "listener-maxqps",
		"health.check.path":        "health-check-path",
		"deletion.protection":      "deletion-protection",
		"sheduler":                 "scheduler",
		"network-typ.80":           "network-type",
		"ssl-cert":                 "listener-tls-certificate-id",
		"algorithm":                "scheduler",
		"internal":                 "network-type",
		"max-connections":          "listener-maxconn",
		"health-check-type":        "health-check-protocol",
		"additional-resource-tags": "tags",
		"loadbalancer-id":          "load-balancer-id",
	}
	for written, want := range tests {
		findings := own.Review(nil, builder.Service(builder.DLB(written, "x")), nil)
		if len(findings) != 1 || findings[0].Remedy != fmt.Sprintf("did you mean %q?", loadbalancer.Prefix+want) {
			t.Errorf("%s: want %s, got %+v", written, want, findings)
		}
	}
}

func TestNearestValue(t *testing.T) {
	const none = ""
	tests := []struct{ key, value, want string }{
		{"listener-protocol", "htpp", `did you mean "http"?`},
		{"listener-protocol", "TCP", `did you mean "tcp"?`},
		{"network-type", "Private", `did you mean "private"?`},
		{"network-type", "internal", none},
		{"network-type", "internet", none},
		{"deletion-protection", "True", `did you mean "true"?`},
		{"deletion-protection", "no", none},
		{"deletion-protection", "enabled", none},
		{"scheduler", "round_robin", `did you mean "round-robin"?`},
		{"scheduler", "rr", none},
		{"scheduler", "", none},
	}
	for _, test := range tests {
		findings := own.Review(nil, builder.Service(builder.DLB(test.key, test.value)), nil)
		if len(findings) != 1 || strings.HasPrefix(findings[0].Remedy, "did you mean") != (test.want != none) ||
			test.want != none && findings[0].Remedy != test.want {
			t.Errorf("%s=%q: want %q, got %+v", test.key, test.value, test.want, findings)
		}
	}
}

// BenchmarkReviewLarge detects work that grows with the square of the input: it reviews a Service with a long list and
// thousands of ports, each with a valid form for the port and an unknown one.
func BenchmarkReviewLarge(b *testing.B) {
	zones := make([]string, 50_000)
	for i := range zones {
		zones[i] = fmt.Sprintf("z%d", i)
	}
	var ports []corev1.ServicePort
	large := []builder.ServiceOption{builder.DLB("zones", strings.Join(zones, ","))}
	for i := range int32(3000) {
		ports = append(ports, builder.Port(fmt.Sprintf("p%d", i), corev1.ProtocolTCP, i+1))
		large = append(large, builder.DLB(fmt.Sprintf("scheduler.q%d", i), "x"),
			builder.DLB(fmt.Sprintf("listener-maxqps.p%d", i), "5"))
	}
	svc := builder.Service(append(large, builder.Ports(ports...))...)
	b.ReportAllocs()
	for b.Loop() {
		own.Review(svc, svc, nil)
	}
}

// FuzzReview searches for annotations that cause a panic, an incomplete finding, or different findings at admission and
// reconcile.
func FuzzReview(f *testing.F) {
	mycloud, _ := library.BuiltIn().Find(loadbalancer.Catalog)
	for _, a := range mycloud.Document().Annotations {
		name := strings.TrimPrefix(a.Name, loadbalancer.Prefix)
		f.Add(name, a.Valid, "80")
		f.Add(name+".web", a.Valid+" ", "")
		f.Add(name+".080", a.Default, "443")
	}
	f.Fuzz(func(t *testing.T, name, value, suffix string) {
		svc := builder.Service(builder.DLB(name, value), builder.DLB("listener-protocol."+suffix, value),
			builder.DLB(name+"."+suffix, value))
		parsed := own.Parse(svc)
		findings := finding.Merge(parsed.Validate())
		if len(finding.Errors(findings)) == 0 {
			loadbalancer.Build(parsed.Own(), loadbalancer.DefaultKubeProxyHealthCheckPort)
		}
		if diff := cmp.Diff(findings, own.Review(nil, svc, nil)); diff != "" {
			t.Errorf("admission differs from reconcile:\n%s", diff)
		}
		if errs := finding.Errors(own.Review(svc, svc, nil)); len(errs) > 0 {
			t.Errorf("an update that changes nothing is refused: %v", errs)
		}
		for _, f := range findings {
			if f.ID == "" || f.Field == "" || f.Message == "" || f.Remedy == "" {
				t.Errorf("incomplete finding %+v", f)
			}
		}
	})
}

func BenchmarkReviewOwn(b *testing.B) {
	svc := builder.Service(builder.DLB("listener-maxqps", "5000"), builder.DLB("listener-idle-timeout", "60s"),
		builder.DLB("scheduler", "source-ip"), builder.DLB("health-check-interval", "5s"),
		builder.DLB("health-check-timeout", "2s"), builder.DLB("tags", "team=a,env=b"))
	b.ReportAllocs()
	for b.Loop() {
		own.Review(nil, svc, nil)
	}
}
