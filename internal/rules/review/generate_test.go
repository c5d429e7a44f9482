package review_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/builder"
)

// world is what some catalogs know: the material of random Services, updates and policies.
type world struct {
	catalogs []string
	classes  []*string
	keys     []string
	// values holds values of each key that checks distinguish: examples, defaults, and those of conditions.
	values map[string][]string
	// groups holds the keys that one requirement or check names.
	groups   [][]string
	examples []document.Example
	forms    map[string]bool
}

func newWorld(names ...string) *world {
	w := &world{catalogs: names, classes: []*string{nil, nil}, values: map[string][]string{}, forms: map[string]bool{}}
	for _, name := range names {
		c, _ := library.BuiltIn().Find(name)
		w.add(c)
	}
	w.keys = slices.Sorted(maps.Keys(w.values))
	for _, key := range w.keys {
		for _, value := range []string{"", "true", "nonsense value"} {
			if !slices.Contains(w.values[key], value) {
				w.values[key] = append(w.values[key], value)
			}
		}
	}
	return w
}

func (w *world) add(c *library.Catalog) {
	d := c.Document()
	for _, class := range d.Owns.Classes {
		class = strings.TrimSuffix(class, "*")
		w.classes = append(w.classes, &class)
	}
	if d.Own {
		w.classes = append(w.classes, new("mycloud.io/dlb"), new("example.com/other"))
	}
	known := func(key string, values ...string) {
		for _, value := range values {
			if !slices.Contains(w.values[key], value) {
				w.values[key] = append(w.values[key], value)
			}
		}
	}
	group := func(conditions []document.Condition, keys ...string) {
		for _, one := range conditions {
			if one.Key != "" {
				known(one.Key, slices.Concat(one.Is, one.Not, one.Only)...)
				keys = append(keys, one.Key)
			}
		}
		w.groups = append(w.groups, slices.DeleteFunc(keys, func(key string) bool { return !strings.Contains(key, "/") }))
	}
	group(slices.Concat(d.Owns.When, d.Owns.Any, d.Owns.Also))
	for i := range d.Annotations {
		a := &d.Annotations[i]
		w.forms[a.Name] = a.PortForm
		for _, key := range a.Names() {
			known(key, a.Valid)
			known(key, a.Type.Values...)
			if a.Invalid != nil {
				known(key, *a.Invalid)
			}
			if a.Default != "" {
				known(key, a.Default)
			}
			for _, one := range a.Defaults {
				known(key, one.Value)
				group(one.If, key)
			}
			for _, one := range a.Variants {
				known(key, one.Valid)
				if one.Invalid != nil {
					known(key, *one.Invalid)
				}
			}
			group(a.ReadIf, key)
			for _, q := range a.Requires {
				known(key, q.Values...)
				group(slices.Concat(q.If, q.Any), key)
			}
			for _, call := range a.Checks {
				group(nil, append(slices.Collect(maps.Values(call.With)), key)...)
			}
		}
	}
	for _, one := range d.Checks {
		keys := []string{one.At}
		if one.Call != nil {
			keys = slices.AppendSeq(keys, maps.Values(one.Call.With))
		}
		group(slices.Concat(one.If, one.Any), keys...)
		w.examples = append(w.examples, one.Valid, one.Invalid)
		for _, example := range []document.Example{one.Valid, one.Invalid} {
			for key, value := range example.Annotations {
				known(key, value)
			}
		}
	}
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

// key returns a key with the placeholders of a family filled in, or the form of a key for a port.
func (w *world) key(r *rand.Rand, name string) string {
	if w.forms[name] && r.IntN(3) == 0 {
		return name + pick(r, []string{".80", ".web", ".443", ".99"})
	}
	for strings.Contains(name, "{") {
		at, end := strings.Index(name, "{"), strings.Index(name, "}")
		with := pick(r, []string{"80", "443", "99"})
		switch place := name[at+1 : end]; place {
		case "portname":
			with = pick(r, []string{"web", "tls", "gone"})
		case "protocol":
			with = "tcp"
		case "index":
			with = pick(r, []string{"0", "1"})
		case "any":
			with = pick(r, []string{"x", "y"})
		}
		name = name[:at] + with + name[end+1:]
	}
	return name
}

func (w *world) set(r *rand.Rand, svc *corev1.Service, name string) {
	if values := w.values[name]; len(values) > 0 {
		svc.Annotations[w.key(r, name)] = pick(r, values)
	}
}

// setGroup sets keys that depend on each other.
func (w *world) setGroup(r *rand.Rand, svc *corev1.Service) {
	for _, name := range pick(r, w.groups) {
		if r.IntN(4) > 0 {
			w.set(r, svc, name)
		}
	}
}

func (w *world) service(r *rand.Rand) *corev1.Service {
	svc := builder.Service()
	svc.Annotations = map[string]string{}
	svc.Spec.LoadBalancerClass = pick(r, w.classes)
	svc.Spec.Ports = nil
	for i := range 1 + r.IntN(3) {
		svc.Spec.Ports = append(svc.Spec.Ports, allPorts[i])
	}
	if len(w.examples) > 0 && r.IntN(3) == 0 {
		apply(svc, pick(r, w.examples))
	}
	for range r.IntN(4) {
		w.change(r, svc)
	}
	for range r.IntN(3) {
		w.setGroup(r, svc)
	}
	if r.IntN(3) == 0 {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	}
	return svc
}

func apply(svc *corev1.Service, e document.Example) {
	maps.Copy(svc.Annotations, e.Annotations)
	raw, err := json.Marshal(e.Spec)
	if err == nil {
		err = json.Unmarshal(raw, &svc.Spec)
	}
	if err != nil {
		panic(err)
	}
}

var allPorts = []corev1.ServicePort{
	builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("tls", corev1.ProtocolTCP, 443),
	builder.Port("dns", corev1.ProtocolUDP, 53), builder.Port("sctp", corev1.ProtocolSCTP, 9),
	{Name: "h2", Protocol: corev1.ProtocolTCP, Port: 8080, AppProtocol: new("http")}, builder.Port("dns-tcp", corev1.ProtocolTCP, 53),
}

// change changes one thing of a Service: a key, a port, or a field.
func (w *world) change(r *rand.Rand, svc *corev1.Service) {
	spec := &svc.Spec
	switch r.IntN(14) {
	case 0, 1, 2, 3:
		if keys := slices.Sorted(maps.Keys(svc.Annotations)); len(keys) > 0 {
			delete(svc.Annotations, pick(r, keys))
		}
	case 4, 5, 6:
		w.set(r, svc, pick(r, w.keys))
	case 7, 8:
		w.setGroup(r, svc)
	case 9:
		slices.Reverse(spec.Ports)
	case 10:
		if len(spec.Ports) > 1 {
			spec.Ports = slices.Delete(slices.Clone(spec.Ports), 0, 1)
		}
	case 11:
		port := pick(r, allPorts)
		if !slices.ContainsFunc(spec.Ports, func(p corev1.ServicePort) bool {
			return p.Name == port.Name || p.Port == port.Port && p.Protocol == port.Protocol
		}) {
			spec.Ports = append(slices.Clone(spec.Ports), port)
		}
	case 12:
		spec.ExternalTrafficPolicy = pick(r, []corev1.ServiceExternalTrafficPolicy{"Local", "Cluster"})
		spec.SessionAffinity = pick(r, []corev1.ServiceAffinity{"None", "ClientIP"})
		spec.AllocateLoadBalancerNodePorts = pick(r, []*bool{nil, new(false)})
	case 13:
		spec.LoadBalancerIP = pick(r, []string{"", "192.0.2.1", "nonsense"})
		spec.LoadBalancerSourceRanges = pick(r, [][]string{nil, {"10.0.0.0/8"}, {"2001:db8::/32", "10.0.0.0/8"}, {"10.0.0.0"}})
		spec.IPFamilies = pick(r, [][]corev1.IPFamily{nil, {corev1.IPv4Protocol}, {corev1.IPv4Protocol, corev1.IPv6Protocol}})
	}
}

// policies returns policies with rules and defaults of every kind.
func (w *world) policies(r *rand.Rand) []*policy.Policy {
	var all []*policy.Policy
	for i := range r.IntN(4) {
		p := &v1alpha1.ClusterLoadBalancerPolicy{}
		p.Name = string(rune('a' + i))
		p.Spec.Priority = r.Int32N(3)
		p.Spec.Enforcement = pick(r, []v1alpha1.Enforcement{"Deny", "Deny", "Warn", "Audit"})
		for range 1 + r.IntN(4) {
			p.Spec.Rules = append(p.Spec.Rules, w.rule(r))
		}
		p.Spec.Defaults = map[string]string{}
		for range r.IntN(6) - 2 {
			key := pick(r, w.keys)
			p.Spec.Defaults[key] = pick(r, w.values[key])
		}
		compiled, _ := policy.Compile(p) // what is invalid does not apply
		all = append(all, compiled)
	}
	return policy.Applicable(all, "shop", nil)
}

func (w *world) rule(r *rand.Rand) v1alpha1.Rule {
	key := pick(r, w.keys)
	rule := v1alpha1.Rule{Annotation: key}
	bound := func() *intstr.IntOrString {
		return new(pick(r, []intstr.IntOrString{intstr.FromInt32(2), intstr.FromInt32(9000), intstr.FromString("5s")}))
	}
	switch r.IntN(6) {
	case 0:
		rule.Min = bound()
	case 1:
		rule.Max = bound()
	case 2:
		rule.Allowed = []string{pick(r, w.values[key])}
	case 3:
		rule.Pattern = "^[a-m0-4]"
	case 4:
		rule.Required = true
	case 5:
		rule.Forbidden = true
	}
	return rule
}
