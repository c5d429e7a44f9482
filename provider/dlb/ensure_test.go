package dlb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

func TestEnsureCreatesTheTree(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service(
		builder.DLB("listener-maxqps", "5000"), builder.DLB("listener-maxqps.443", "700"),
		builder.DLB("tags", "team=edge"), builder.DLB("zones", "eu-1a,eu-1b"),
		builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("tls", corev1.ProtocolTCP, 443)),
		builder.Spec(func(s *corev1.ServiceSpec) {
			s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			s.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "10.0.0.7/8", "10.0.0.0/8"}
		}))
	status := f.mustEnsure(svc)
	f.expectCalls("create", "POST load-balancers", "GET load-balancers/{id}")

	lb := f.only()
	if lb.Name != "dev-shop-web" {
		t.Errorf("name %q, want dev-shop-web", lb.Name)
	}
	tags := map[string]string{"team": "edge", ownership.ClusterUID: clusterUID, ownership.ServiceUID: string(svc.UID)}
	if diff := cmp.Diff(tags, lb.Tags); diff != "" {
		t.Errorf("unexpected tags (-want +got):\n%s", diff)
	}
	want := cloudv1.LoadBalancerFields{
		Scheme: "public", Network: &cloudv1.Network{VPCID: "vpc-main"}, Zones: []string{"eu-1a", "eu-1b"},
		VIPs: []cloudv1.VIP{{Family: "ipv6", Mode: "vip"}, {Family: "ipv4", Mode: "vip"}},
	}
	monitor := &cloudv1.HealthMonitor{Type: "tcp", IntervalMS: 10_000, TimeoutMS: 5_000, Rise: 2, Fall: 3}
	for _, p := range []struct {
		port, nodePort int32
		qps            int
	}{{80, 30080, 5000}, {443, 30443, 700}} {
		key := fmt.Sprintf("tcp/%d", p.port)
		want.Listeners = append(want.Listeners, cloudv1.Listener{
			Key: key, Protocol: "tcp", Port: p.port, PoolKey: key, MaxQPS: p.qps, IdleTimeoutMS: 60_000,
			ProxyProtocol: "none", AllowedCIDRs: []string{"10.0.0.0/8", "192.0.2.0/24"},
		})
		for _, family := range []string{"ipv6", "ipv4"} {
			want.Pools = append(want.Pools, cloudv1.Pool{
				Key: key, Family: family, Protocol: "tcp", Algorithm: "round_robin", TargetPort: p.nodePort,
				NodeGroupID: f.group.ID, DrainTimeoutS: 30, HealthMonitor: monitor,
			})
		}
	}
	ignore := cmpopts.IgnoreFields(cloudv1.VIP{}, "ID", "Address")
	if diff := cmp.Diff(want, lb.LoadBalancerFields, ignore); diff != "" {
		t.Errorf("unexpected tree (-want +got):\n%s", diff)
	}
	published := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
		{IP: lb.VIPs[0].Address, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)},
		{IP: lb.VIPs[1].Address, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)},
	}}
	if diff := cmp.Diff(published, status); diff != "" || published.Ingress[0].IP == "" {
		t.Errorf("unexpected status (-want +got):\n%s", diff)
	}
	f.expectCondition(svc, metav1.ConditionTrue, "Configured", "dev-shop-web")
}

func TestEnsureUpdates(t *testing.T) {
	web := builder.Port("web", corev1.ProtocolTCP, 80)
	for name, tc := range map[string]struct {
		change builder.ServiceOption
		writes bool
		check  func(cloudv1.LoadBalancer) bool
	}{
		"nothing": {change: func(*corev1.Service) {}, check: func(cloudv1.LoadBalancer) bool { return true }},
		"an annotation that is not ours": {
			change: builder.Annotation("example.com/note", "x"), check: func(cloudv1.LoadBalancer) bool { return true },
		},
		"a default written down": {
			change: builder.DLB("listener-maxqps", "10000"), check: func(cloudv1.LoadBalancer) bool { return true },
		},
		"QPS": {
			change: builder.DLB("listener-maxqps", "77"), writes: true,
			check: func(lb cloudv1.LoadBalancer) bool { return lb.Listeners[0].MaxQPS == 77 },
		},
		"QPS of a port": {
			change: builder.DLB("listener-maxqps.web", "78"), writes: true,
			check: func(lb cloudv1.LoadBalancer) bool { return lb.Listeners[0].MaxQPS == 78 },
		},
		"another port": {
			change: builder.Ports(web, builder.Port("admin", corev1.ProtocolTCP, 8080)), writes: true,
			check: func(lb cloudv1.LoadBalancer) bool { return len(lb.Listeners) == 2 && len(lb.Pools) == 2 },
		},
		"tcp to http": {
			change: builder.DLB("listener-protocol", "http"), writes: true,
			check: func(lb cloudv1.LoadBalancer) bool {
				return lb.Listeners[0].Protocol == "http" && lb.Pools[0].Protocol == "http" && lb.VIPs[0].Mode == "proxy"
			},
		},
		"https ends at the load balancer": {
			change: func(svc *corev1.Service) {
				builder.DLB("listener-protocol", "https")(svc)
				builder.DLB("listener-tls-certificate-id", "cert-12345678")(svc)
			},
			writes: true,
			check: func(lb cloudv1.LoadBalancer) bool {
				return lb.Listeners[0].TLS.CertificateIDs[0] == "cert-12345678" && lb.Pools[0].Protocol == "http"
			},
		},
		"traffic policy Local": {
			change: builder.Spec(func(s *corev1.ServiceSpec) {
				s.ExternalTrafficPolicy, s.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 32000
			}),
			writes: true,
			check: func(lb cloudv1.LoadBalancer) bool {
				m := lb.Pools[0].HealthMonitor
				return m.Type == "http" && m.Port == 32000 && m.Path == "/healthz" && m.ExpectedCodes == "200"
			},
		},
		"session affinity": {
			change: builder.Spec(func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }), writes: true,
			check: func(lb cloudv1.LoadBalancer) bool {
				return lb.Pools[0].SessionAffinity.Type == "source_ip" && lb.Pools[0].SessionAffinity.TimeoutS == 10800
			},
		},
		"tags": {
			change: builder.DLB("tags", "team=edge"), writes: true,
			check: func(lb cloudv1.LoadBalancer) bool { return lb.Tags["team"] == "edge" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			before := f.mustEnsure(svc)
			revision := f.only().Revision
			f.cloud.Calls()
			tc.change(svc)
			after := f.mustEnsure(svc)
			if tc.writes {
				f.expectCalls("update", "PUT load-balancers/{id}")
			} else {
				f.expectCalls("no change")
			}
			lb := f.only()
			if !tc.check(lb) {
				t.Errorf("unexpected load balancer: %+v", lb)
			}
			if (lb.Revision != revision) != tc.writes {
				t.Errorf("revision %s after %s, want a change: %t", lb.Revision, revision, tc.writes)
			}
			if before.Ingress[0].IP != after.Ingress[0].IP {
				t.Errorf("the published address changed from %s to %s", before.Ingress[0].IP, after.Ingress[0].IP)
			}
		})
	}
}

func TestEnsureOfInvalidServiceTouchesNothing(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	revision := f.only().Revision
	f.cloud.Calls()

	builder.DLB("listener-maxqps", "many")(svc)
	builder.DLB("shceduler", "round-robin")(svc)
	status, err := f.ensure(svc)
	f.expectCalls("invalid")
	if status != nil || err == nil {
		t.Fatalf("status %v, error %v; want an error alone", status, err)
	}
	for _, key := range []string{"listener-maxqps", "shceduler"} {
		if path := "metadata.annotations[" + annotation + key + "]"; !strings.Contains(err.Error(), path) {
			t.Errorf("error lacks %s: %v", path, err)
		}
	}
	f.expectCondition(svc, metav1.ConditionFalse, "InvalidConfiguration", err.Error())
	if got := f.only().Revision; got != revision {
		t.Errorf("the load balancer changed from revision %s to %s", revision, got)
	}
	f.client.ClearActions()
	if _, err := f.ensure(svc); err == nil {
		t.Error("no error the second time")
	}
	for _, action := range f.client.Actions() {
		if action.GetVerb() == "patch" {
			t.Errorf("the condition was written again: %v", action)
		}
	}

	delete(svc.Annotations, annotation+"listener-maxqps")
	delete(svc.Annotations, annotation+"shceduler")
	f.mustEnsure(svc)
	f.expectCondition(svc, metav1.ConditionTrue, "Configured", "")
}

func TestEnsureRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		service *corev1.Service
		reason  string
		err     string
		calls   []string
	}{
		"zone that does not exist": {
			service: builder.Service(builder.DLB("zones", "eu-1a,eu-1x")),
			reason:  "InvalidConfiguration",
			err:     `metadata.annotations[` + annotation + `zones]: Invalid value: "eu-1x": must be one of the cloud's zones: eu-1a, eu-1b, eu-1c`,
			calls:   []string{"POST load-balancers", "GET zones"},
		},
		"load balancer to adopt that does not exist": {
			service: builder.Service(builder.DLB("load-balancer-id", "lb-none")),
			reason:  "InvalidConfiguration",
			err:     `metadata.annotations[` + annotation + `load-balancer-id]: Invalid value: "lb-none": the cloud has no such load balancer`,
			calls:   []string{"GET load-balancers/{id}"},
		},
		"no node port yet": {
			service: builder.Service(builder.Ports(corev1.ServicePort{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80})),
			err:     "port 80 has no node port yet",
		},
		"no health check node port yet": {
			service: builder.Service(builder.Spec(func(s *corev1.ServiceSpec) {
				s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			})),
			err: "no health check node port yet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			_, err := f.ensure(tc.service)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			f.expectCalls(name, tc.calls...)
			if tc.reason != "" {
				f.expectCondition(tc.service, metav1.ConditionFalse, tc.reason, tc.err)
			} else {
				f.expectCondition(tc.service, metav1.ConditionUnknown, "SyncFailing", tc.err)
			}
			if all := f.all(); len(all) != 0 {
				t.Errorf("%d load balancers were created", len(all))
			}
		})
	}
}

func TestOwned(t *testing.T) {
	b := dlb.New(dlb.Options{LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true})
	for class, want := range map[string]bool{"example.com/lb": false, "mycloud.io/dlb": true} {
		if got := b.Owned(builder.Service(builder.Class(class))); got != want {
			t.Errorf("a Service of class %s is ours: %t, want %t", class, got, want)
		}
	}
}

func TestEnsurePublishesHostname(t *testing.T) {
	f := start(t, 0)
	status := f.mustEnsure(builder.Service(builder.DLB("hostname", "shop.example.com")))
	want := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "shop.example.com"}}}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("unexpected status (-want +got):\n%s", diff)
	}
}

// While the cloud works on a load balancer, a call neither waits nor asks: the end is learned from the mirror. Nothing is
// published before that.
func TestEnsureDoesNotWaitForJobs(t *testing.T) {
	f := start(t, 300*time.Millisecond)
	svc := builder.Service()
	pending := func(what string, calls ...string) {
		t.Helper()
		_, err := f.ensure(svc)
		if _, later := errors.AsType[*laterError](err); !later {
			t.Fatalf("%s: error %v, want one that says when to try again", what, err)
		}
		f.expectCalls(what, calls...)
		f.expectCondition(svc, metav1.ConditionFalse, "Pending", "the cloud is still working on load balancer "+f.only().ID)
		f.cloud.Calls()
	}
	active := func(what string) {
		t.Helper()
		env.Eventually(t, 10*time.Second, "an active load balancer", func(context.Context) error {
			if state := f.only().ProvisioningState; state != cloudv1.ProvisioningActive {
				return fmt.Errorf("it is %s", state)
			}
			return nil
		})
		f.sync()
		f.cloud.Calls()
		if status := f.mustEnsure(svc); status.Ingress[0].IP == "" {
			t.Errorf("%s: status without address: %v", what, status)
		}
		f.expectCalls(what)
		f.expectCondition(svc, metav1.ConditionTrue, "Configured", "")
	}
	pending("create", "POST load-balancers", "GET load-balancers/{id}")
	pending("create again")
	active("created")
	builder.DLB("listener-maxqps", "9")(svc)
	pending("change", "PUT load-balancers/{id}")
	pending("change again")
	active("changed")
	if qps := f.only().Listeners[0].MaxQPS; qps != 9 {
		t.Errorf("max_qps %d, want 9", qps)
	}
}

// Defaults that the cloud stores cause no writes, while differences from what the Service asks for still do.
func TestDefaultsOfTheCloud(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	lb := f.only()
	lb.Flavor, lb.Zones = "small", []string{"eu-1a", "eu-1b", "eu-1c"}
	spec := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	if _, _, err := f.cloud.Client.UpdateLoadBalancer(t.Context(), lb.ID, spec, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Fatal(err)
	}
	f.cloud.Calls()
	f.mustEnsure(svc)
	f.expectCalls("defaults")
	builder.DLB("flavor", "large")(svc)
	builder.DLB("zones", "eu-1b")(svc)
	f.mustEnsure(svc)
	if lb := f.only(); lb.Flavor != "large" || !slices.Equal(lb.Zones, []string{"eu-1b"}) {
		t.Errorf("flavor %q, zones %v; want large in eu-1b", lb.Flavor, lb.Zones)
	}
}

func TestEnsureWaitsForTheNodeGroup(t *testing.T) {
	f := start(t, 0)
	_, err := f.ensure(builder.Service(builder.DLB("ingress-group", "edge")))
	if _, later := errors.AsType[*laterError](err); !later || !strings.Contains(err.Error(), "node group edge") {
		t.Errorf("error %v, want one about node group edge that says when to try again", err)
	}
	if all := f.all(); len(all) != 0 {
		t.Errorf("%d load balancers were created without their nodes", len(all))
	}
}

// Waiting for the first sync of a node group is no failure.
func TestGroupNotSyncedYet(t *testing.T) {
	f := start(t, 0, func(o *dlb.Options) { o.NodeGroups = groups{} })
	if _, err := f.ensure(builder.Service()); !errors.Is(err, service.ErrNotReady) {
		t.Errorf("got %v, want %v", err, service.ErrNotReady)
	}
}

// noGroups are those of a cluster that has as many groups as it may have.
type noGroups struct{}

func (noGroups) ID(context.Context, string) (string, error) {
	return "", fmt.Errorf("%w: use one of them", ingressnode.ErrTooManyGroups)
}

// The condition of a Service whose group is one too many says so.
func TestTooManyGroups(t *testing.T) {
	f := start(t, 0, func(o *dlb.Options) { o.NodeGroups = noGroups{} })
	svc := builder.Service(builder.DLB("ingress-group", "edge"))
	if _, err := f.ensure(svc); err == nil {
		t.Error("no error")
	}
	f.expectCondition(svc, metav1.ConditionFalse, "InvalidConfiguration",
		`metadata.annotations[service.beta.kubernetes.io/dlb-ingress-group]: Invalid value: "edge": too many ingress groups: use one of them`)
}

// Without node ports, edges forward packets to the nodes unchanged, and kube-proxy reports which nodes take them.
func TestEnsureWithoutNodePorts(t *testing.T) {
	f := start(t, 0)
	without := builder.Spec(func(s *corev1.ServiceSpec) {
		s.AllocateLoadBalancerNodePorts = new(false)
		for i := range s.Ports {
			s.Ports[i].NodePort = 0
		}
	})
	f.mustEnsure(builder.Service(without))
	pool := f.only().Pools[0]
	if pool.TargetPort != 0 || pool.HealthMonitor.Type != cloudv1.ProtocolHTTP || pool.HealthMonitor.Port != 10256 {
		t.Errorf("got target port %d and monitor %+v", pool.TargetPort, pool.HealthMonitor)
	}
	if _, err := f.ensure(builder.Service(without, builder.DLB("listener-protocol", "http"))); err == nil {
		t.Error("an http listener without node port was accepted")
	}
}
