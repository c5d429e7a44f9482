// Package ownership says which objects of the cloud belong to this cluster, and makes what it creates recognisable as its
// own after a crash. Names are for people: an object is ours by its tags alone.
package ownership

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The tags of our objects. Objects in the cloud bear them: they must not change.
const (
	// Prefix is that of every tag of ours. Users cannot set such tags.
	Prefix = "quaymaster.dev/"
	// ClusterUID is the UID of the cluster's kube-system namespace.
	ClusterUID = Prefix + "cluster-uid"
	// ServiceUID is the UID of the Service that a load balancer belongs to.
	ServiceUID = Prefix + "service-uid"
	// IngressGroup is the name of a node group in annotations.
	IngressGroup = Prefix + "ingress-group"
	// Adopt, set on a load balancer by its owner to <cluster-uid>/<namespace>/<name>, offers it to that Service.
	Adopt = Prefix + "adopt"
)

// Cluster knows who this cluster is.
type Cluster struct {
	namespaces typedcorev1.NamespacesGetter

	mu  sync.Mutex
	uid string
}

// NewCluster identifies the cluster that the client speaks to, when asked for the first time.
func NewCluster(namespaces typedcorev1.NamespacesGetter) *Cluster {
	return &Cluster{namespaces: namespaces}
}

// UID is the UID of the cluster's kube-system namespace. It is read once.
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

// Tags are those that every object of the cluster bears.
func (c *Cluster) Tags(ctx context.Context) (map[string]string, error) {
	uid, err := c.UID(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{ClusterUID: uid}, nil
}

// ServiceTags are those that a Service's load balancer bears.
func (c *Cluster) ServiceTags(ctx context.Context, svc *corev1.Service) (map[string]string, error) {
	tags, err := c.Tags(ctx)
	if err != nil {
		return nil, err
	}
	tags[ServiceUID] = string(svc.UID)
	return tags, nil
}

// Bears tells whether an object's tags include those wanted.
func Bears(tags, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := tags[key]; !ok || got != value {
			return false
		}
	}
	return true
}
