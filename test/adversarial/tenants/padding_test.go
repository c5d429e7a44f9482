package tenants_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/test/builder"
)

// pad makes objects large: the API server stores up to 1.5 MiB, and an AdmissionReview contains the old and the new object,
// in which each < has six bytes.
type pad struct {
	name string
	// meta changes the metadata of an object that is replaced.
	meta func(*metav1.ObjectMeta)
	// service changes the rest of a Service, status its status.
	service func(*corev1.Service)
	status  func(*corev1.Service)
	// plain is what a load balancer must not have, so the Service becomes one later.
	plain bool
	// fleeting is what admission replaces.
	fleeting bool
	// bounded is what a load balancer may not have that much of.
	bounded bool
	// long is a variant only with -full.
	long bool
}

const (
	// padSize is what fits into etcd in Protobuf, and customSize what does in JSON, in which custom resources are stored. The
	// API server drops the managed fields of a custom resource that does not fit.
	padSize    = 700_000
	customSize = 200_000
)

// managed returns metadata with managed fields in the given JSON, for each of several managers.
func managed(fields ...string) func(*metav1.ObjectMeta) {
	return func(meta *metav1.ObjectMeta) {
		for i, text := range fields {
			meta.ManagedFields = append(meta.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: fmt.Sprintf("manager-%d", i), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
				Time: &metav1.Time{Time: time.Unix(1_700_000_000, 0)}, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(text),
			})
		}
	}
}

func longField(size int) string {
	return `{"f:metadata":{"f:annotations":{"f:` + strings.Repeat("<", size) + `":{}}}}`
}

func shortFields(size int) string {
	var text strings.Builder
	text.WriteString(`{"f:metadata":{"f:annotations":{".":{}`)
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, `,"f:%s%d":{}`, strings.Repeat("<", 40), i)
	}
	text.WriteString(`}}}`)
	return text.String()
}

func repeat[T any](n int, f func(int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = f(i)
	}
	return all
}

// metaPads are those of every kind, of about a size.
func metaPads(size int) []pad {
	return []pad{
		{name: "a long managed field", meta: managed(longField(size))},
		{name: "the longest managed field", meta: managed(longField(2 * size))},
		{name: "long owners", meta: func(m *metav1.ObjectMeta) {
			m.OwnerReferences = repeat(4, func(i int) metav1.OwnerReference {
				return metav1.OwnerReference{
					APIVersion: "example.com/v1", Kind: "Owner", Name: strings.Repeat("<", size/4), UID: types.UID(fmt.Sprint("<", i)),
				}
			})
		}},
		{name: "9 long managed fields", long: true, meta: managed(repeat(9, func(int) string { return longField(size / 9) })...)},
		{name: "many managed fields", meta: managed(shortFields(size))},
		{name: "many finalizers", long: true, meta: func(m *metav1.ObjectMeta) {
			m.Finalizers = repeat(5_000, func(i int) string { return fmt.Sprintf("example.com/%s-%d", strings.Repeat("f", 50), i) })
		}},
		{name: "many labels", long: true, meta: func(m *metav1.ObjectMeta) {
			m.Labels = map[string]string{}
			for i := range 8_000 {
				m.Labels[fmt.Sprintf("%s-%d", strings.Repeat("l", 50), i)] = strings.Repeat("v", 60)
			}
		}},
		{name: "an annotation of 250 KiB", meta: func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{"example.com/notes": strings.Repeat("<", 250<<10)}
		}},
		{name: "20,000 annotations", long: true, meta: func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{}
			for i := range 20_000 {
				m.Annotations[fmt.Sprintf("k%d", i)] = ""
			}
		}},
		{name: "a long record of defaults", fleeting: true, long: true, meta: func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{"quaymaster.dev/defaulted": strings.Repeat("a=b,", 60<<10)}
		}},
	}
}

// servicePads are those of Services.
func servicePads() []pad {
	return append(metaPads(padSize),
		pad{name: "28,000 ports", plain: true, service: func(svc *corev1.Service) {
			withPorts(svc, 28_000)
		}},
		pad{name: "70,000 source ranges", bounded: true, long: true, service: func(svc *corev1.Service) {
			svc.Spec.LoadBalancerSourceRanges = repeat(70_000, func(i int) string { return fmt.Sprintf("10.%d.%d.0/24", i>>8&255, i&255) })
		}},
		pad{name: "many selectors", long: true, service: func(svc *corev1.Service) {
			svc.Spec.Selector = map[string]string{}
			for i := range 8_000 {
				svc.Spec.Selector[fmt.Sprintf("%s-%d", strings.Repeat("s", 50), i)] = strings.Repeat("v", 60)
			}
		}},
		pad{name: "long conditions", status: func(svc *corev1.Service) {
			svc.Status.Conditions = repeat(30, func(i int) metav1.Condition {
				return metav1.Condition{
					Type: fmt.Sprintf("example.com/t%d", i), Status: metav1.ConditionTrue, Reason: "Because",
					Message: strings.Repeat("<", 32_000), LastTransitionTime: metav1.Time{Time: time.Unix(1_700_000_000, 0)},
				}
			})
		}},
		pad{name: "20,000 addresses", long: true, status: func(svc *corev1.Service) {
			svc.Status.LoadBalancer.Ingress = repeat(20_000, func(i int) corev1.LoadBalancerIngress {
				return corev1.LoadBalancerIngress{IP: fmt.Sprintf("10.%d.%d.1", i>>8&255, i&255)}
			})
		}},
	)
}

// withPorts gives a Service that many ports, for which no node ports are allocated.
func withPorts(svc *corev1.Service, n int) {
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		none := false
		svc.Spec.AllocateLoadBalancerNodePorts = &none
	}
	svc.Spec.Ports = repeat(n, func(i int) corev1.ServicePort {
		return corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1), Protocol: corev1.ProtocolTCP}
	})
}

// brief leaves out long variants, unless the attack is to be long.
func brief(all []pad) []pad {
	if *full {
		return all
	}
	return slices.DeleteFunc(all, func(p pad) bool { return p.long })
}

// store stores a padded Service of the attacker without mistakes, and returns its path; empty if the API server refuses it.
func (p pad) store(s *stage) string {
	s.Helper()
	name := unique("padded")
	path := servicesOf(s.namespace) + "/" + name
	none := false
	svc := service(name, builder.Spec(func(spec *corev1.ServiceSpec) { spec.AllocateLoadBalancerNodePorts = &none }))
	if p.plain {
		svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil
	}
	if !s.expectSuccess("create a Service", s.attacker.post(s.Context(), servicesOf(s.namespace), svc)) {
		return ""
	}
	read := func() {
		if err := json.Unmarshal(s.attacker.get(s.Context(), path).text, svc); err != nil {
			s.Fatal(err)
		}
	}
	read()
	if p.meta != nil {
		p.meta(&svc.ObjectMeta)
	}
	var got answer
	if p.status != nil {
		p.status(svc)
		got = s.attacker.put(s.Context(), path+"/status", svc)
	} else {
		if p.service != nil {
			p.service(svc)
		}
		got = s.attacker.put(s.Context(), path, svc)
	}
	if p.bounded && got.refused() && strings.Contains(got.String(), "must have at most") {
		// No load balancer needs so many.
		s.note("store %s: %s", p.name, short(got.String()))
		return ""
	}
	if !s.expectSuccess("store "+p.name, got) {
		return ""
	}
	if len(got.text) < 200_000 && !p.fleeting {
		s.Errorf("%s: the API server stores %d bytes only", p.name, len(got.text))
	}
	return path
}

// padServices makes Services so large that the webhook might not answer, and then adds mistakes.
func padServices(s *stage) {
	var paths []string
	for _, p := range brief(servicePads()) {
		path := p.store(s)
		if path == "" {
			continue
		}
		asLoadBalancer, mistaken := valid, invalid
		if p.plain {
			asLoadBalancer, mistaken = balanced(valid), balanced(invalid)
		}
		s.cost(p.name, func() int {
			s.expectRefusal(p.name+", an invalid annotation", s.attacker.patch(s.Context(), path, mistaken))
			return 1
		})
		if !p.plain {
			s.cost(p.name, func() int {
				s.expectRefusal(p.name+", an invalid annotation by the status", s.attacker.patch(s.Context(), path+"/status", invalid))
				return 1
			})
		}
		got := s.attacker.patch(s.Context(), path, asLoadBalancer)
		if got.ok() {
			paths = append(paths, path)
		} else if !p.plain {
			s.Errorf("%s: a valid change is refused: %s", p.name, short(got.String()))
		}
	}
	if len(paths) == 0 {
		return
	}
	s.during(4, duration(1500*time.Millisecond, 20*time.Second), func(worker, i int) {
		path := paths[(worker+i)%len(paths)]
		s.expectRefusal("concurrently, an invalid annotation", s.attacker.patch(s.Context(), path, invalid))
	})
}

// balanced makes a merge patch also change the type to LoadBalancer.
func balanced(patch string) string {
	return `{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false},` + patch[1:]
}

// padClaims makes claims large, and then grows them beyond the maximum of their class.
func padClaims(s *stage) {
	grow := func(size string) string {
		return fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	}
	for _, p := range brief(metaPads(padSize))[:size(3, 10)] {
		path := s.boundClaim()
		pvc := &corev1.PersistentVolumeClaim{}
		if err := json.Unmarshal(s.attacker.get(s.Context(), path).text, pvc); err != nil {
			s.Fatal(err)
		}
		p.meta(&pvc.ObjectMeta)
		if !s.expectSuccess("store a claim with "+p.name, s.attacker.put(s.Context(), path, pvc)) {
			continue
		}
		s.cost("a claim with "+p.name, func() int {
			s.expectRefusal(p.name+", a claim beyond the maximum", s.attacker.patch(s.Context(), path, grow("2Ti")))
			return 1
		})
		s.expectSuccess(p.name+", a valid growth", s.attacker.patch(s.Context(), path, grow("30Gi")))
	}
}

// boundClaim creates a claim of the attacker and its volume, binds them, and returns the path of the claim.
func (s *stage) boundClaim() string {
	s.Helper()
	name := unique("claim")
	pv := builder.PersistentVolume()
	pv.Name, pv.UID = name, ""
	s.expectSuccess("create a volume", shared.admin.post(s.Context(), "/api/v1/persistentvolumes", pv))
	pvc := builder.PersistentVolumeClaim(builder.ClaimClass("ssd"), builder.Request("20Gi"))
	pvc.Namespace, pvc.Name, pvc.UID, pvc.Spec.VolumeName, pvc.Status = "", name, "", name, corev1.PersistentVolumeClaimStatus{}
	s.expectSuccess("create a claim", s.attacker.post(s.Context(), claimsOf(s.namespace), pvc))
	path := claimsOf(s.namespace) + "/" + name
	s.expectSuccess("bind a claim", shared.admin.patch(s.Context(), path+"/status",
		`{"status":{"phase":"Bound","capacity":{"storage":"20Gi"}}}`))
	return path
}

// policy returns a policy of a namespace with a spec.
func policy(name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "quaymaster.dev/v1alpha1", "kind": "LoadBalancerPolicy", "metadata": map[string]any{"name": name}, "spec": spec,
	}
}

// padPolicies makes policies large, and then adds mistakes.
func padPolicies(s *stage) {
	for _, p := range brief(metaPads(customSize)) {
		if p.name == "the longest managed field" {
			continue // the API server drops it
		}
		name := unique("policy")
		path := policiesOf(s.namespace) + "/" + name
		spec := map[string]any{"defaults": map[string]any{dlb + "listener-maxqps": "100"}}
		got := s.attacker.post(s.Context(), policiesOf(s.namespace), policy(name, spec))
		if !s.expectSuccess("create a policy", got) {
			continue
		}
		var object map[string]any
		var parsed struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(got.text, &object); err != nil {
			s.Fatal(err)
		}
		if err := json.Unmarshal(got.text, &parsed); err != nil {
			s.Fatal(err)
		}
		p.meta(&parsed.Metadata)
		for i := range parsed.Metadata.ManagedFields {
			parsed.Metadata.ManagedFields[i].APIVersion = "quaymaster.dev/v1alpha1"
		}
		object["metadata"] = parsed.Metadata
		got = s.attacker.put(s.Context(), path, object)
		if !s.expectSuccess("store a policy with "+p.name, got) {
			continue
		}
		if len(got.text) < 200_000 {
			s.Errorf("a policy with %s: the API server stores %d bytes only", p.name, len(got.text))
		}
		s.cost("a policy with "+p.name, func() int {
			got := s.attacker.patch(s.Context(), path, fmt.Sprintf(`{"spec":{"defaults":{%q:"many"}}}`, dlb+"listener-maxqps"))
			s.expectRefusal(p.name+", an invalid policy", got)
			return 1
		})
		s.expectSuccess(p.name+", a valid change of the policy", s.attacker.patch(s.Context(), path,
			fmt.Sprintf(`{"spec":{"defaults":{%q:"200"}}}`, dlb+"listener-maxqps")))
		s.attacker.remove(s.Context(), path)
	}
	// What does not fit into etcd is in the review, but the API server then stores the policy without it.
	for size, what := range map[int]string{padSize: "long", 1_300_000: "very long"} {
		name := unique("policy")
		got := s.attacker.post(s.Context(), policiesOf(s.namespace), policy(name, map[string]any{"defaults": map[string]any{dlb + "listener-maxqps": "100"}}))
		var object map[string]any
		if err := json.Unmarshal(got.text, &object); !got.ok() || err != nil {
			s.Fatalf("%s: %v", got, err)
		}
		meta := &metav1.ObjectMeta{}
		managed(longField(size))(meta)
		meta.ManagedFields[0].APIVersion = "quaymaster.dev/v1alpha1"
		object["metadata"].(map[string]any)["managedFields"] = meta.ManagedFields
		object["spec"] = map[string]any{"defaults": map[string]any{dlb + "listener-maxqps": "many"}}
		s.cost("replacing a policy with "+what+" managed fields", func() int {
			s.expectRefusal("replace a policy with an invalid one with "+what+" managed fields",
				s.attacker.put(s.Context(), policiesOf(s.namespace)+"/"+name, object))
			return 1
		})
	}
	s.removePolicies()
}
