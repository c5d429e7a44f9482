package dlb

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/rules/loadbalancer"
)

// longestOriginal limits how much of a record an adopted load balancer may take, in bytes. The API server limits all
// annotations of an object to 256 KiB.
const longestOriginal = 96 << 10

// record is what a Service records of its load balancer, in the annotation service.AnnotationRecord. It outlives this
// program: fields must keep their names. Users can edit it, so nothing in it is proof: an ID is followed only to a load
// balancer with the Service's tags, and Original must have the hash that the load balancer's tag has.
type record struct {
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
	Applied applied `json:"applied,omitzero"`
	// Service is the fingerprint of the Service that the load balancer is configured for; empty from the moment at which it
	// is written until it is configured. What differs from an unchanged Service is drift.
	Service string `json:"service,omitempty"`
	// Deleting is true after the cloud has accepted the deletion.
	Deleting bool `json:"deleting,omitempty"`
	// Original is an adopted load balancer as its owner offered it: its LoadBalancerSpec, compressed.
	Original string `json:"original,omitempty"`
}

// applied has the optional settings that a Service has made. Others stay as they are.
type applied struct {
	Flavor string   `json:"flavor,omitempty"`
	Zones  []string `json:"zones,omitempty"`
	// Tags has the keys.
	Tags []string `json:"tags,omitempty"`
}

func appliedOf(d *loadbalancer.Desired) applied {
	return applied{Flavor: d.Flavor, Zones: d.Zones, Tags: slices.Sorted(maps.Keys(d.Tags))}
}

// recordOf returns the record of a Service, which is empty if there is none or if it cannot be read.
func recordOf(svc *corev1.Service) record {
	var r record
	if json.Unmarshal([]byte(svc.Annotations[service.AnnotationRecord]), &r) != nil {
		return record{}
	}
	return r
}

// encode returns the value of the annotation, empty for an empty record.
func (r *record) encode() string {
	if r.ID == "" {
		return ""
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return "" // a struct of strings can be encoded
	}
	return string(raw)
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
	return shortHash(raw)
}

func shortHash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// specOf returns a load balancer as it is, without what the cloud only observes.
func specOf(lb *cloudv1.LoadBalancer) cloudv1.LoadBalancerSpec {
	spec := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	spec.Pools = slices.Clone(lb.Pools)
	for i := range spec.Pools {
		spec.Pools[i].Members = slices.Clone(spec.Pools[i].Members)
		for j := range spec.Pools[i].Members {
			spec.Pools[i].Members[j].OperatingState = ""
		}
	}
	return spec
}

// original returns a load balancer in a form to record, and its hash.
func original(lb *cloudv1.LoadBalancer) (text, hash string, err error) {
	raw, err := json.Marshal(specOf(lb))
	if err != nil {
		return "", "", fmt.Errorf("encode load balancer %s: %w", lb.ID, err)
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err = w.Write(raw); err == nil {
		err = w.Close()
	}
	if err != nil {
		return "", "", fmt.Errorf("compress load balancer %s: %w", lb.ID, err)
	}
	return base64.StdEncoding.EncodeToString(compressed.Bytes()), shortHash(raw), nil
}

var errNotOriginal = errors.New("the recorded original of the load balancer was changed")

// originalSpec returns the recorded original, if it has the hash.
func (r *record) originalSpec(hash string) (cloudv1.LoadBalancerSpec, error) {
	var spec cloudv1.LoadBalancerSpec
	compressed, err := base64.StdEncoding.DecodeString(r.Original)
	if err != nil {
		return spec, fmt.Errorf("decode the recorded original: %w", err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return spec, fmt.Errorf("decode the recorded original: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(reader, 16<<20))
	if err != nil {
		return spec, fmt.Errorf("decode the recorded original: %w", err)
	}
	if shortHash(raw) != hash {
		return spec, errNotOriginal
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return spec, fmt.Errorf("decode the recorded original: %w", err)
	}
	return spec, nil
}
