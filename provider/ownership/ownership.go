// Package ownership identifies the cloud's objects that belong to this cluster, and creates objects so that they are
// found again after a crash. Only tags identify an object as ours; names are for human readers.
package ownership

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The tags of our objects. They are stored in the cloud and must not change.
const (
	// Prefix is the prefix of all our tags. Users cannot set such tags.
	Prefix = "quaymaster.dev/"
	// ClusterUID is the UID of the cluster's kube-system namespace.
	ClusterUID = Prefix + "cluster-uid"
	// ServiceUID is the UID of the Service that a load balancer belongs to.
	ServiceUID = Prefix + "service-uid"
	// IngressGroup is the name of a node group, as annotations name it.
	IngressGroup = Prefix + "ingress-group"
	// Adopt offers a load balancer to a Service. The load balancer's owner sets it to <cluster-uid>/<namespace>/<name>.
	Adopt = Prefix + "adopt"
	// Original is the hash of an adopted load balancer as its owner offered it.
	Original = Prefix + "original"
	// Protected marks deletion protection that a Service has switched on. Any other is its owner's.
	Protected = Prefix + "protected"
)

// Cluster identifies this cluster.
type Cluster struct {
	namespaces typedcorev1.NamespacesGetter

	mu  sync.Mutex
	uid string
}

// NewCluster returns the Cluster of the client. It does no I/O: the first call that needs the UID reads it.
func NewCluster(namespaces typedcorev1.NamespacesGetter) *Cluster {
	return &Cluster{namespaces: namespaces}
}

// UID returns the UID of the cluster's kube-system namespace, which it reads once.
func (c *Cluster) UID(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uid == "" {
		ns, err := c.namespaces.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("identify the cluster: %w", err)
		}
		c.uid = string(ns.UID)
	}
	return c.uid, nil
}

// Tags returns the tags of every object of the cluster.
func (c *Cluster) Tags(ctx context.Context) (map[string]string, error) {
	uid, err := c.UID(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{ClusterUID: uid}, nil
}

// ServiceTags returns the tags of a Service's load balancer.
func (c *Cluster) ServiceTags(ctx context.Context, svc *corev1.Service) (map[string]string, error) {
	tags, err := c.Tags(ctx)
	if err != nil {
		return nil, err
	}
	tags[ServiceUID] = string(svc.UID)
	return tags, nil
}

// Adopted reports whether a load balancer with these tags is its owner's, and a Service has adopted it. The owner may
// withdraw the offer afterwards.
func Adopted(tags map[string]string) bool {
	_, offered := tags[Adopt]
	_, original := tags[Original]
	return offered || original
}

// Bears reports whether an object's tags include those wanted.
func Bears(tags, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := tags[key]; !ok || got != value {
			return false
		}
	}
	return true
}
