package dlb_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"quaymaster.dev/provider/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/cloud"
)

const (
	clusterUID = "c1a5e000-0000-4000-8000-000000000001"
	annotation = "service.beta.kubernetes.io/dlb-"
)

// fixture is a Balancer with its cloud and its cluster, which has the Service that the test is about.
type fixture struct {
	t *testing.T
	*dlb.Balancer
	cloud   *cloud.Cloud
	client  *fake.Clientset
	events  *record.FakeRecorder
	group   *cloudapi.NodeGroup
	options dlb.Options
}

// groups is a NodeGroups whose groups are in the cloud already.
type groups map[string]string

func (g groups) ID(ctx context.Context, group string) (string, error) {
	if id, ok := g[group]; ok {
		return id, nil
	}
	<-ctx.Done()
	return "", ctx.Err()
}

func start(t *testing.T, jobDuration time.Duration, change ...func(*dlb.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, cloud: cloud.Start(t, jobDuration), events: record.NewFakeRecorder(100)}
	f.client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	var err error
	f.group, err = f.cloud.Client.CreateNodeGroup(t.Context(), cloudapi.NodeGroupSpec{Name: "dev-default"}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.options = dlb.Options{
		Cloud: f.cloud.Client, Cluster: ownership.NewCluster(f.client.CoreV1()), ClusterID: "dev",
		Network: dlb.Network{VPCID: "vpc-main"}, LoadBalancerClass: "mycloud.io/dlb",
		NodeGroups: groups{"default": f.group.ID}, Services: f.client.CoreV1(), Recorder: f.events, Wait: 5 * time.Second,
	}
	for _, c := range change {
		c(&f.options)
	}
	f.Balancer = dlb.New(f.options)
	f.cloud.Calls()
	return f
}

// put makes the Service what the cluster has.
func (f *fixture) put(svc *corev1.Service) *corev1.Service {
	f.t.Helper()
	services := f.client.CoreV1().Services(svc.Namespace)
	old, err := services.Get(f.t.Context(), svc.Name, metav1.GetOptions{})
	if err != nil {
		svc, err = services.Create(f.t.Context(), svc, metav1.CreateOptions{})
	} else {
		svc.Status = old.Status
		svc, err = services.Update(f.t.Context(), svc, metav1.UpdateOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return svc
}

// ensure makes the Service what the cluster has and ensures its load balancer.
func (f *fixture) ensure(svc *corev1.Service) (*corev1.LoadBalancerStatus, error) {
	f.t.Helper()
	svc = f.put(svc)
	return f.EnsureLoadBalancer(f.t.Context(), "dev", svc, nil)
}

func (f *fixture) mustEnsure(svc *corev1.Service) *corev1.LoadBalancerStatus {
	f.t.Helper()
	status, err := f.ensure(svc)
	if err != nil {
		f.t.Fatalf("ensure: %v", err)
	}
	return status
}

// all are the cloud's load balancers.
func (f *fixture) all() []cloudapi.LoadBalancer {
	f.t.Helper()
	list, err := f.cloud.Client.ListLoadBalancers(f.t.Context(), cloudapi.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

// only is the cloud's one load balancer.
func (f *fixture) only() cloudapi.LoadBalancer {
	f.t.Helper()
	all := f.all()
	if len(all) != 1 {
		f.t.Fatalf("%d load balancers, want 1", len(all))
	}
	return all[0]
}

func (f *fixture) condition(svc *corev1.Service) *metav1.Condition {
	f.t.Helper()
	got, err := f.client.CoreV1().Services(svc.Namespace).Get(f.t.Context(), svc.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return meta.FindStatusCondition(got.Status.Conditions, dlb.ConditionConfigured)
}

func (f *fixture) expectCondition(svc *corev1.Service, status metav1.ConditionStatus, reason, message string) {
	f.t.Helper()
	c := f.condition(svc)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		f.t.Errorf("condition %+v, want %s, %s, %q", c, status, reason, message)
	}
}

// expectCalls checks what was asked of the cloud, with ids left out of the paths.
func (f *fixture) expectCalls(what string, want ...string) {
	f.t.Helper()
	var got []string
	for _, call := range f.cloud.Calls() {
		method, path, _ := strings.Cut(call, " ")
		parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
		call = method + " " + parts[0]
		if len(parts) > 1 {
			_, verb, _ := strings.Cut(parts[1], ":")
			call += "/{id}" + map[bool]string{true: ":" + verb}[verb != ""]
		}
		got = append(got, call)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s: unexpected calls (-want +got):\n%s", what, diff)
	}
}

func (f *fixture) expectEvent(text string) {
	f.t.Helper()
	for {
		select {
		case event := <-f.events.Events:
			if strings.Contains(event, text) {
				return
			}
		default:
			f.t.Errorf("no event with %q", text)
			return
		}
	}
}

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
	f.expectCalls("create", "GET load-balancers", "GET zones", "POST load-balancers", "GET load-balancers/{id}")

	lb := f.only()
	if lb.Name != "dev-shop-web" {
		t.Errorf("name %q, want dev-shop-web", lb.Name)
	}
	tags := map[string]string{"team": "edge", ownership.ClusterUID: clusterUID, ownership.ServiceUID: string(svc.UID)}
	if diff := cmp.Diff(tags, lb.Tags); diff != "" {
		t.Errorf("unexpected tags (-want +got):\n%s", diff)
	}
	want := cloudapi.LoadBalancerFields{
		Scheme: "public", Network: &cloudapi.Network{VPCID: "vpc-main"}, Zones: []string{"eu-1a", "eu-1b"},
		VIPs: []cloudapi.VIP{{Family: "ipv6", Mode: "vip"}, {Family: "ipv4", Mode: "vip"}},
	}
	monitor := &cloudapi.HealthMonitor{Type: "tcp", IntervalMS: 10_000, TimeoutMS: 5_000, Rise: 2, Fall: 3}
	for _, p := range []struct {
		port, nodePort int32
		qps            int
	}{{80, 30080, 5000}, {443, 30443, 700}} {
		key := fmt.Sprintf("tcp/%d", p.port)
		want.Listeners = append(want.Listeners, cloudapi.Listener{
			Key: key, Protocol: "tcp", Port: p.port, PoolKey: key, MaxQPS: p.qps, IdleTimeoutMS: 60_000,
			ProxyProtocol: "none", AllowedCIDRs: []string{"10.0.0.0/8", "192.0.2.0/24"},
		})
		for _, family := range []string{"ipv6", "ipv4"} {
			want.Pools = append(want.Pools, cloudapi.Pool{
				Key: key, Family: family, Protocol: "tcp", Algorithm: "round_robin", TargetPort: p.nodePort,
				NodeGroupID: f.group.ID, DrainTimeoutS: 30, HealthMonitor: monitor,
			})
		}
	}
	ignore := cmpopts.IgnoreFields(cloudapi.VIP{}, "ID", "Address")
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
	withPorts := func(ports ...corev1.ServicePort) builder.ServiceOption { return builder.Ports(ports...) }
	web := builder.Port("web", corev1.ProtocolTCP, 80)
	for name, tc := range map[string]struct {
		change builder.ServiceOption
		writes bool
		check  func(cloudapi.LoadBalancer) bool
	}{
		"nothing": {change: func(*corev1.Service) {}, check: func(cloudapi.LoadBalancer) bool { return true }},
		"an annotation that is not ours": {
			change: builder.Annotation("example.com/note", "x"), check: func(cloudapi.LoadBalancer) bool { return true },
		},
		"a default written down": {
			change: builder.DLB("listener-maxqps", "10000"), check: func(cloudapi.LoadBalancer) bool { return true },
		},
		"QPS": {
			change: builder.DLB("listener-maxqps", "77"), writes: true,
			check: func(lb cloudapi.LoadBalancer) bool { return lb.Listeners[0].MaxQPS == 77 },
		},
		"QPS of a port": {
			change: builder.DLB("listener-maxqps.web", "78"), writes: true,
			check: func(lb cloudapi.LoadBalancer) bool { return lb.Listeners[0].MaxQPS == 78 },
		},
		"another port": {
			change: withPorts(web, builder.Port("admin", corev1.ProtocolTCP, 8080)), writes: true,
			check: func(lb cloudapi.LoadBalancer) bool { return len(lb.Listeners) == 2 && len(lb.Pools) == 2 },
		},
		"tcp to http": {
			change: builder.DLB("listener-protocol", "http"), writes: true,
			check: func(lb cloudapi.LoadBalancer) bool {
				return lb.Listeners[0].Protocol == "http" && lb.Pools[0].Protocol == "http" && lb.VIPs[0].Mode == "proxy"
			},
		},
		"https ends at the load balancer": {
			change: func(svc *corev1.Service) {
				builder.DLB("listener-protocol", "https")(svc)
				builder.DLB("listener-tls-certificate-id", "cert-12345678")(svc)
			},
			writes: true,
			check: func(lb cloudapi.LoadBalancer) bool {
				return lb.Listeners[0].TLS.CertificateIDs[0] == "cert-12345678" && lb.Pools[0].Protocol == "http"
			},
		},
		"traffic policy Local": {
			change: builder.Spec(func(s *corev1.ServiceSpec) {
				s.ExternalTrafficPolicy, s.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 32000
			}),
			writes: true,
			check: func(lb cloudapi.LoadBalancer) bool {
				m := lb.Pools[0].HealthMonitor
				return m.Type == "http" && m.Port == 32000 && m.Path == "/healthz" && m.ExpectedCodes == "200"
			},
		},
		"session affinity": {
			change: builder.Spec(func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }), writes: true,
			check: func(lb cloudapi.LoadBalancer) bool {
				return lb.Pools[0].SessionAffinity.Type == "source_ip" && lb.Pools[0].SessionAffinity.TimeoutS == 10800
			},
		},
		"tags": {
			change: builder.DLB("tags", "team=edge"), writes: true,
			check: func(lb cloudapi.LoadBalancer) bool { return lb.Tags["team"] == "edge" },
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
				f.expectCalls("update", "GET load-balancers", "PUT load-balancers/{id}")
			} else {
				f.expectCalls("no change", "GET load-balancers")
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
	before := f.condition(svc)
	if _, err := f.ensure(svc); err == nil {
		t.Error("no error the second time")
	}
	if diff := cmp.Diff(before, f.condition(svc)); diff != "" {
		t.Errorf("the condition was written again (-before +after):\n%s", diff)
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
			err:     `metadata.annotations[` + annotation + `zones]: Invalid value: "eu-1x": must be zones of the cloud: eu-1a, eu-1b, eu-1c`,
			calls:   []string{"GET load-balancers", "GET zones"},
		},
		"load balancer to adopt that does not exist": {
			service: builder.Service(builder.DLB("load-balancer-id", "lb-none")),
			reason:  "InvalidConfiguration",
			err:     `metadata.annotations[` + annotation + `load-balancer-id]: Invalid value: "lb-none": the cloud has no such load balancer`,
			calls:   []string{"GET load-balancers", "GET load-balancers/{id}"},
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
			} else if c := f.condition(tc.service); c != nil {
				t.Errorf("condition %+v for what is not the user's", c)
			}
			if all := f.all(); len(all) != 0 {
				t.Errorf("%d load balancers were created", len(all))
			}
		})
	}
}

func TestEnsureOfAnotherClass(t *testing.T) {
	f := start(t, 0)
	if _, err := f.ensure(builder.Service(builder.Class("example.com/lb"))); err == nil {
		t.Error("a Service of another class was served")
	}
	f.expectCalls("another class")
	f.mustEnsure(builder.Service(builder.Class("mycloud.io/dlb"), func(svc *corev1.Service) { svc.Name = "ours" }))
}

func TestEnsurePublishesHostname(t *testing.T) {
	f := start(t, 0)
	status := f.mustEnsure(builder.Service(builder.DLB("hostname", "shop.example.com")))
	want := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: "shop.example.com"}}}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("unexpected status (-want +got):\n%s", diff)
	}
}

// The cloud works for longer than a call waits: the service controller is to come back, and nothing is published before.
func TestEnsureWaitsForJobs(t *testing.T) {
	f := start(t, 3*time.Second, func(o *dlb.Options) { o.Wait = 100 * time.Millisecond })
	svc := builder.Service()
	_, err := f.ensure(svc)
	var retry *cloudproviderapi.RetryError
	if !errors.As(err, &retry) {
		t.Fatalf("error %v, want a RetryError", err)
	}
	if state := f.only().ProvisioningState; state != cloudapi.PendingCreate {
		t.Fatalf("state %s, want %s", state, cloudapi.PendingCreate)
	}
	f.cloud.Calls()
	if _, err := f.ensure(svc); !errors.As(err, &retry) {
		t.Fatalf("error %v, want a RetryError", err)
	}
	f.expectCalls("pending", "GET load-balancers")

	patient := f.options
	patient.Wait = 30 * time.Second
	f.Balancer = dlb.New(patient)
	for f.only().ProvisioningState != cloudapi.Active {
		if t.Context().Err() != nil {
			t.Fatal("the load balancer never became active")
		}
	}
	f.cloud.Calls()
	if status := f.mustEnsure(svc); status.Ingress[0].IP == "" {
		t.Errorf("status without address: %v", status)
	}
	builder.DLB("listener-maxqps", "9")(svc)
	f.cloud.Calls()
	f.mustEnsure(svc)
	calls := f.cloud.Calls()
	if last := calls[len(calls)-1]; !strings.HasPrefix(last, "GET /v1/load-balancers/") {
		t.Errorf("calls %v: the result of the job was not read", calls)
	}
	if qps := f.only().Listeners[0].MaxQPS; qps != 9 {
		t.Errorf("max_qps %d, want 9", qps)
	}
}

func TestEnsureWaitsForTheNodeGroup(t *testing.T) {
	f := start(t, 0, func(o *dlb.Options) { o.Wait = 50 * time.Millisecond })
	_, err := f.ensure(builder.Service(builder.DLB("ingress-group", "edge")))
	var retry *cloudproviderapi.RetryError
	if !errors.As(err, &retry) || !strings.Contains(err.Error(), "node group edge") {
		t.Errorf("error %v, want a RetryError about node group edge", err)
	}
	if all := f.all(); len(all) != 0 {
		t.Errorf("%d load balancers were created without their nodes", len(all))
	}
}

func TestNameTaken(t *testing.T) {
	f := start(t, 0)
	one := builder.Service(func(s *corev1.Service) { s.Namespace, s.Name, s.UID = "a-b", "c", "uid-1" })
	two := builder.Service(func(s *corev1.Service) { s.Namespace, s.Name, s.UID = "a", "b-c", "uid-2" })
	f.mustEnsure(one)
	f.cloud.Calls()
	f.mustEnsure(two)
	f.expectCalls("name taken", "GET load-balancers", "POST load-balancers", "GET load-balancers/{id}",
		"POST load-balancers", "GET load-balancers/{id}")
	f.expectEvent("The name dev-a-b-c is taken")
	var names []string
	for _, lb := range f.all() {
		names = append(names, lb.Name)
	}
	slices.Sort(names)
	if len(names) != 2 || names[0] != "dev-a-b-c" || len(names[1]) != len("dev-a-b-c-01234567") || !strings.HasPrefix(names[1], "dev-a-b-c-") {
		t.Errorf("names %v, want dev-a-b-c and dev-a-b-c-<8 characters>", names)
	}
	f.cloud.Calls()
	f.mustEnsure(two)
	f.expectCalls("again", "GET load-balancers")
}

func TestMoreThanOneMatchIsAnError(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	lb := f.only()
	spec := cloudapi.LoadBalancerSpec{Name: "copy", Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	if _, _, err := f.cloud.Client.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.cloud.Calls()
	_, ensureErr := f.ensure(svc)
	_, _, getErr := f.GetLoadBalancer(t.Context(), "dev", svc)
	deleteErr := f.EnsureLoadBalancerDeleted(t.Context(), "dev", svc)
	for what, err := range map[string]error{"ensure": ensureErr, "get": getErr, "delete": deleteErr} {
		if err == nil || !strings.Contains(err.Error(), "all bear the tags of this service") || !strings.Contains(err.Error(), lb.ID) {
			t.Errorf("%s: error %v, want one that names both", what, err)
		}
	}
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) != 0 {
		t.Errorf("writes %v, want none", writes)
	}
}

// The controllers die after the cloud has created the load balancer and before they know it. Whatever they see after the
// restart, there is one load balancer.
func TestCrashAfterCreate(t *testing.T) {
	for name, lagging := range map[string]bool{"the list shows it": false, "the list lags behind": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				f.cloud.Serve(discard{http.Header{}}, r)
				panic(http.ErrAbortHandler)
			})
			if _, err := f.ensure(svc); err == nil {
				t.Fatal("no error though the answer was lost")
			}
			id := f.onlyWithoutIntercept()
			f.cloud.Intercept(nil)
			if lagging {
				f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodGet || r.URL.Path != "/v1/load-balancers" {
						return false
					}
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write([]byte(`{"items":[],"revision":"1","complete":true}`))
					return true
				})
				// What the Service says has changed meanwhile, so that the same key has another body.
				builder.DLB("listener-maxqps", "9")(svc)
			}
			f.Balancer = dlb.New(f.options)
			f.mustEnsure(svc)
			f.cloud.Intercept(nil)
			if lb := f.only(); lb.ID != id {
				t.Errorf("load balancer %s, want %s", lb.ID, id)
			} else if lagging && lb.Listeners[0].MaxQPS != 9 {
				t.Errorf("max_qps %d, want 9", lb.Listeners[0].MaxQPS)
			}
		})
	}
}

func (f *fixture) onlyWithoutIntercept() string {
	f.t.Helper()
	f.cloud.Intercept(nil)
	return f.only().ID
}

// discard is a ResponseWriter whose answer nobody gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// Someone deletes the load balancer in the cloud: the next try makes a new one, though the cloud still remembers the key
// that made the first.
func TestRecreate(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	seen := map[string]bool{}
	for range 3 {
		f.mustEnsure(svc)
		lb := f.only()
		if seen[lb.ID] {
			t.Fatalf("load balancer %s came back", lb.ID)
		}
		seen[lb.ID] = true
		if _, err := f.cloud.Client.DeleteLoadBalancer(t.Context(), lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
			t.Fatal(err)
		}
	}
}

// Someone else writes between our read and our write.
func TestStaleRevision(t *testing.T) {
	for name, tc := range map[string]struct {
		races int
		ok    bool
	}{"once": {1, true}, "again": {2, false}} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.mustEnsure(svc)
			lb := f.only()
			races := 0
			f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut && races < tc.races {
					races++
					now, err := f.cloud.Client.LoadBalancer(t.Context(), lb.ID, cloudapi.ReadOptions{})
					if err == nil {
						name := fmt.Sprintf("renamed-%d", races)
						_, _, err = f.cloud.Client.PatchLoadBalancer(t.Context(), lb.ID, cloudapi.LoadBalancerPatch{Name: &name},
							cloudapi.WriteOptions{IfMatch: now.Revision})
					}
					if err != nil {
						t.Error(err)
					}
				}
				return false
			})
			builder.DLB("listener-maxqps", "9")(svc)
			_, err := f.ensure(svc)
			if tc.ok != (err == nil) {
				t.Fatalf("error %v, want success: %t", err, tc.ok)
			}
			if !tc.ok && !cloudapi.HasCode(err, cloudapi.CodeStaleRevision) {
				t.Errorf("error %v, want %s", err, cloudapi.CodeStaleRevision)
			}
			if got := f.only(); tc.ok && (got.Name != "dev-shop-web" || got.Listeners[0].MaxQPS != 9) {
				t.Errorf("load balancer %s with max_qps %d, want dev-shop-web with 9", got.Name, got.Listeners[0].MaxQPS)
			}
		})
	}
}

// The cloud itself refuses a write to what bears no tags of ours.
func TestWritesNameTheOwner(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut || r.Method == http.MethodDelete {
			want := ownership.ClusterUID + "=" + clusterUID + "," + ownership.ServiceUID + "=" + string(svc.UID)
			if got := r.Header.Get("Mycloud-If-Tags"); got != want || r.Header.Get("If-Match") == "" {
				t.Errorf("%s with Mycloud-If-Tags %q, If-Match %q; want %q and a revision", r.Method, got, r.Header.Get("If-Match"), want)
			}
		}
		return false
	})
	builder.DLB("listener-maxqps", "9")(svc)
	f.mustEnsure(svc)
	if err := f.EnsureLoadBalancerDeleted(t.Context(), "dev", svc); err != nil {
		t.Fatal(err)
	}
}

func TestUpdateLoadBalancerAsksNothing(t *testing.T) {
	f := start(t, 0)
	if err := f.UpdateLoadBalancer(t.Context(), "dev", builder.Service(), nil); err != nil {
		t.Error(err)
	}
	f.expectCalls("update")
	if name := f.GetLoadBalancerName(t.Context(), "dev", builder.Service()); name != "dev-shop-web" {
		t.Errorf("name %q, want dev-shop-web", name)
	}
}

func TestCloudErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		answer    func(http.ResponseWriter)
		condition string
		retry     time.Duration
	}{
		"quota": {
			answer:    func(w http.ResponseWriter) { cloud.Problem(w, 403, cloudapi.CodeQuotaExceeded) },
			condition: "RefusedByCloud",
		},
		"invalid": {
			answer:    func(w http.ResponseWriter) { cloud.Problem(w, 422, cloudapi.CodeInvalid) },
			condition: "RefusedByCloud",
		},
		"wants patience": {
			answer: func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "17")
				cloud.Problem(w, 429, cloudapi.CodeRateLimited)
			},
			retry: 17 * time.Second,
		},
		"trouble": {answer: func(w http.ResponseWriter) { cloud.Problem(w, 500, cloudapi.CodeInternal) }},
		"a proxy's page": {answer: func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					tc.answer(w)
				}
				return r.Method == http.MethodPost
			})
			_, err := f.ensure(svc)
			if err == nil {
				t.Fatal("no error")
			}
			var retry *cloudproviderapi.RetryError
			if errors.As(err, &retry) != (tc.retry > 0) || tc.retry > 0 && retry.RetryAfter() != tc.retry {
				t.Errorf("error %v: retry %v, want after %s", err, retry, tc.retry)
			}
			if tc.condition != "" {
				f.expectCondition(svc, metav1.ConditionFalse, tc.condition, "the cloud refuses it: ")
			} else if c := f.condition(svc); c != nil {
				t.Errorf("condition %+v for what passes with time", c)
			}
		})
	}
}
