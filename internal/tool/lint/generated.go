package lint

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

const annotationsField = "metadata.annotations"

// generated returns the findings about the annotations of a Service of which nothing else is known: those that it has
// whatever its spec is. kinds are the catalogs of annotations of other objects; nil for those of Services. concerned is
// false if the annotations of other objects belong to none of the catalogs.
func (r *Reviewer) generated(svc *corev1.Service, kinds []string) (findings []finding.Finding, concerned bool) {
	catalogs, policies := r.catalogs(svc, false), r.applicable(svc)
	if kinds != nil {
		catalogs, policies = r.claiming(kinds, svc.Annotations), nil
		if len(catalogs) == 0 {
			return nil, false
		}
	}
	reviewer := r.by(catalogs)
	least, most := bare(svc), complete(svc)
	always := map[identity]bool{}
	for _, f := range reviewer.Preview(most, policies) {
		always[identify(f)] = true
	}
	for _, f := range reviewer.Preview(least, policies) {
		if always[identify(f)] && strings.HasPrefix(f.Field, annotationsField) && !r.ofSpec(f) {
			f.Listeners = nil
			findings = append(findings, f)
		}
	}
	return findings, true
}

// foreign matches keys, by the catalog whose prefix they have, that only another controller reads: Alibaba's ALB Ingress
// controller has the prefix of AWS's.
var foreign = map[string]*regexp.Regexp{
	"alb": regexp.MustCompile(`^alb\.ingress\.kubernetes\.io/(canary.*|healthcheck-enabled|rewrite-target|order|albconfig\..*|vswitch-ids)$`),
}

// claiming returns the names of the catalogs that one of the keys belongs to, and that are selected. If none is selected,
// those for whose prefix there is a foreign key are left out.
func (r *Reviewer) claiming(names []string, annotations map[string]string) []string {
	var claiming []string
	for _, name := range names {
		selected := slices.Contains(r.o.Catalogs, name)
		if pattern := foreign[name]; r.o.Catalogs == nil {
			selected = pattern == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(annotations)), pattern.MatchString)
		}
		if selected && r.o.Library.Claims(name, annotations) {
			claiming = append(claiming, name)
		}
	}
	return claiming
}

// identity is what two findings about the same mistake have in common.
type identity struct{ id, check, field, value string }

func identify(f finding.Finding) identity { return identity{f.ID, f.Check, f.Field, f.Value} }

// ofSpec reports whether a finding is about ports, or about which controller handles the Service, which the object does
// not show; or about a missing annotation, which the controller may add.
func (r *Reviewer) ofSpec(f finding.Finding) bool {
	if f.ID == "policy-required" {
		return true
	}
	c, found := r.o.Library.Find(f.Catalog)
	return found && slices.ContainsFunc(
		[]string{library.IDUnknownPort, library.IDPortForm, library.IDAmbiguousPort, library.IDNotOwned},
		func(name string) bool { return c.ID(name) == f.ID },
	)
}

// bare returns a load balancer with the metadata and the class of svc, and nothing that can be left out.
func bare(svc *corev1.Service) *corev1.Service {
	least := svc.DeepCopy()
	least.Spec.Type = corev1.ServiceTypeLoadBalancer
	least.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	return least
}

// complete returns a load balancer with the metadata and the class of svc, and everything that can be set.
func complete(svc *corev1.Service) *corev1.Service {
	most := svc.DeepCopy()
	s := &most.Spec
	s.Type = corev1.ServiceTypeLoadBalancer
	s.Selector = map[string]string{"app": "x"}
	s.Ports = []corev1.ServicePort{
		{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, AppProtocol: new("https"), NodePort: 30443},
		{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, NodePort: 30053},
	}
	s.ExternalTrafficPolicy, s.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30080
	s.SessionAffinity = corev1.ServiceAffinityClientIP
	s.LoadBalancerIP, s.LoadBalancerSourceRanges = "192.0.2.1", []string{"192.0.2.0/24"}
	s.ExternalIPs = []string{"192.0.2.2"}
	s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	s.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	s.AllocateLoadBalancerNodePorts = new(false)
	return most
}
