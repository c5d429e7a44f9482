package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

const (
	// keyPrefix is that of the keys by which Quaymaster and users talk about single Services, which have no catalog.
	keyPrefix = "quaymaster.dev/"
	// ownPrefix is that of the keys of Quaymaster's own controller: a domain and the stem of names.
	ownDomain, ownStem = "service.beta.kubernetes.io", "dlb"
	ownPrefix          = ownDomain + "/" + ownStem + "-"
	// maxStrays bounds the search for typos, as for unknown keys of catalogs.
	maxStrays = 20
)

// KnownKeys are the keys with the prefix quaymaster.dev/ that Services may have.
var KnownKeys = []string{
	"quaymaster.dev/abandon-load-balancer", "quaymaster.dev/defaulted", "quaymaster.dev/load-balancer",
	"quaymaster.dev/load-balancer-claim", "quaymaster.dev/probe", "quaymaster.dev/refresh-defaults",
}

// strays returns findings about keys that nothing reads and that no catalog reports, because they lack its prefix.
func strays(set catalog.Set, svc *corev1.Service) []finding.Finding {
	var suspects []string
	for key := range svc.Annotations {
		suspect := false
		switch {
		case strings.HasPrefix(key, ownPrefix):
		case strings.HasPrefix(key, keyPrefix):
			suspect = !slices.Contains(KnownKeys, key)
		default:
			suspect = hasOwnStem(key) && set.Owned(svc)
		}
		if suspect {
			suspects = append(suspects, key)
		}
	}
	slices.Sort(suspects)
	var findings []finding.Finding
	for _, key := range suspects[:min(len(suspects), maxStrays)] {
		if strings.HasPrefix(key, keyPrefix) {
			findings = append(findings, unknownKey(key, svc.Annotations[key]))
		} else if meant, ok := Meant(set.Library(), key); ok {
			findings = append(findings, finding.Finding{
				ID: IDMisspelledKey, Check: IDMisspelledKey, Severity: finding.Error,
				Type: field.ErrorTypeInvalid, Field: catalog.Path(key), Value: svc.Annotations[key], Message: "unknown annotation",
				Remedy: fmt.Sprintf("did you mean %q?", meant),
			})
		}
	}
	return findings
}

// strayBefore returns the findings of strays that the Service before the update had as well, without searching again.
func strayBefore(set catalog.Set, svc *corev1.Service, current []finding.Finding) []finding.Finding {
	if !set.Owned(svc) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(current), func(f finding.Finding) bool {
		key := strings.TrimSuffix(strings.TrimPrefix(f.Field, "metadata.annotations["), "]")
		value, set := svc.Annotations[key]
		return !set || value != f.Value
	})
}

// unknownKey is a warning, because a later version could write the key.
func unknownKey(key, value string) finding.Finding {
	f := finding.Finding{
		ID: IDUnknownKey, Severity: finding.Warning, Field: catalog.Path(key), Value: value,
		Message: "unknown annotation of Quaymaster", Remedy: "remove it",
	}
	name := strings.TrimPrefix(key, keyPrefix)
	var names []string
	for _, known := range KnownKeys {
		names = append(names, strings.TrimPrefix(known, keyPrefix))
	}
	if nearest, near := annotation.Suggest(name, names); near {
		f.Message, f.Remedy = "unknown annotation", fmt.Sprintf("did you mean %q?", keyPrefix+nearest)
	}
	return f
}

// Meant returns the key of Quaymaster's own controller that another one is probably a typo of: one with a typo before
// the name of the setting, such as dbl-scheduler, or in the part before the slash.
func Meant(l *library.Library, key string) (meant string, ok bool) {
	if !hasOwnStem(key) || strings.HasPrefix(key, ownPrefix) {
		return "", false
	}
	domain, name := cutDomain(key)
	if _, near := annotation.Suggest(domain, []string{ownDomain}); domain != "" && !near {
		return "", false
	}
	word, setting := cutWord(name)
	meant = ownPrefix + setting
	own, _ := l.OwnCatalog(ownPrefix) // it exists
	if _, formed := own.HasPortForm(meant); !formed && !own.Knows(meant) {
		// Two typos are only certain if the first has the same letters: elb- is probably that of another controller.
		suggestion, near := own.Suggest(meant)
		if !near || lettersOfStem(word) < len(ownStem) {
			return "", false
		}
		meant = suggestion
	}
	for _, name := range l.Names() {
		if c, _ := l.Find(name); c.Knows(key) {
			return "", false
		}
	}
	return meant, true
}

// hasOwnStem reports whether the name of a key starts with the word that the keys of Quaymaster's own controller start
// with, or with a typo of it: one letter may be wrong, missing or too much.
func hasOwnStem(key string) bool {
	_, name := cutDomain(key)
	word, _ := cutWord(name)
	return len(word) >= len(ownStem)-1 && len(word) <= len(ownStem)+1 && lettersOfStem(word) >= len(ownStem)-1
}

// lettersOfStem returns how many letters of the stem are in a word, in any order and case.
func lettersOfStem(word string) (n int) {
	for _, letter := range ownStem {
		if strings.ContainsAny(word, string([]rune{letter, unicode.ToUpper(letter)})) {
			n++
		}
	}
	return n
}

// cutWord splits a name after its first word. Without a separator, there is no word.
func cutWord(name string) (word, rest string) {
	at := strings.IndexAny(name, "-_.")
	if at < 0 {
		return "", name
	}
	return name[:at], name[at+1:]
}

// cutDomain splits a key at its slash. Without one, there is only a name.
func cutDomain(key string) (domain, name string) {
	if domain, name, cut := strings.Cut(key, "/"); cut {
		return domain, name
	}
	return "", key
}

// An ingressController is one of Ingresses, known by a prefix that only it reads. Alibaba's shares that of AWS.
type ingressController struct {
	title   string
	classes []string // the usual ones
	prefix  string
}

var ingressControllers = []ingressController{
	{"the AWS Load Balancer Controller", []string{"alb"}, "alb.ingress.kubernetes.io/"},
	{"the Application Gateway Ingress Controller", []string{"azure-application-gateway", "azure/application-gateway"}, "appgw.ingress.kubernetes.io/"},
	{"Cilium", []string{classCilium}, "ingress.cilium.io/"},
	{"the Ingress controller of GKE", []string{"gce", "gce-internal", "gce-regional-external"}, "ingress.gcp.kubernetes.io/"},
	{"HAProxy", []string{"haproxy"}, "haproxy.org/"},
	{"ingress-nginx", []string{"nginx"}, "nginx.ingress.kubernetes.io/"},
	{"Kong", []string{"kong"}, "konghq.com/"},
	{"TKE", []string{"qcloud"}, "ingress.cloud.tencent.com/"},
	{"Traefik", []string{"traefik"}, "traefik.ingress.kubernetes.io/"},
}

const (
	ingressClassKey = "kubernetes.io/ingress.class"
	// classCilium is that of Ingresses whose annotations Cilium copies to a Service, if their prefix is configured.
	classCilium = "cilium"
)

// misplaced returns warnings about keys that controllers read on objects of other kinds or classes only. An Ingress without a
// class may have any controller.
func (r Reviewer) misplaced(set catalog.Set, o *corev1.Service) []finding.Finding {
	class, elsewhere := "", r.kinds
	if r.ofOthers {
		class, elsewhere = o.Annotations[ingressClassKey], r.services
		if o.Spec.LoadBalancerClass != nil {
			class = *o.Spec.LoadBalancerClass
		}
	}
	if r.ofOthers && class == "" || !r.ofOthers && len(elsewhere) == 0 {
		return nil
	}
	var findings []finding.Finding
	for key, value := range o.Annotations {
		where := readByClass(class, key)
		if where == "" && class != classCilium && !set.Reads(key) {
			where = readByKind(set.Library(), elsewhere, key, !r.ofOthers)
		}
		if where != "" && len(findings) < maxStrays {
			findings = append(findings, finding.Finding{
				ID: IDOtherKind, Check: IDOtherKind, Severity: finding.Warning, Field: catalog.Path(key), Value: value,
				Message: "has no effect here: " + where, Remedy: "remove it, or move it there",
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

// readByClass returns on which Ingresses a key has an effect, if the class is usually that of a different controller; empty
// otherwise.
func readByClass(class, key string) string {
	of := func(c ingressController) bool { return slices.Contains(c.classes, class) }
	i := slices.IndexFunc(ingressControllers, func(c ingressController) bool { return strings.HasPrefix(key, c.prefix) })
	if i < 0 || of(ingressControllers[i]) || !slices.ContainsFunc(ingressControllers, of) {
		return ""
	}
	return ingressControllers[i].title + " reads it on Ingresses of class " + ingressControllers[i].classes[0]
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
		if own && !owned || !own && !set.OnlyOfLoadBalancers(key) || len(findings) == maxStrays {
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
		return !set.ReadsOnAnyType(strings.TrimSuffix(strings.TrimPrefix(f.Field, "metadata.annotations["), "]"))
	})
}

func asLoadBalancer(svc *corev1.Service) *corev1.Service {
	would := *svc
	would.Spec.Type = corev1.ServiceTypeLoadBalancer
	return &would
}
