package service

import (
	"context"
	"encoding/hex"
	"hash/maphash"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/stream"
)

const (
	// mostListed is how many elements of a list are decoded; the others are counted. A Service with more ports, source
	// ranges or external IPs is refused, as package review says, and the API server refuses one with more of the others.
	mostListed = review.MaxListed + 1
	// mostSelected is how many labels of a selector are decoded. Only whether there are any matters.
	mostSelected = 1000
	// maxListBytes bounds the memory that a list needs. Of the Services that etcd stores, none needs as much.
	maxListBytes = 8 << 20
)

// admitter returns an Admitter of Services.
func admitter(admit func(context.Context, *webhook.Request) (*admissionv1.AdmissionResponse, error)) webhook.Admitter {
	return webhook.Admitter{
		Resource: corev1.SchemeGroupVersion.WithResource("services"), Kind: "Service",
		Decodable: func() webhook.Decodable { return &decodable{} }, Admit: admit,
	}
}

// decodable has the fields of a Service that admission uses. A test compares them with what the code refers to.
type decodable struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		webhook.Metadata
		Annotations stream.Annotations `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Type                          corev1.ServiceType                   `json:"type"`
		Ports                         list[corev1.ServicePort]             `json:"ports"`
		Selector                      selector                             `json:"selector"`
		ClusterIPs                    list[string]                         `json:"clusterIPs"`
		ExternalIPs                   list[string]                         `json:"externalIPs"`
		LoadBalancerIP                string                               `json:"loadBalancerIP"`
		LoadBalancerSourceRanges      list[string]                         `json:"loadBalancerSourceRanges"`
		LoadBalancerClass             *string                              `json:"loadBalancerClass"`
		AllocateLoadBalancerNodePorts *bool                                `json:"allocateLoadBalancerNodePorts"`
		IPFamilies                    list[corev1.IPFamily]                `json:"ipFamilies"`
		IPFamilyPolicy                *corev1.IPFamilyPolicy               `json:"ipFamilyPolicy"`
		ExternalTrafficPolicy         corev1.ServiceExternalTrafficPolicy  `json:"externalTrafficPolicy"`
		InternalTrafficPolicy         *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy"`
		SessionAffinity               corev1.ServiceAffinity               `json:"sessionAffinity"`
		SessionAffinityConfig         *corev1.SessionAffinityConfig        `json:"sessionAffinityConfig"`
	} `json:"spec"`
	Status struct {
		LoadBalancer struct {
			// Ingress matters only in number.
			Ingress list[struct{}] `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

// Object returns the Service.
func (d *decodable) Object() webhook.Object {
	spec := &d.Spec
	svc := &corev1.Service{TypeMeta: d.TypeMeta, ObjectMeta: d.Metadata.ObjectMeta(), Spec: corev1.ServiceSpec{
		Type: spec.Type, Ports: spec.Ports, Selector: spec.Selector, ClusterIPs: spec.ClusterIPs,
		ExternalIPs: spec.ExternalIPs, LoadBalancerIP: spec.LoadBalancerIP,
		LoadBalancerSourceRanges: spec.LoadBalancerSourceRanges, LoadBalancerClass: spec.LoadBalancerClass,
		AllocateLoadBalancerNodePorts: spec.AllocateLoadBalancerNodePorts, IPFamilies: spec.IPFamilies,
		IPFamilyPolicy: spec.IPFamilyPolicy, ExternalTrafficPolicy: spec.ExternalTrafficPolicy,
		InternalTrafficPolicy: spec.InternalTrafficPolicy, SessionAffinity: spec.SessionAffinity,
		SessionAffinityConfig: spec.SessionAffinityConfig,
	}}
	svc.Annotations = d.Metadata.Annotations
	if ingress := d.Status.LoadBalancer.Ingress; ingress != nil {
		svc.Status.LoadBalancer.Ingress = make([]corev1.LoadBalancerIngress, len(ingress))
	}
	return svc
}

type selector map[string]string

// UnmarshalJSONFrom decodes the selector.
func (s *selector) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return stream.Strings(d, (*map[string]string)(s), func(string) bool { return len(*s) < mostSelected })
}

// list is an array of which only mostListed elements are decoded. The others are empty except for the last one, which has
// a hash of them, so that different lists stay different.
type list[T any] []T

// seed makes hashes comparable.
var seed = maphash.MakeSeed()

// UnmarshalJSONFrom decodes the array. If a name occurs twice, elements of the second array start as those of the first,
// as in encoding/json.
func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '[' {
		return json.UnmarshalDecode(d, (*[]T)(l))
	}
	if *l == nil {
		*l = make(list[T], 0, 2) // most have no more
	}
	elements, surplus, size := (*l)[:0], 0, max(16, int(reflect.TypeFor[T]().Size()))
	var hash maphash.Hash
	hash.SetSeed(seed)
	_, err := d.ReadToken()
	for start := d.InputOffset(); err == nil && d.PeekKind() != ']'; {
		switch n := len(elements); {
		case (n+surplus)*size > maxListBytes || n < mostListed && d.InputOffset()-start > maxListBytes:
			return stream.Limit(d, "must need at most %d bytes of memory", maxListBytes)
		case n == mostListed:
			var value jsontext.Value
			value, err = d.ReadValue()
			_, _ = hash.Write(value)
			surplus++
		default:
			if n < cap(elements) {
				elements = elements[:n+1]
			} else {
				elements = append(elements, *new(T))
			}
			err = json.UnmarshalDecode(d, &elements[n])
		}
	}
	if err != nil {
		return err
	}
	if surplus > 0 {
		elements = append(elements, make([]T, surplus)...)
		switch last := any(&elements[len(elements)-1]).(type) {
		case *corev1.ServicePort:
			last.Name = hex.EncodeToString(hash.Sum(nil))
		case *string:
			*last = hex.EncodeToString(hash.Sum(nil))
		}
	}
	if len(elements) == 0 {
		elements = list[T]{}
	}
	*l = elements
	_, err = d.ReadToken()
	return err
}
