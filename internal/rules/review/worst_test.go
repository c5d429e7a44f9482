package review_test

import (
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// manyDefaults returns as many policies of a namespace as apply, with as many defaults as the API server accepts: first
// those of the keys that catalogs know, then others. They do not all fit a Service.
func manyDefaults(tb testing.TB) []*policy.Policy {
	tb.Helper()
	const most, each = 20, 64
	type pair struct{ key, value string }
	var pairs []pair
	for _, name := range append([]string{"mycloud"}, library.BuiltIn().Names()...) {
		c, _ := library.BuiltIn().Find(name)
		for _, a := range c.Document().Annotations {
			pairs = append(pairs, pair{a.Name, a.Valid})
		}
	}
	for i := range most * each {
		pairs = append(pairs, pair{fmt.Sprintf("service.beta.kubernetes.io/other-%d", i), "x"})
	}
	var all []*policy.Policy
	for i := range most {
		p := &v1alpha1.LoadBalancerPolicy{}
		p.Namespace, p.Name, p.Spec.Defaults = "shop", fmt.Sprintf("p%02d", i), map[string]string{}
		for len(p.Spec.Defaults) < each {
			p.Spec.Defaults[pairs[0].key] = pairs[0].value
			pairs = pairs[1:]
		}
		compiled, _ := policy.Compile(p) // a few keys must not have defaults
		all = append(all, compiled)
	}
	return policy.Applicable(all, "shop", nil)
}

// Each default is tried once alone, and at most once again with those that it requires, however many there are.
func TestDefaultsAreTriedOnce(t *testing.T) {
	policies := manyDefaults(t)
	for name, catalogs := range map[string][]string{"own": {"mycloud"}, "all": library.BuiltIn().Names()} {
		parsed := map[string]int{}
		r, err := review.New(catalog.Options{DefaultClass: true, Catalogs: catalogs, OnParse: func(key string) { parsed[key]++ }})
		if err != nil {
			t.Fatal(err)
		}
		added := r.Defaults(builder.Service(), policies)
		total := 0
		for _, n := range parsed {
			total += n
		}
		// Besides, all are parsed together before and after, and several catalogs know some.
		if most := 6 * len(parsed); len(added) == 0 || total > most {
			t.Errorf("%s: %d defaults were parsed %d times, at most %d wanted; %d were added", name, len(parsed), total, most, len(added))
		}
		if again := r.Defaults(builder.Service(), policies); !maps.Equal(again, added) {
			t.Errorf("%s: the defaults differ from one time to the next", name)
		}
	}
}

// cpu returns the time that the process has used of processors, whatever else the machine does.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkManyDefaults measures the most expensive Services and policies that Kubernetes accepts.
func BenchmarkManyDefaults(b *testing.B) {
	policies := manyDefaults(b)
	services := hostile()
	services["ordinary"] = builder.Service()
	services["address"] = builder.Service(published)
	own, all := review.Own("mycloud.io/dlb", true), mustReviewer(b, library.BuiltIn().Names()...)
	for name, svc := range services {
		for with, run := range map[string]func(*corev1.Service){
			"own/defaults": func(svc *corev1.Service) { own.Defaults(svc, policies) },
			"all/defaults": func(svc *corev1.Service) { all.Defaults(svc, policies) },
			"all/alone":    func(svc *corev1.Service) { all.Review(nil, svc, nil) },
			"all/update":   func(svc *corev1.Service) { all.Review(builder.Service(), svc, policies) },
		} {
			b.Run(name+"/"+with, func(b *testing.B) {
				before := cpu(b)
				for b.Loop() {
					run(svc)
				}
				b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
