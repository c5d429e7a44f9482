package review

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
)

// Of returns the Reviewer for the annotations of an object that is not a Service, with those of the named catalogs that are
// selected. fields are as in catalog.Set.About. ok is false if there are no such catalogs.
func (r Reviewer) Of(names []string, fields map[string][]string) (other Reviewer, ok bool) {
	selected := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(r.kinds, name) })
	r.set, r.ofOthers = r.set.With(selected).About(fields), true
	return r, len(selected) > 0
}

// Generated returns the findings about the annotations of a Service that a controller will create, of which nothing else
// is known than its metadata and its class: those that it has whatever its spec is.
func (r Reviewer) Generated(svc *corev1.Service, policies []*policy.Policy) []finding.Finding {
	findings := slices.DeleteFunc(r.Preview(bare(svc), policies), func(f finding.Finding) bool {
		return !strings.HasPrefix(f.Field, finding.Annotations) || r.ofSpec(f)
	})
	if len(findings) == 0 {
		return nil
	}
	always := map[identity]bool{}
	for _, f := range r.Preview(complete(svc), policies) {
		always[identify(f)] = true
	}
	return slices.DeleteFunc(findings, func(f finding.Finding) bool { return !always[identify(f)] })
}

// Template is where an object has the annotations of a Service that a controller will create for it.
type Template struct {
	// Path is that of the annotations in the object.
	Path string
	// Pattern is Path without indexes, because elements of lists move.
	Pattern string
	// Service has the annotations, the class and what is known of the metadata.
	Service *corev1.Service
	// Catalogs are as in package template: nil for annotations of Services.
	Catalogs []string
	// Fields are as in catalog.Set.About.
	Fields map[string][]string
}

// Templates validates the annotations of the Services that controllers will create for an object. old are those of the
// object before an update; problems that it does not introduce are warnings. The findings are incomplete if the context
// ends, because there may be many Services.
func (r Reviewer) Templates(ctx context.Context, old, current []Template, policies []*policy.Policy) []finding.Finding {
	findings := r.templates(ctx, current, policies)
	if !finding.Deny(findings) {
		return finding.Merge(findings)
	}
	return finding.Ratchet(slices.DeleteFunc(r.templates(ctx, old, policies), func(f finding.Finding) bool {
		return slices.Contains(incomplete, f.ID) && !slices.EqualFunc(old, current, sameAnnotations)
	}), findings)
}

func sameAnnotations(a, b Template) bool {
	return maps.Equal(a.Service.Annotations, b.Service.Annotations)
}

// templates returns the findings about each Service. Equal ones of several Services are numbered in their subjects, so that
// one more is a new one.
func (r Reviewer) templates(ctx context.Context, all []Template, policies []*policy.Policy) []finding.Finding {
	var findings []finding.Finding
	seen := map[identity]int{}
	for _, t := range all {
		if ctx.Err() != nil {
			return findings
		}
		reviewer, applicable := r, policies
		if t.Catalogs != nil {
			reviewer, _ = r.Of(t.Catalogs, t.Fields)
			applicable = nil // they are about Services
		}
		for _, f := range reviewer.Generated(t.Service, applicable) {
			rest := strings.TrimPrefix(f.Field, finding.Annotations)
			f.Field, f.Listeners = t.Path+rest, nil
			id := identify(f)
			id.field = t.Pattern + rest
			f.Subject = fmt.Sprintf("%s %s %d", id.field, f.Subject, seen[id])
			seen[id]++
			findings = append(findings, f)
		}
	}
	return findings
}

// identity is what two findings about the same mistake have in common.
type identity struct{ id, check, field, value string }

func identify(f finding.Finding) identity { return identity{f.ID, f.Check, f.Field, f.Value} }

// ofSpec reports whether a finding is about ports, or about which controller handles the Service, which the object does
// not show; or about a missing annotation, which the controller may add.
func (r Reviewer) ofSpec(f finding.Finding) bool {
	if f.ID == policy.IDRequired {
		return true
	}
	c, found := r.set.Library().Find(f.Catalog)
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
	most.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: most.Spec.LoadBalancerClass,
		Selector: map[string]string{"app": "x"},
		Ports: []corev1.ServicePort{
			{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, AppProtocol: new("https"), NodePort: 30443},
			{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, NodePort: 30053},
		},
		ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 30080,
		SessionAffinity: corev1.ServiceAffinityClientIP,
		LoadBalancerIP:  "192.0.2.1", LoadBalancerSourceRanges: []string{"192.0.2.0/24"}, ExternalIPs: []string{"192.0.2.2"},
		IPFamilies:                    []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		IPFamilyPolicy:                new(corev1.IPFamilyPolicyRequireDualStack),
		AllocateLoadBalancerNodePorts: new(false),
	}
	return most
}

// Later returns a warning about what admission of the Services will catch up on.
func Later(id, message string) finding.Finding {
	return finding.Finding{
		ID: id, Severity: finding.Warning, Field: "metadata", Message: message,
		Remedy: "the Service is validated when the controller creates it",
	}
}
