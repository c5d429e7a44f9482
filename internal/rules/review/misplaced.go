package review

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// An ingressController is one of Ingresses, known by prefixes that only it reads. Alibaba's shares that of AWS.
type ingressController struct {
	title    string
	classes  []string // the usual ones
	prefixes []string
	// annotated is true if only the annotation sets the class.
	annotated bool
}

func (c ingressController) has(class string) bool { return slices.Contains(c.classes, class) }

func (c ingressController) reads(key string) bool {
	return slices.ContainsFunc(c.prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

var ingressControllers = []ingressController{
	{"the AWS Load Balancer Controller", []string{"alb"}, []string{"alb.ingress.kubernetes.io/"}, false},
	{"the Application Gateway Ingress Controller", []string{"azure-application-gateway", "azure/application-gateway"}, []string{"appgw.ingress.kubernetes.io/"}, false},
	{"CCE", []string{"cce"}, []string{"kubernetes.io/cce.ingress."}, false},
	{"Cilium", []string{classCilium}, []string{"ingress.cilium.io/"}, false},
	{
		"the Ingress controller of GKE", []string{"gce", "gce-internal", "gce-regional-external"}, []string{
			"ingress.gcp.kubernetes.io/", "kubernetes.io/ingress.allow-", "kubernetes.io/ingress.global-",
			"kubernetes.io/ingress.regional-", "networking.gke.io/",
		}, true,
	},
	{"HAProxy", []string{"haproxy"}, []string{"haproxy.org/"}, false},
	{"ingress-nginx", []string{"nginx"}, []string{"nginx.ingress.kubernetes.io/"}, false},
	{"Kong", []string{"kong"}, []string{"konghq.com/"}, false},
	{"TKE", []string{"qcloud"}, []string{"ingress.cloud.tencent.com/"}, false},
	{"Traefik", []string{"traefik"}, []string{"traefik.ingress.kubernetes.io/"}, false},
}

// classCilium is that of Ingresses whose annotations Cilium copies to a Service, if their prefix is configured.
const classCilium = "cilium"

// misplaced returns warnings about keys that controllers read on objects of other kinds or classes only. An Ingress without a
// class may have any controller.
func (r Reviewer) misplaced(set catalog.Set, o *corev1.Service) []finding.Finding {
	class, elsewhere, annotated := "", r.kinds, false
	if r.ofOthers {
		class, annotated = o.Annotations[library.IngressClass]
		if elsewhere = r.services; o.Spec.LoadBalancerClass != nil {
			class = *o.Spec.LoadBalancerClass
		}
	}
	if r.ofOthers && class == "" || !r.ofOthers && len(elsewhere) == 0 {
		return nil
	}
	var findings []finding.Finding
	for key, value := range o.Annotations {
		where, remedy := readByClass(class, key), "remove it, or move it there"
		if where == "" && class != classCilium && !set.Reads(key) {
			where = readByKind(set.Library(), elsewhere, key, !r.ofOthers)
		}
		if where == "" && onlyAnnotated(class, annotated, key) {
			where, remedy = "the controller of class "+class+" does not read spec.ingressClassName", "set the annotation "+library.IngressClass+" instead"
		}
		if where != "" && len(findings) < maxStrays {
			findings = append(findings, finding.Finding{
				ID: IDOtherKind, Check: IDOtherKind, Severity: finding.Warning, Field: catalog.Path(key), Value: value,
				Message: "has no effect here: " + where, Remedy: remedy,
			})
		}
	}
	return findings
}

// readByKind returns on which objects one of the catalogs' controllers reads a key, unless it also does so on Services and
// these are reviewed; empty if none does.
func readByKind(l *library.Library, names []string, key string, services bool) string {
	for _, name := range names {
		c, found := l.Find(name)
		if !found || !c.Concerns(key) || !c.Knows(key) || c.IsElsewhere(key) || services && c.ReadsOnServices(key) {
			continue
		}
		return c.Title + " reads it on " + cmp.Or(strings.Join(c.Kinds, ", "), "Services of type LoadBalancer")
	}
	return ""
}

// readByClass returns on which Ingresses a key has an effect, if the class is usually that of a different controller, or a typo
// of a class that cannot be renamed; empty otherwise.
func readByClass(class, key string) string {
	i := slices.IndexFunc(ingressControllers, func(c ingressController) bool { return c.reads(key) })
	if i < 0 || ingressControllers[i].has(class) {
		return ""
	}
	known := slices.ContainsFunc(ingressControllers, func(c ingressController) bool { return c.has(class) })
	_, typo := annotation.Suggest(class, ingressControllers[i].classes)
	if !known && !(typo && ingressControllers[i].annotated) {
		return ""
	}
	return ingressControllers[i].title + " reads it on Ingresses of class " + ingressControllers[i].classes[0]
}

// onlyAnnotated reports whether a class is that of the controller that reads a key, but is in a field that it ignores.
func onlyAnnotated(class string, annotated bool, key string) bool {
	return !annotated && slices.ContainsFunc(ingressControllers, func(c ingressController) bool {
		return c.annotated && c.has(class) && c.reads(key)
	})
}

// idle returns warnings about the keys of load balancers on a Service of a different type.
func idle(set catalog.Set, svc *corev1.Service) []finding.Finding {
	if svc == nil || svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return nil
	}
	owned := set.Owned(asLoadBalancer(svc))
	kind := cmp.Or(svc.Spec.Type, corev1.ServiceTypeClusterIP)
	var findings []finding.Finding
	for key, value := range svc.Annotations {
		own := strings.HasPrefix(key, ownPrefix)
		onlyOfLoadBalancers := set.Reads(key) && !set.ReadsOnAnyType(key)
		if own && !owned || !own && !onlyOfLoadBalancers || len(findings) == maxStrays {
			continue
		}
		findings = append(findings, finding.Finding{
			ID: IDOtherType, Severity: finding.Warning, Field: catalog.Path(key), Value: value,
			Message: "has no effect on a Service of type " + string(kind), Remedy: "remove it, or set spec.type to LoadBalancer",
		})
	}
	return findings
}

// ofAnyType returns the findings about keys that controllers read on Services of any type.
func ofAnyType(set catalog.Set, svc *corev1.Service) []finding.Finding {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(svc.Annotations)), set.ReadsOnAnyType) {
		return nil
	}
	return slices.DeleteFunc(set.Parse(asLoadBalancer(svc)).Validate(), func(f finding.Finding) bool {
		return !set.ReadsOnAnyType(f.Key())
	})
}

func asLoadBalancer(svc *corev1.Service) *corev1.Service {
	would := *svc
	would.Spec.Type = corev1.ServiceTypeLoadBalancer
	return &would
}
