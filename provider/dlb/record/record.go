// Package record keeps what a Service records of its load balancer, in an annotation.
package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/dlb/tree"
)

// AnnotationAbandon is the annotation of a Service that gives up the load balancer with the ID that is its value: the
// Service gets another one, with another address, or is deleted without it.
const AnnotationAbandon = "quaymaster.dev/abandon-load-balancer"

// HowToAbandon returns how the user of a Service gives up the load balancer with a name. A value of the annotation that names
// something else has no effect.
func HowToAbandon(svc *corev1.Service, name string) string {
	text := "set the annotation " + AnnotationAbandon + " to " + name
	if given, set := svc.Annotations[AnnotationAbandon]; set && given != name {
		text += fmt.Sprintf(", not %q", given)
	}
	return text
}

// Record is what a Service records of its load balancer, in the annotation service.AnnotationRecord. It outlives this
// program: fields must keep their names. Users can edit it, so nothing in it is proof: an ID is followed only to a load
// balancer with the Service's tags, and Original must have the hash that the load balancer's tag has.
type Record struct {
	// ID is the load balancer's. Nothing is created in its place before the cloud has confirmed that it is absent.
	ID string `json:"id"`
	// Owner is the UID of the Service for which the ID was recorded; empty in the records of earlier versions. Copies of the
	// Service have another UID.
	Owner string `json:"owner,omitempty"`
	// Addresses are those that were published.
	Addresses []string `json:"addresses,omitempty"`
	// NodeGroup is the group of the pools. It is the witness that a cloud without the load balancer is the same cloud.
	NodeGroup string `json:"nodeGroup,omitempty"`
	// Applied is what the Service has set on the load balancer, and resets when it no longer asks for it.
	Applied tree.Applied `json:"applied,omitzero"`
	// Service is the fingerprint of the Service that the load balancer is configured for; empty from the moment at which it
	// is written until it is configured. What differs from an unchanged Service is drift.
	Service string `json:"service,omitempty"`
	// Deleting is true after the cloud has accepted the deletion.
	Deleting bool `json:"deleting,omitempty"`
	// Original is an adopted load balancer as its owner offered it: its LoadBalancerSpec, compressed.
	Original string `json:"original,omitempty"`
}

// Of returns the record of a Service, which is empty if there is none or if it cannot be read.
func Of(svc *corev1.Service) *Record {
	r := &Record{}
	if json.Unmarshal([]byte(svc.Annotations[service.AnnotationRecord]), r) != nil {
		return &Record{}
	}
	return r
}

// Migrated returns the value of the annotation for a load balancer that was another Service's. If the Service was restored
// with the record of that one, what it says about the load balancer still holds.
func Migrated(svc *corev1.Service, lb *cloudv1.LoadBalancer) string {
	r := Of(svc)
	if r.ID != lb.ID {
		r = &Record{ID: lb.ID}
	}
	// The Service is not known to be configured as it is.
	r.Owner, r.Service, r.Deleting, r.Addresses, r.NodeGroup = string(svc.UID), "", false, lb.Addresses(), ""
	if len(lb.Pools) > 0 {
		r.NodeGroup = lb.Pools[0].NodeGroupID
	}
	return r.Encode()
}

// Encode returns the value of the annotation, empty for an empty record.
func (r *Record) Encode() string {
	if r.ID == "" {
		return ""
	}
	raw, _ := json.Marshal(r) // a struct of strings can be encoded
	return string(raw)
}

// Handle identifies the load balancer for users: its ID, or an address that the Service publishes if there is no record.
func (r *Record) Handle(svc *corev1.Service) string {
	if published := svc.Status.LoadBalancer.Ingress; r.ID == "" && len(published) > 0 {
		return cmp.Or(published[0].IP, published[0].Hostname)
	}
	return r.ID
}

// Abandoned reports whether the user of a Service has given up its load balancer and the address.
func Abandoned(svc *corev1.Service) bool {
	given := svc.Annotations[AnnotationAbandon]
	return given != "" && given == Of(svc).Handle(svc)
}

// Configured records that the load balancer is what the Service asks for.
func (r *Record) Configured(svc *corev1.Service) { r.Service = fingerprint(svc) }

// Settled reports whether the load balancer was once what the Service asks for, and the Service has not changed since: if
// the load balancer differs now, it is not because of the Service.
func (r *Record) Settled(svc *corev1.Service) bool {
	return r.Service != "" && r.Service == fingerprint(svc)
}

// fingerprint identifies what a Service asks for, apart from policies.
func fingerprint(svc *corev1.Service) string {
	own := map[string]string{}
	for key, value := range svc.Annotations {
		if strings.HasPrefix(key, loadbalancer.Prefix) {
			own[key] = value
		}
	}
	raw, err := json.Marshal([]any{own, svc.Spec})
	if err != nil {
		return ""
	}
	return Hash(raw)
}

// Hash identifies data in few characters.
func Hash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
