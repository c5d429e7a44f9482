package review_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// A warning about a value does not become a license to do harm with it later: without internal, the subnet of an
// internal load balancer is one of a public load balancer.
func TestAnOldWarningIsNoOldError(t *testing.T) {
	const key = "service.beta.kubernetes.io/azure-load-balancer-internal"
	subnet := builder.Annotation(key+"-subnet", "apps")
	was := builder.Service(builder.Annotation(key, "false"), subnet)
	azure := reviewer(t, "azure")
	if findings := azure.Review(nil, was, nil); finding.Deny(findings) || len(findings) == 0 {
		t.Fatalf("on creation: got %+v, want a warning", findings)
	}
	if findings := azure.Review(was, builder.Service(subnet), nil); !finding.Deny(findings) {
		t.Errorf("without internal: got %+v, want an error", findings)
	}
}

// problem is an error as a user sees it.
type problem struct{ catalog, id, field, value, listener, message string }

var elementIndex = regexp.MustCompile(`\[\d+\]`)

// problems returns the errors among findings, one for each catalog and listener.
func problems(findings []finding.Finding) map[problem]bool {
	all := map[problem]bool{}
	for _, f := range finding.Errors(findings) {
		p := problem{id: f.ID, field: f.Field, value: f.Value}
		p.message, _, _ = strings.Cut(f.Message, "; its default") // says that the Service was created
		if strings.HasPrefix(f.Field, "spec.") {
			p.field = elementIndex.ReplaceAllString(f.Field, "")
		}
		if len(f.Listeners) == 0 {
			f.Listeners = []string{""}
		}
		for _, p.listener = range f.Listeners {
			for _, p.catalog = range append([]string{f.Catalog}, f.AlsoCatalogs...) {
				if f.Catalog != "" {
					p.id = "" // that of another catalog is not in the finding
				}
				all[p] = true
			}
		}
	}
	return all
}

var details = regexp.MustCompile(`[(;].*|"[^"]*"|, which is .*|[0-9]+`)

// byCheck returns the problem with a message that only differs for different checks.
func (p problem) byCheck() problem {
	if p.catalog == "" {
		for _, by := range []string{"the built-in default ", `the default of ClusterLoadBalancerPolicy "[a-z]" `} {
			p.message = regexp.MustCompile("^"+by).ReplaceAllString(p.message, "")
		}
		return p
	}
	p.message = details.ReplaceAllString(p.message, "#")
	return p
}

// pair is an update with the policies of the namespace.
type pair struct {
	reviewer review.Reviewer
	old, svc *corev1.Service
	policies []*policy.Policy
	// controllers is true if Quaymaster's controllers run, which apply defaults that a Service lacks.
	controllers bool
}

// alone returns the errors of a Service that has no history.
func (p pair) alone(svc *corev1.Service) map[problem]bool {
	if p.controllers {
		return problems(p.reviewer.Stored(svc, p.policies))
	}
	return problems(p.reviewer.Review(nil, svc, p.policies))
}

// check compares the verdict on an update with the verdicts on both Services alone: an error is only lowered if the
// same check failed on the same value before, and always if nothing about it differs.
func (p pair) check(t *testing.T) (lowered int) {
	t.Helper()
	var before map[problem]bool
	if p.old.Spec.Type == corev1.ServiceTypeLoadBalancer { // nothing else was validated
		before = p.alone(p.old)
	}
	return p.compare(t, before, p.alone(p.svc))
}

func (p pair) compare(t *testing.T, before, after map[problem]bool) (lowered int) {
	t.Helper()
	if len(after) == 0 {
		return 0
	}
	errors := problems(p.reviewer.Review(p.old, p.svc, p.policies))
	failed := map[problem]bool{}
	for one := range before {
		failed[one.byCheck()] = true
	}
	for one := range after {
		switch {
		case errors[one] && before[one] && !strings.HasSuffix(one.message, "which sets the same port"): // of either value
			t.Errorf("an old problem is an error: %+v\n%s", one, p)
		case errors[one]:
		case !failed[one.byCheck()]:
			t.Errorf("an error counts as old: %+v\n%s", one, p)
		default:
			lowered++
		}
	}
	return lowered
}

func (p pair) String() string {
	text := ""
	for name, svc := range map[string]*corev1.Service{"old": p.old, "new": p.svc} {
		raw, err := yaml.Marshal(map[string]any{"annotations": svc.Annotations, "spec": svc.Spec})
		if err != nil {
			panic(err)
		}
		text += fmt.Sprintf("%s:\n%s", name, raw)
	}
	return text
}

// worlds are each catalog alone, two and all together.
func worlds() []*world {
	var all []*world
	names := library.BuiltIn().Names()
	for i, name := range names {
		all = append(all, newWorld(name), newWorld(name, names[(i+1)%len(names)]))
	}
	all = append(all, newWorld("aws", "aws-lbc", "mycloud"), newWorld(names...))
	return slices.DeleteFunc(all, func(w *world) bool { return len(w.keys) == 0 }) // a catalog may only have an owner
}

// random returns an update that is determined by a seed.
func random(t *testing.T, w *world, seed uint64) pair {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	p := pair{old: w.service(r), reviewer: own}
	p.svc = p.old.DeepCopy()
	if r.IntN(20) == 0 {
		p.old.Spec.Type = corev1.ServiceTypeClusterIP // nothing of it was validated
	}
	for range 1 + r.IntN(3) {
		w.change(r, p.svc)
	}
	if r.IntN(2) == 0 {
		p.policies = w.policies(r)
	}
	var err error
	if p.reviewer, err = review.New(catalog.Options{Catalogs: w.catalogs, Class: "mycloud.io/dlb", DefaultClass: true}); err != nil {
		t.Fatal(err)
	}
	if p.controllers = r.IntN(2) == 0; !p.controllers {
		p.reviewer = p.reviewer.WithoutControllers()
	}
	return p
}

// pairs returns how many updates a test tries for each world; QUAYMASTER_PAIRS sets it for long runs.
func pairs(t *testing.T) uint64 {
	t.Helper()
	const usual = 500
	text := os.Getenv("QUAYMASTER_PAIRS")
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever an update changes, the verdict on the new Service is never milder than the one without history, unless the
// same check failed on the same value in the old Service.
func TestRatchetOfRandomUpdates(t *testing.T) {
	lowered, n := 0, uint64(0)
	for _, w := range worlds() {
		for seed := range pairs(t) {
			if lowered += random(t, w, seed).check(t); t.Failed() {
				t.Fatalf("catalogs %s, seed %d", strings.Join(w.catalogs, ","), seed)
			}
			n++
		}
	}
	t.Logf("%d updates, %d old errors", n, lowered)
	if lowered == 0 {
		t.Error("no error of an old Service was tried")
	}
}

// FuzzRatchet is TestRatchetOfRandomUpdates with seeds of the fuzzer.
func FuzzRatchet(f *testing.F) {
	all := worlds()
	f.Add(uint64(0), 0)
	f.Fuzz(func(t *testing.T, seed uint64, w int) {
		random(t, all[uint(w)%uint(len(all))], seed).check(t)
	})
}

// Each requirement and check of each catalog is tried with every pair of states of the keys that it names.
func TestRatchetOfRelatedKeys(t *testing.T) {
	const most = 3 // values of a key, and keys of a check
	n := 0
	for _, name := range library.BuiltIn().Names() {
		w := newWorld(name)
		for _, group := range w.groups {
			group = slices.Compact(slices.Sorted(slices.Values(group)))
			for i, key := range group[:min(len(group), most)] {
				for _, other := range group[i+1 : min(len(group), most)] {
					n += tryStates(t, w, key, other, most)
				}
			}
		}
	}
	t.Logf("%d updates", n)
}

// tryStates tries each update between the states of two keys.
func tryStates(t *testing.T, w *world, key, other string, most int) (n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	values, others := w.values[key], w.values[other]
	key, other = w.key(r, key), w.key(r, other)
	unset := "\x00"
	var states []*corev1.Service
	var errors []map[problem]bool
	by := reviewer(t, w.catalogs...)
	for _, a := range append([]string{unset}, values[:min(most, len(values))]...) {
		for _, b := range append([]string{unset}, others[:min(most, len(others))]...) {
			svc := builder.Service(builder.Annotation(key, a), builder.Annotation(other, b))
			svc.Spec.LoadBalancerClass = w.classes[0]
			for k, value := range svc.Annotations {
				if value == unset {
					delete(svc.Annotations, k)
				}
			}
			states, errors = append(states, svc), append(errors, problems(by.Stored(svc, nil)))
		}
	}
	for i, old := range states {
		for k, svc := range states {
			pair{reviewer: by, old: old, svc: svc}.compare(t, errors[i], errors[k])
			n++
		}
	}
	if t.Failed() {
		t.Fatalf("catalog %s: %s, %s", w.catalogs, key, other)
	}
	return n
}

// Defaults never make a Service invalid, and are the same each time.
func TestRandomDefaultsFit(t *testing.T) {
	tried := 0
	for _, w := range worlds() {
		for seed := range pairs(t) / 2 {
			r := rand.New(rand.NewPCG(seed, 1))
			svc, policies, by := w.service(r), w.policies(r), reviewer(t, w.catalogs...)
			added := by.Defaults(svc, policies)
			if !maps.Equal(added, by.Defaults(svc, policies)) {
				t.Fatalf("catalogs %s, seed %d: the defaults differ from one time to the next", w.catalogs, seed)
			}
			if len(added) == 0 {
				continue
			}
			tried++
			with := svc.DeepCopy()
			maps.Copy(with.Annotations, added)
			before := map[problem]bool{}
			for one := range problems(by.Stored(svc, nil)) {
				before[one.byCheck()] = true
			}
			for one := range problems(by.Stored(with, nil)) {
				if !before[one.byCheck()] {
					t.Fatalf("catalogs %s, seed %d: adding %v introduces %+v", w.catalogs, seed, added, one)
				}
			}
		}
	}
	t.Logf("%d Services with defaults", tried)
	if tried == 0 {
		t.Error("no default was added")
	}
}
