package loadbalancer

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"quaymaster.dev/internal/rules/annotation"
)

// Catalog is the name of the catalog that describes the annotations of the DLB.
const Catalog = "mycloud"

// Prefix begins every annotation key of the DLB. Services in clusters contain it: it must not change.
const Prefix = "service.beta.kubernetes.io/dlb-"

// Desired is the load balancer that a Service specifies, except for values that only the cloud or the cluster knows:
// the name, the tags of ownership, the id of the node group.
//
// A field with a key tag holds the value of the annotation with that name and Prefix, which the catalog describes.
type Desired struct {
	NetworkType        string            `key:"network-type"`
	SubnetID           string            `key:"subnet-id"`
	Zones              []string          `key:"zones"`
	Flavor             string            `key:"flavor"`
	BandwidthMbps      int               `key:"bandwidth-mbps"`
	IngressGroup       string            `key:"ingress-group"`
	DrainTimeout       time.Duration     `key:"drain-timeout"`
	Tags               map[string]string `key:"tags"`
	DeletionProtection bool              `key:"deletion-protection"`
	RetainOnDelete     bool              `key:"retain-on-delete"`
	AdoptID            string            `key:"load-balancer-id"`
	Hostname           string            `key:"hostname"`
	IPMode             string            `key:"ip-mode"`

	// AllowedSources limits the addresses of clients; empty allows all.
	AllowedSources []netip.Prefix
	// Families are ipv4, ipv6 or both, in the order of the Service.
	Families []string
	// Listeners are in the order of the Service's ports.
	Listeners []Listener
}

// Listener is one port of the load balancer with its backends. Its annotations have a form for ports.
type Listener struct {
	// Transport is tcp or udp, as in the Service's port.
	Transport string
	// Port is the listening port, NodePort the backends' port (0 if the API server has not allocated it yet, or
	// will not).
	Port, NodePort int32

	Protocol       string        `key:"listener-protocol"`
	MaxQPS         int           `key:"listener-maxqps"`
	MaxConnections int           `key:"listener-maxconn"`
	IdleTimeout    time.Duration `key:"listener-idle-timeout"`
	CertificateID  string        `key:"listener-tls-certificate-id"`
	ProxyProtocol  string        `key:"listener-proxy-protocol"`
	Scheduler      string        `key:"scheduler"`

	// AffinityTimeout is how long a client stays on one backend after its last connection (sessionAffinity: ClientIP);
	// 0 disables affinity.
	AffinityTimeout time.Duration
	HealthCheck     HealthCheck
}

// HealthCheck probes the backends of a listener.
type HealthCheck struct {
	// Port is 0 for the listener's NodePort.
	Port int32

	Protocol string `key:"health-check-protocol"`
	// Path and ExpectedCodes are empty for a tcp check.
	Path          string        `key:"health-check-path"`
	ExpectedCodes []string      `key:"health-check-expected-codes"`
	Interval      time.Duration `key:"health-check-interval"`
	Timeout       time.Duration `key:"health-check-timeout"`
	// Healthy and Unhealthy are the numbers of consecutive probes that change a backend's state.
	Healthy   int `key:"health-check-healthy-threshold"`
	Unhealthy int `key:"health-check-unhealthy-threshold"`
}

// Key returns the listener's identity, such as tcp/443.
func (l Listener) Key() string { return l.Transport + "/" + strconv.Itoa(int(l.Port)) }

// field is a field with a key tag.
type field struct {
	// key is the whole annotation key.
	key   string
	index []int
}

// fields returns the fields of Desired and of Listener, in the order of the source.
var fields = sync.OnceValue(func() (all struct{ service, listener []field }) {
	all.service, all.listener = fieldsOf(reflect.TypeFor[Desired](), nil), fieldsOf(reflect.TypeFor[Listener](), nil)
	return all
})

func fieldsOf(t reflect.Type, at []int) []field {
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(at), i)
		if name, ok := f.Tag.Lookup("key"); ok {
			all = append(all, field{key: Prefix + name, index: index})
		} else if f.Type.Kind() == reflect.Struct {
			all = append(all, fieldsOf(f.Type, index)...)
		}
	}
	return all
}

// set copies a value into the field of the struct that target points to. An empty value changes nothing.
func (f field) set(target any, v annotation.Value) {
	if v.List == nil && v.Map == nil {
		return
	}
	to := reflect.ValueOf(target).Elem().FieldByIndex(f.index)
	switch to.Interface().(type) {
	case string:
		to.SetString(v.Text)
	case bool:
		to.SetBool(v.Text == "true")
	case int:
		to.SetInt(int64(v.Number))
	case time.Duration:
		to.SetInt(int64(v.Duration()))
	case []string:
		to.Set(reflect.ValueOf(slices.Clone(v.List)))
	case map[string]string:
		to.Set(reflect.ValueOf(maps.Clone(v.Map)))
	default:
		panic(fmt.Sprintf("%s: fields of type %s are not supported", f.key, to.Type()))
	}
}

// equal reports whether two structs have the same value in the field.
func (f field) equal(a, b any) bool {
	value := func(v any) any { return reflect.ValueOf(v).Elem().FieldByIndex(f.index).Interface() }
	return reflect.DeepEqual(value(a), value(b))
}
