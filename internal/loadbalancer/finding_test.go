package loadbalancer_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/test/builder"
)

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
		_, findings := loadbalancer.Build(builder.Service(builder.DLB(written, "x")), options)
		if len(findings) != 1 || !strings.HasSuffix(findings[0].Message, "the nearest is "+loadbalancer.Prefix+want) {
			t.Errorf("%s: want %s, got %+v", written, want, findings)
		}
	}
}

func TestNearestValue(t *testing.T) {
	const none = "write one of these words"
	tests := []struct{ key, value, want string }{
		{"listener-protocol", "htpp", "the nearest is http"},
		{"listener-protocol", "TCP", "the nearest is tcp"},
		{"network-type", "Private", "the nearest is private"},
		{"network-type", "internal", none},
		{"network-type", "internet", none},
		{"deletion-protection", "True", "the nearest is true"},
		{"deletion-protection", "no", none},
		{"deletion-protection", "enabled", none},
		{"scheduler", "round_robin", "the nearest is round-robin"},
		{"scheduler", "rr", none},
		{"scheduler", "", none},
	}
	for _, test := range tests {
		_, findings := loadbalancer.Build(builder.Service(builder.DLB(test.key, test.value)), options)
		if len(findings) != 1 || findings[0].Remedy != test.want {
			t.Errorf("%s=%q: want %q, got %+v", test.key, test.value, test.want, findings)
		}
	}
}

// BenchmarkReviewLarge shows work that grows with the square of the input: thousands of ports, each with a form of its
// own and a wrong one, and a long list.
func BenchmarkReviewLarge(b *testing.B) {
	zones := make([]string, 50_000)
	for i := range zones {
		zones[i] = fmt.Sprintf("z%d", i)
	}
	var ports []corev1.ServicePort
	large := []builder.ServiceOption{builder.DLB("zones", strings.Join(zones, ","))}
	for i := range int32(3000) {
		ports = append(ports, builder.Port(fmt.Sprintf("p%d", i), corev1.ProtocolTCP, i+1))
		large = append(large, builder.DLB(fmt.Sprintf("scheduler.q%d", i), "x"), builder.DLB(fmt.Sprintf("listener-maxqps.p%d", i), "5"))
	}
	svc := builder.Service(append(large, builder.Ports(ports...))...)
	b.ReportAllocs()
	for b.Loop() {
		loadbalancer.Review(svc, svc, options)
	}
}
