package safety

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/plan"
)

// TestPlan makes a change while no controller runs, and a plan. Then it starts the controllers: the next write of every
// object in the plan must be what they send, byte for byte, and whatever else they send must have been waiting.
func TestPlan(t *testing.T) {
	tests := map[string]struct {
		scenario
		// planned and later are the writes in the plan, and those that depend on their responses.
		planned, later []string
		waiting        []string
		reason         string
	}{
		"nothing": {scenario: scenario{before: web, act: func(*world) {}}},
		"the first load balancer": {
			scenario: scenario{act: web}, planned: []string{"POST /v1/node-groups"},
			later:  []string{"PATCH /v1/node-groups/ID/members", "POST /v1/load-balancers"},
			reason: "services refer to the group, which does not exist yet", waiting: []string{"service shop/web"},
		},
		"another load balancer": {
			scenario: scenario{before: web, act: func(w *world) { w.service("other", nil) }},
			planned:  []string{"POST /v1/load-balancers"}, reason: "the service has no load balancer",
		},
		"update": {
			scenario: scenarios()["update"], planned: []string{"PUT /v1/load-balancers/ID"},
			reason: "the service asks for something else",
		},
		"drift": {
			scenario: scenario{before: web, act: func(w *world) { w.meddle() }},
			planned:  []string{"PUT /v1/load-balancers/ID"},
			reason: "the load balancer differs, although the service has not changed: it was changed in the cloud, or " +
				"policies or the controllers' configuration changed",
		},
		"delete": {
			scenario: scenarios()["delete"], planned: []string{"DELETE /v1/load-balancers/ID"},
			reason: "the service is being deleted",
		},
		"release": {
			scenario: scenarios()["release"], planned: []string{"PUT /v1/load-balancers/ID"},
			reason: "the service is being deleted, and the load balancer is kept",
		},
		"adopt": {
			scenario: scenario{before: func(w *world) { w.service("other", nil); offer(w) }, act: scenarios()["adopt"].act},
			planned:  []string{"POST /v1/load-balancers/ID"}, later: []string{"PUT /v1/load-balancers/ID"},
			reason: "the service adopts load balancer ID",
		},
		"no longer a load balancer": {
			scenario: scenarios()["no longer a load balancer"], planned: []string{"DELETE /v1/load-balancers/ID"},
			reason: "the service is no longer of type LoadBalancer",
		},
		"ingress node and service": {
			scenario: scenario{before: web, act: func(w *world) {
				w.updateNode("node-1", "", func(node *corev1.Node) { node.Annotations = map[string]string{ingressNode: "false"} })
				scenarios()["update"].act(w)
			}},
			planned: []string{"PUT /v1/load-balancers/ID", "PATCH /v1/node-groups/ID/members"},
			reason:  "the members of the group differ from the nodes",
		},
		"route": {
			scenario: scenario{before: web, act: func(w *world) { w.dropRoutes() }},
			planned:  []string{"POST /v1/route-tables/rt-main/routes:batch"},
			reason:   "the routes differ from the nodes",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, size{nodes: 3})
				if tc.before != nil {
					tc.before(w)
				}
				w.start()
				w.settle(0)
				w.stop()
				tc.act(w)
				var sent log
				w.setFaults(sent.observe)
				before := w.versions()
				made, err := plan.Make(t.Context(), w.planOptions())
				if err != nil {
					t.Fatal(err)
				}
				if len(sent.writes) > 0 || !slices.Equal(before, w.versions()) {
					t.Errorf("the plan wrote: %v", sent.writes)
				}
				w.start()
				w.settle(0)
				compare(t, made, sent.take(), tc.planned, tc.later)
				if len(made.Changes) > 0 && placeholder(made.Changes[0].Reason) != tc.reason &&
					placeholder(made.Changes[len(made.Changes)-1].Reason) != tc.reason {
					t.Errorf("reasons: %+v, want %q", made.Changes, tc.reason)
				}
				var waiting []string
				for _, one := range made.Waiting {
					waiting = append(waiting, one.Object)
				}
				if !slices.Equal(waiting, tc.waiting) {
					t.Errorf("waiting: %+v, want %v", made.Waiting, tc.waiting)
				}
				w.stop()
			})
		})
	}
}

// TestPlanOfAClone: a cluster that may not write has no changes, whatever it lacks.
func TestPlanOfAClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size{nodes: 3})
		web(w)
		w.start()
		w.settle(0)
		w.stop()
		w.service("other", nil)
		w.authority = "another"
		made, err := plan.Make(t.Context(), w.planOptions())
		if err != nil {
			t.Fatal(err)
		}
		if len(made.Changes) > 0 || len(made.Waiting) != 1 || !strings.Contains(made.Waiting[0].Reason, "quayctl takeover") {
			t.Errorf("plan %+v", made)
		}
	})
}

// compare compares a plan with what the controllers sent: the first write of every planned object is the planned one.
func compare(t *testing.T, made *plan.Plan, sent []plan.Change, planned, later []string) {
	t.Helper()
	var names []string
	for _, change := range made.Changes {
		names = append(names, change.Method+" "+placeholder(change.Path))
		at := slices.IndexFunc(sent, func(s plan.Change) bool {
			return s.Method == change.Method && s.Path == change.Path && s.Body == change.Body
		})
		if at < 0 {
			t.Errorf("planned, not sent: %+v\nsent: %+v", change, sent)
			continue
		}
		if diff := cmp.Diff(change.Header, sent[at].Header); diff != "" {
			t.Errorf("%s: header planned and sent:\n%s", change.Path, diff)
		}
		earlier := slices.IndexFunc(sent[:at], func(s plan.Change) bool { return s.Path == change.Path && s.Method != http.MethodPost })
		if earlier >= 0 {
			t.Errorf("%s: sent before what was planned: %+v", change.Path, sent[earlier])
		}
		sent = slices.Delete(sent, at, at+1)
	}
	if !slices.Equal(names, planned) {
		t.Errorf("planned %v, want %v", names, planned)
	}
	for _, s := range sent {
		if name := s.Method + " " + placeholder(s.Path); !slices.Contains(later, name) {
			t.Errorf("sent, not planned: %+v", s)
		}
	}
}

// placeholder replaces the IDs of load balancers and node groups.
func placeholder(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" /:,", r) })
	for _, word := range words {
		if strings.HasPrefix(word, "lb-") || strings.HasPrefix(word, "ng-") {
			text = strings.ReplaceAll(text, word, "ID")
		}
	}
	return strings.TrimSuffix(text, ":adopt")
}

// log has the writes that reach the cloud.
type log struct {
	mu     sync.Mutex
	writes []plan.Change
}

// observe records a write and lets the cloud answer.
func (l *log) observe(_ http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, ":lookup") || r.URL.Query().Get("dry_run") != "" {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	change := plan.Change{Method: r.Method, Path: r.URL.RequestURI(), Header: map[string]string{}, Body: string(body)}
	for _, key := range []string{"If-Match", cloudv1.HeaderIfTags, cloudv1.HeaderIdempotencyKey, "Content-Type"} {
		if value := r.Header.Get(key); value != "" && value != cloudv1.MediaTypeJSON {
			change.Header[key] = value
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, change)
	return false
}

func (l *log) take() []plan.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes := l.writes
	l.writes = nil
	return writes
}

// planOptions are those of the controllers of the world.
func (w *world) planOptions() plan.Options {
	return plan.Options{
		Cluster: w.server.Config(nil),
		Cloud: cloudapi.Options{
			Endpoint: "http://" + cloudHost, Token: cloudapi.StaticToken(token),
			Wrap: func(http.RoundTripper) http.RoundTripper { return w.front.Transport() },
		},
		Identity: func() (clusterca.Identity, error) {
			return clusterca.Identity{Proven: w.authority, Accepted: []string{w.authority}}, nil
		},
		Config: config.Config{
			ClusterID: "dev", LoadBalancerClass: ownClass, DefaultClass: true,
			Network: config.Network{VPCID: "vpc-main", RouteTableID: "rt-main"},
			IngressNodes: config.IngressNodes{
				Fallback: config.FallbackAll, MaxRemovedPercentPerMinute: config.DefaultMaxRemovedPercentPerMinute,
				MaxGroups: config.DefaultMaxGroups,
			},
			KubeProxyHealthCheckPort: loadbalancer.DefaultKubeProxyHealthCheckPort,
		},
		Drift: dlb.DriftRepair, Namespace: metav1.NamespaceSystem,
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.224.0.0/11")},
	}
}

// versions returns the state of all Services and Nodes.
func (w *world) versions() []string {
	w.t.Helper()
	services, err := w.api.CoreV1().Services(metav1.NamespaceAll).List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	nodes, err := w.api.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	var list []string
	for i := range services.Items {
		list = append(list, services.Items[i].Name+" "+services.Items[i].ResourceVersion)
	}
	for i := range nodes.Items {
		list = append(list, nodes.Items[i].Name+" "+nodes.Items[i].ResourceVersion)
	}
	return list
}

// meddle changes a load balancer of the cluster in the cloud.
func (w *world) meddle() {
	w.t.Helper()
	lb := w.balancer()
	spec := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	spec.Listeners = slices.Clone(spec.Listeners)
	spec.Listeners[0].MaxQPS = 1
	_, _, err := w.cloud.UpdateLoadBalancer(w.t.Context(), lb.ID, spec, cloudapi.WriteOptions{IfMatch: lb.Revision})
	w.must(err)
}

// balancer returns the only load balancer of the cluster.
func (w *world) balancer() *cloudv1.LoadBalancer {
	w.t.Helper()
	list, err := w.cloud.ListLoadBalancers(w.t.Context(), cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: w.uid}})
	w.must(err)
	if len(list.Items) != 1 {
		w.t.Fatalf("%d load balancers", len(list.Items))
	}
	return &list.Items[0]
}

// dropRoutes removes the routes of the cluster.
func (w *world) dropRoutes() {
	w.t.Helper()
	list, err := w.cloud.ListRoutes(w.t.Context(), "rt-main", cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: w.uid}})
	w.must(err)
	var batch cloudv1.RoutesBatch
	for _, r := range list.Items {
		batch.Remove = append(batch.Remove, cloudv1.RouteRemoval{Destination: r.Destination})
	}
	_, err = w.cloud.BatchRoutes(w.t.Context(), "rt-main", batch, cloudapi.WriteOptions{})
	w.must(err)
}

func web(w *world) { w.service("web", nil) }
