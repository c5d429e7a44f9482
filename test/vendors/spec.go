package vendors

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/internal/rules/catalog/document"
)

// plain returns a Service of the controller with one or two ports.
func (m *maker) plain() *corev1.Service {
	svc := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	if m.chance(2) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443})
	}
	m.own(svc)
	return svc
}

// own makes the Service one of the controller's.
func (m *maker) own(svc *corev1.Service) {
	owns := m.g.catalog.Owns
	if len(owns.Classes) > 0 && (!owns.NoClass || m.chance(4)) {
		class := m.one(owns.Classes)
		if class[len(class)-1] == '*' {
			class = class[:len(class)-1] + "a"
		}
		svc.Spec.LoadBalancerClass = &class
	}
	m.svc = svc
	for _, c := range owns.When {
		m.makeHold(c, 2)
	}
	if len(owns.Any) > 0 && svc.Spec.LoadBalancerClass == nil {
		m.makeHold(owns.Any[m.r.IntN(len(owns.Any))], 2)
	}
}

var (
	addresses = []string{"192.0.2.5", "10.0.0.5", "2001:db8::5", "192.0.2.256", "example.com", "192.0.2.0/24", " 192.0.2.5"}
	ranges    = []string{"192.0.2.0/24", "10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.5/32", "10.1.2.3/8"}
	protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	apps      = []string{"http", "https", "kubernetes.io/h2c", "kubernetes.io/ws", "tcp", "TLS", "example.com/x"}
)

// varySpec changes some fields to values that the API server accepts.
func (m *maker) varySpec(changes int) {
	vary := []func(){
		m.varyPorts, m.varyPorts, m.varyFamilies,
		func() { m.svc.Spec.LoadBalancerIP = m.one(addresses) },
		func() { m.svc.Spec.LoadBalancerSourceRanges = m.some(ranges) },
		func() { m.svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
		func() { m.svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
		func() { no := m.chance(2); m.svc.Spec.AllocateLoadBalancerNodePorts = &no },
		func() { m.svc.Spec.ExternalIPs = m.some([]string{"198.51.100.7", "2001:db8::9"}) },
		func() { class := m.one([]string{"example.com/other", "other"}); m.svc.Spec.LoadBalancerClass = &class },
		func() { m.svc.Spec.Selector = nil },
		func() { p := corev1.ServiceInternalTrafficPolicyLocal; m.svc.Spec.InternalTrafficPolicy = &p },
		func() {
			m.svc.Name = m.one([]string{"a", "web-2", strings.Repeat("long-name-", 6) + "web"})
		},
	}
	for range changes {
		vary[m.r.IntN(len(vary))]()
	}
	for _, field := range slices.Sorted(maps.Keys(m.g.fields)) { // what the catalog's own conditions compare
		if m.chance(8) {
			m.setField(document.Condition{Field: field})
		}
	}
}

// some returns one or two of the texts.
func (m *maker) some(texts []string) []string {
	list := []string{m.one(texts)}
	if other := m.one(texts); m.chance(2) && other != list[0] {
		list = append(list, other)
	}
	return list
}

// varyPorts replaces the ports by up to five, each with its own number and name.
func (m *maker) varyPorts() {
	numbers := []int32{80, 443, 53, 8080, 22, 1, 65535, 5060}
	m.r.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	var ports []corev1.ServicePort
	for i := range 1 + m.r.IntN(5) {
		port := corev1.ServicePort{Name: "port-" + strconv.Itoa(i), Port: numbers[i], Protocol: corev1.ProtocolTCP}
		if m.chance(4) {
			port.Protocol = protocols[m.r.IntN(len(protocols))]
		}
		if m.chance(4) {
			app := m.one(apps)
			port.AppProtocol = &app
		}
		if m.chance(6) {
			port.TargetPort = intstr.FromString("named")
		}
		ports = append(ports, port)
		if m.chance(8) && port.Protocol == corev1.ProtocolTCP { // the same number for both protocols
			port.Name, port.Protocol = "udp-"+port.Name, corev1.ProtocolUDP
			ports = append(ports, port)
		}
	}
	if len(ports) == 1 && m.chance(2) {
		ports[0].Name = ""
	}
	m.svc.Spec.Ports = ports
}

func (m *maker) varyFamilies() {
	v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
	lists := [][]corev1.IPFamily{{v4}, {v6}, {v4, v6}, {v6, v4}}
	families := lists[m.r.IntN(len(lists))]
	policy := corev1.IPFamilyPolicySingleStack
	if len(families) == 2 {
		policy = []corev1.IPFamilyPolicy{corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack}[m.r.IntN(2)]
	}
	m.svc.Spec.IPFamilies, m.svc.Spec.IPFamilyPolicy = families, &policy
}

// setField gives a field a value with which a condition probably holds, if the API server would accept it.
func (m *maker) setField(c document.Condition) {
	spec := &m.svc.Spec
	if c.Set != nil && !*c.Set {
		switch c.Field {
		case "spec.loadBalancerIP":
			spec.LoadBalancerIP = ""
		case "spec.loadBalancerSourceRanges":
			spec.LoadBalancerSourceRanges = nil
		case "spec.externalIPs":
			spec.ExternalIPs = nil
		case "spec.selector":
			spec.Selector = nil
		}
		return
	}
	words := slices.Concat(c.Is, c.Only)
	if len(words) == 0 {
		words = slices.DeleteFunc(slices.Clone(m.g.fields[c.Field]), func(word string) bool { return slices.Contains(c.Not, word) })
	}
	word := ""
	if len(words) > 0 {
		word = m.one(words)
	}
	port := &spec.Ports[m.r.IntN(len(spec.Ports))]
	switch c.Field {
	case "spec.loadBalancerIP":
		spec.LoadBalancerIP = m.one(addresses)
	case "spec.loadBalancerSourceRanges":
		spec.LoadBalancerSourceRanges = m.some(ranges)
	case "spec.externalTrafficPolicy":
		if word != "" {
			spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicy(word)
		}
	case "spec.sessionAffinity":
		if word != "" {
			spec.SessionAffinity = corev1.ServiceAffinity(word)
		}
	case "spec.allocateLoadBalancerNodePorts":
		allocate := word != "false"
		spec.AllocateLoadBalancerNodePorts = &allocate
	case "spec.loadBalancerClass":
		if word != "" {
			spec.LoadBalancerClass = &word
		}
	case "spec.ipFamilies", "spec.ipFamilyPolicy":
		m.varyFamilies()
	case "spec.ports.protocol":
		if word != "" {
			port.Protocol = corev1.Protocol(word)
		}
	case "spec.ports.appProtocol":
		if word == "" {
			word = m.one(apps)
		}
		port.AppProtocol = &word
	}
}

// stored returns the Service as the API server stores it, with its defaults and what it allocates. Vendors' code gets no
// other Services.
func stored(svc *corev1.Service) *corev1.Service {
	s := svc.DeepCopy()
	s.UID, s.ResourceVersion, s.Generation = types.UID("f81d4fae-7dec-41d0-a765-00a0c91e6bf6"), "1", 1
	spec := &s.Spec
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		spec.IPFamilyPolicy = &policy
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	for _, family := range spec.IPFamilies {
		spec.ClusterIPs = append(spec.ClusterIPs, map[corev1.IPFamily]string{
			corev1.IPv4Protocol: "10.96.0.10", corev1.IPv6Protocol: "fd00::10",
		}[family])
	}
	spec.ClusterIP = spec.ClusterIPs[0]
	if spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		spec.HealthCheckNodePort = 32000
	}
	if spec.InternalTrafficPolicy == nil {
		policy := corev1.ServiceInternalTrafficPolicyCluster
		spec.InternalTrafficPolicy = &policy
	}
	if spec.AllocateLoadBalancerNodePorts == nil {
		allocate := true
		spec.AllocateLoadBalancerNodePorts = &allocate
	}
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		seconds := int32(10800)
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
		if *spec.AllocateLoadBalancerNodePorts {
			p.NodePort = 30000 + int32(i)
		}
	}
	return s
}
