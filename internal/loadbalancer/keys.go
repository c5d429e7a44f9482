package loadbalancer

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
)

// Prefix begins every annotation key of the DLB. Services in clusters carry it: it must not change.
const Prefix = "service.beta.kubernetes.io/dlb-"

// Catalog is what the annotations of the DLB are called among those of other clouds.
const Catalog = "mycloud"

// The names of the keys that the code itself asks about; all others are only copied into Desired.
const (
	keyNetworkType   = "network-type"
	keyAdoptID       = "load-balancer-id"
	keyHostname      = "hostname"
	keyIPMode        = "ip-mode"
	keyProtocol      = "listener-protocol"
	keyMaxQPS        = "listener-maxqps"
	keyIdleTimeout   = "listener-idle-timeout"
	keyCertificate   = "listener-tls-certificate-id"
	keyProxyProtocol = "listener-proxy-protocol"
	keyScheduler     = "scheduler"
	keyCheckProtocol = "health-check-protocol"
	keyCheckPath     = "health-check-path"
	keyCheckCodes    = "health-check-expected-codes"
	keyCheckInterval = "health-check-interval"
	keyCheckTimeout  = "health-check-timeout"
)

// What a key needs to have an effect (annotation.Descriptor.Applies).
const (
	appliesTransport = "transport"  // must fit every governed port
	appliesHTTPS     = "https"      // https listeners
	appliesTCP       = "tcp"        // tcp listeners
	appliesPrivate   = "private"    // private load balancers
	appliesCheck     = "check"      // health checks that are not fixed
	appliesHTTPCheck = "http-check" // those of them that are http or https
)

// Options are what the cluster's administrator decides.
type Options struct {
	// Class is the loadBalancerClass that is ours besides none.
	Class string
	// Off says that no Service is ours: the catalog was not chosen.
	Off bool
}

// Owned tells whether the Service is a load balancer of ours.
func Owned(svc *corev1.Service, o Options) bool {
	if o.Off || svc == nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	return svc.Spec.LoadBalancerClass == nil || *svc.Spec.LoadBalancerClass == o.Class
}

// Reads tells whether an annotation may have an effect on a Service of ours.
func Reads(key string) bool {
	return strings.HasPrefix(key, Prefix) || key == corev1.AnnotationLoadBalancerSourceRangesKey
}

// Single tells whether only one Service can have a value of the key: a load balancer belongs to one, and a published name, which
// must not change unless the Service's author asks for it, leads to one.
func Single(d *annotation.Descriptor) bool {
	return d == known().byName[keyAdoptID] || d == known().byName[keyHostname]
}

// Defaults are the built-in values that admission writes into a Service of ours where it lacks them: those that its owner
// should see and may want to change. Every other default stays in Desired.
func Defaults(svc *corev1.Service, o Options) map[string]string {
	if !Owned(svc, o) {
		return nil
	}
	missing := map[string]string{}
	for _, name := range []string{keyMaxQPS, keyIdleTimeout} {
		d := known().byName[name]
		if _, set := svc.Annotations[d.Key]; !set {
			missing[d.Key] = d.Default
		}
	}
	return missing
}

// Keys describes every annotation of the DLB, in the order of the reference docs.
func Keys() []*annotation.Descriptor { return slices.Clone(known().all) }

// table is made once and never changes.
type table struct {
	all []*annotation.Descriptor
	// listener are the keys with a port form, whose values belong to listeners; service are the others.
	listener, service []*annotation.Descriptor
	byName            map[string]*annotation.Descriptor
	// candidates are what an unknown name may be meant for: names, and other words for them; meant tells the key of each.
	candidates []string
	meant      map[string]*annotation.Descriptor
	// defaults are the parsed values of the defaults that do not depend on the Service.
	defaults map[string]annotation.Value
}

var known = sync.OnceValue(func() *table {
	v := annotation.NewValidator()
	t := &table{
		service:  annotation.Describe(Prefix, Desired{}, false, v),
		listener: annotation.Describe(Prefix, Listener{}, true, v),
		byName:   map[string]*annotation.Descriptor{},
		meant:    map[string]*annotation.Descriptor{},
		defaults: map[string]annotation.Value{},
	}
	t.all = slices.Concat(t.listener, t.service)
	for _, d := range t.all {
		t.byName[d.Name] = d
		for _, name := range append([]string{d.Name}, d.Also...) {
			t.candidates = append(t.candidates, name)
			t.meant[name] = d
		}
		if d.Default == "" || d.Name == keyProtocol || d.Name == keyIPMode {
			continue
		}
		value, err := d.Parse(d.Default)
		if err != nil {
			panic("default of " + d.Key + " breaks its own rule: " + err.Error())
		}
		t.defaults[d.Name] = value
	}
	return t
})
