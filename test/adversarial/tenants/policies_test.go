package tenants_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/test/builder"
)

// maxRules is how many rules a policy may have.
const maxRules = 64

// slowPatterns are expensive to compile, to keep or to match, each for another reason.
var slowPatterns = []string{
	`^a{1000}a{990}$`,
	`(a{30}){30}`,
	`(a?){900}a{900}`,
	`(x*){1000}y`,
	`(\pL{20}){20}`,
	`[\pL\pN\pS]{60}$`,
	`(?i)(ſ|k|K){300}`,
	`(.*a){20}(.*b){20}(.*c){20}$`,
	strings.Repeat(`[^a-c]?`, 140),
	strings.Repeat(`(a|b|c|d|e|f)`, 75),
}

// slowSpec returns a spec with as many patterns as a policy may have.
func slowSpec(pattern func(rule int) string) map[string]any {
	return map[string]any{"rules": repeat(maxRules, func(i int) any {
		return map[string]any{"annotation": fmt.Sprintf("example.com/k%d", i), "pattern": pattern(i)}
	})}
}

// houseRules are policies of the cluster and of an innocent tenant: their rules hold whatever the attacker stores.
func (s *stage) houseRules() (remove func()) {
	rule := func(key, pattern string) map[string]any {
		return map[string]any{"rules": []any{map[string]any{"annotation": key, "pattern": pattern}}}
	}
	ofCluster := policy("house-rules", rule("example.com/cost-center", "^[0-9]{4}$"))
	ofCluster["kind"] = "ClusterLoadBalancerPolicy"
	ofCluster["spec"].(map[string]any)["namespaceSelector"] = map[string]any{}
	cluster := "/apis/quaymaster.dev/v1alpha1/clusterloadbalancerpolicies"
	tenant := policiesOf(shared.innocents[0].name)
	s.expectSuccess("create a policy of the cluster", shared.admin.post(s.Context(), cluster, ofCluster))
	s.expectSuccess("create a policy of a tenant", shared.admin.post(s.Context(), tenant, policy("house-rules", rule("example.com/team", "^[a-z]+$"))))
	return func() {
		ctx := context.WithoutCancel(s.Context())
		shared.admin.remove(ctx, cluster+"/house-rules")
		shared.admin.remove(ctx, tenant+"/house-rules")
	}
}

// checkHouseRules fails the test unless the rules of other policies hold.
func (s *stage) checkHouseRules() {
	s.Helper()
	for _, u := range []*user{shared.innocents[0], shared.innocents[1], s.attacker} {
		namespace := u.name
		if u == s.attacker {
			namespace = s.namespace
		}
		path := servicesOf(namespace) + "?dryRun=All"
		if got := u.post(s.Context(), path, service("ruled", builder.Annotation("example.com/cost-center", "none"))); !got.refused() {
			s.Errorf("a Service of %s that breaks a rule of the cluster: %s", u.name, short(got.String()))
		}
		if u == s.attacker {
			continue // whose own policies may refuse everything
		}
		fine := service("ruled", builder.Annotation("example.com/cost-center", "1234"), builder.Annotation("example.com/team", "edge"))
		s.expectSuccess("a Service of "+u.name+" that breaks no rule", u.post(s.Context(), path, fine))
	}
	u := shared.innocents[0]
	got := u.post(s.Context(), servicesOf(u.name)+"?dryRun=All", service("ruled", builder.Annotation("example.com/team", "1")))
	if !got.refused() {
		s.Errorf("a Service that breaks a rule of its namespace: %s", short(got.String()))
	}
}

// storePatterns stores policies that are small and expensive to compile.
func storePatterns(s *stage, n int) {
	s.Cleanup(s.houseRules())
	s.concurrently(n, func(i int) {
		spec := slowSpec(func(rule int) string {
			if i%2 == 0 {
				return slowPatterns[0]
			}
			return slowPatterns[(i+rule)%len(slowPatterns)]
		})
		s.storePolicy(i, spec, nil)
	})
}

// storePadded stores policies of a megabyte, with long lists or managed fields.
func storePadded(s *stage, n int) {
	s.Cleanup(s.houseRules())
	s.concurrently(n, func(i int) {
		if i%2 == 0 {
			s.storePolicy(i, map[string]any{"rules": repeat(15, func(rule int) any {
				return map[string]any{"annotation": fmt.Sprintf("example.com/k%d", rule), "allowed": repeat(maxRules, func(v int) string {
					return fmt.Sprintf("%d-%s", v, strings.Repeat("v", 1000))
				})}
			})}, nil)
			return
		}
		meta := &metav1.ObjectMeta{}
		managed(longField(customSize))(meta)
		meta.ManagedFields[0].APIVersion = "quaymaster.dev/v1alpha1"
		s.storePolicy(i, map[string]any{"defaults": map[string]any{"example.com/k": "v"}}, meta)
	})
}

// concurrently runs n steps, eight at a time.
func (s *stage) concurrently(n int, run func(i int)) {
	var running sync.WaitGroup
	next := make(chan int)
	for range 8 {
		running.Go(func() {
			for i := range next {
				run(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
}

// storePolicy stores a policy of the attacker, with additional managed fields.
func (s *stage) storePolicy(i int, spec map[string]any, meta *metav1.ObjectMeta) {
	name := fmt.Sprintf("policy-%d", i)
	got := s.attacker.post(s.Context(), policiesOf(s.namespace), policy(name, spec))
	if !got.ok() {
		s.Errorf("store a policy without webhooks: %s", got)
		return
	}
	if meta == nil {
		return
	}
	var object map[string]any
	if err := json.Unmarshal(got.text, &object); err != nil {
		s.Error(err)
		return
	}
	object["metadata"].(map[string]any)["managedFields"] = meta.ManagedFields
	if got := s.attacker.put(s.Context(), policiesOf(s.namespace)+"/"+name, object); !got.ok() {
		s.Errorf("pad a policy without webhooks: %s", got)
	} else if len(got.text) < 200_000 {
		s.Errorf("pad a policy without webhooks: the API server stores %d bytes only", len(got.text))
	}
}

// removePolicies deletes the attacker's policies, so that they do not affect the next attack.
func (s *stage) removePolicies() {
	collection := policiesOf(s.namespace)
	if got := shared.admin.remove(s.Context(), collection); !got.ok() {
		s.Errorf("remove policies: %s", got)
	}
}

// matched returns a Service whose annotations the rules of slow policies match: the keys of all rules, with a total size
// that is legal.
func matched(name string, options ...builder.ServiceOption) []byte {
	svc := service(name, options...)
	for i := range maxRules {
		builder.Annotation(fmt.Sprintf("example.com/k%d", i), strings.Repeat("a", 3900))(svc)
	}
	return encode(svc)
}

// usePatterns uses the policies that were stored while no webhook ran.
func usePatterns(s *stage) {
	defer s.removePolicies()
	s.checkHouseRules()
	s.cost("a Service of the policies' namespace", func() int {
		s.expectRefusal("create a Service that many rules match", s.attacker.post(s.Context(), servicesOf(s.namespace), matched(unique("matched"), mistake)))
		return 1
	})
	s.cost("a small Service of the policies' namespace", func() int {
		s.expectRefusal("create a Service", s.attacker.post(s.Context(), servicesOf(s.namespace), service(unique("small"), mistake)))
		return 1
	})
	s.during(3, duration(2*time.Second, 10*time.Second), func(worker, _ int) {
		body := matched(unique("matched"), mistake)
		if worker == 0 {
			body = encode(service(unique("small"), mistake))
		}
		s.expectRefusal("create a Service that many rules match", s.attacker.post(s.Context(), servicesOf(s.namespace), body))
	})
	if err := s.webhook.Ready(s.Context()); err != nil {
		s.Errorf("not ready: %v", err)
	}
	s.checkHouseRules()
}

// churnPolicies changes policies all the time, while Services use them.
func churnPolicies(s *stage) {
	defer s.removePolicies()
	collection := policiesOf(s.namespace)
	const policies = 20
	// Each change has other patterns, so that none is known from before.
	change := func(worker, i int) answer {
		spec := slowSpec(func(rule int) string {
			pattern := slowPatterns[(i+rule)%len(slowPatterns)]
			return fmt.Sprintf("%s|w%dc%dr%d", pattern, worker, i, rule)
		})
		name := fmt.Sprintf("policy-%d", i%policies)
		body := encode(policy(name, spec))
		got := s.attacker.send(s.Context(), "PATCH", collection+"/"+name+"?fieldManager=churn&force=true", "application/apply-patch+yaml", body)
		if got.err != nil || got.code >= 500 {
			s.note("change a policy: %s", short(got.String()))
		}
		return got
	}
	accepted := 0
	s.cost("a change of a policy", func() int {
		const changes = 20
		for i := range changes {
			if change(0, i).ok() {
				accepted++
			}
		}
		// The webhook reads accepted policies a little later.
		time.Sleep(500 * time.Millisecond)
		return changes
	})
	s.note("%d of 20 slow policies are accepted", accepted)
	// What is surely accepted: patterns of ordinary length.
	s.during(4, duration(3*time.Second, 20*time.Second), func(worker, i int) {
		switch worker {
		case 0:
			s.expectRefusal("create a Service while policies change",
				s.attacker.post(s.Context(), servicesOf(s.namespace), matched(unique("matched"), mistake)))
		case 1:
			change(worker, i)
		default:
			spec := slowSpec(func(rule int) string { return fmt.Sprintf("^(aaa|bbb|%d|%d|%d)+[a-z]{0,9}$", worker, i, rule) })
			name := fmt.Sprintf("policy-%d-%d", worker, i%policies)
			s.attacker.send(s.Context(), "PATCH", collection+"/"+name+"?fieldManager=churn&force=true", "application/apply-patch+yaml",
				encode(policy(name, spec)))
		}
	})
}
