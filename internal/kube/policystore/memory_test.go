package policystore_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/policy"
)

// patterns returns rules with patterns that have 1990 steps each.
func patterns(n int) []v1alpha1.Rule {
	rules := make([]v1alpha1.Rule, n)
	for i := range rules {
		rules[i] = v1alpha1.Rule{Annotation: fmt.Sprintf("example.com/%d", i), Pattern: "^a{1000}a{990}$"}
	}
	return rules
}

// lists returns rules that allow many values, of about that many bytes as JSON in all.
func lists(bytes int) []v1alpha1.Rule {
	var rules []v1alpha1.Rule
	for i := 0; bytes > 0; i++ {
		r := v1alpha1.Rule{Annotation: fmt.Sprintf("example.com/%d", i)}
		for k := range 64 {
			r.Allowed = append(r.Allowed, fmt.Sprintf("%d-%s", k, strings.Repeat("x", 10)))
		}
		rules = append(rules, r)
		bytes -= 64 * 15
	}
	return rules
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// An admin of a namespace decides about a bounded part of the memory, whatever the policies are and however many.
func TestMemoryOfPoliciesIsBounded(t *testing.T) {
	const KiB, MiB = 1 << 10, 1 << 20
	for name, test := range map[string]struct {
		namespaces, policies int
		rules                []v1alpha1.Rule
		// each bounds the memory for a namespace, all that of the process in addition.
		each, all int
	}{
		"expensive patterns":                 {20, 20, patterns(64), 64 * KiB, 2 * MiB},
		"patterns within the limit":          {20, 20, patterns(5), 64 * KiB, 20 * MiB},
		"lists within the limit":             {50, 1, lists(50 * KiB), 100 * KiB, 20 * MiB},
		"beyond the limit of one":            {20, 20, lists(100 * KiB), 64 * KiB, 2 * MiB},
		"many large ones":                    {1, 2000, lists(20 * KiB), 128*KiB + 2000*KiB, 2 * MiB},
		"small ones in very many namespaces": {1_000, 1, patterns(1), 2 * KiB, 20 * MiB},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				for n := range test.namespaces {
					for i := range test.policies {
						a.policies[v1alpha1.KindLoadBalancerPolicy].Add(lbpol(fmt.Sprintf("ns-%d", n), fmt.Sprintf("p-%d", i),
							func(p *v1alpha1.LoadBalancerPolicy) {
								p.CreationTimestamp, p.Spec.Rules = metav1.Unix(int64(i), 0), test.rules
							}))
					}
				}
				before := heap()
				f := start(t, a)
				read := heap()
				for n := range test.namespaces {
					f.applicable(t, fmt.Sprintf("ns-%d", n))
				}
				after := heap()
				t.Logf("%d namespaces: %d bytes each once read, %d kB in all once used", test.namespaces,
					(read-before)/test.namespaces, (after-before)/KiB)
				if most := test.namespaces*test.each + MiB; read-before > most {
					t.Errorf("%d kB once read, want at most %d", (read-before)/KiB, most/KiB)
				}
				if most := test.namespaces*test.each + test.all; after-before > most {
					t.Errorf("%d kB once used, want at most %d", (after-before)/KiB, most/KiB)
				}
				runtime.KeepAlive(f)
			})
		})
	}
}

// A policy whose spec was dropped is read again as soon as it applies.
func TestDroppedPoliciesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		source := a.policies[v1alpha1.KindLoadBalancerPolicy]
		aged := func(i int) *v1alpha1.LoadBalancerPolicy {
			return lbpol("shop", fmt.Sprintf("p-%02d", i), func(p *v1alpha1.LoadBalancerPolicy) {
				p.CreationTimestamp = metav1.Unix(int64(i), 0)
			})
		}
		// The youngest comes first, as in a list that is sorted by name.
		for i := range 30 {
			source.Add(aged(29 - i))
		}
		f := start(t, a, namespace("shop", nil))
		last := policy.Key{Kind: v1alpha1.KindLoadBalancerPolicy, Namespace: "shop", Name: "p-20"}
		if e, _ := f.Entry(last); e.Policy.Held() {
			t.Error("holds the spec of a policy that does not apply")
		}
		a.fail(errors.New("no response"))
		source.Delete(aged(3))
		synctest.Wait()
		if e, _ := f.Entry(last); e.Policy.Held() || len(f.applicable(t, "shop")) != 20 {
			t.Error("without the API server: the policy is held, or does not count")
		}
		a.fail(nil)
		time.Sleep(3 * time.Second)
		if e, _ := f.Entry(last); !e.Policy.Held() {
			t.Error("the spec of a policy that applies now was not read again")
		}
		if e, _ := f.Entry(policy.Key{Kind: last.Kind, Namespace: "shop", Name: "p-21"}); e.Policy.Held() {
			t.Error("holds the spec of the next policy")
		}
	})
}
