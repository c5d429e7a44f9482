package route

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// observed holds everything of a Node that makes a difference to routes. Addresses do not appear in routes, but a
// change of them is a reason to repeat what has failed.
type observed struct {
	uid        types.UID
	providerID string
	podCIDRs   []string
	addresses  []corev1.NodeAddress
}

func observe(n *corev1.Node) observed {
	return observed{
		uid: n.UID, providerID: n.Spec.ProviderID, podCIDRs: n.Spec.PodCIDRs, addresses: n.Status.Addresses,
	}
}

// node is a Node as decide takes it.
type node struct {
	name    string
	created time.Time
	// instance is empty while the Node is not initialized.
	instance string
	// podCIDRs are those of the Node, in canonical form.
	podCIDRs []netip.Prefix
	// invalid is the problem of a pod CIDR that cannot be a destination.
	invalid string
}

// candidate returns the Node as decide takes it, or false for a Node of another cloud, which has no routes here. A pod CIDR
// outside clusterCIDRs gets no route: it could lead anything to the Node, up to what is meant for the default route.
func candidate(n *corev1.Node, instanceOf func(string) (string, bool), clusterCIDRs []netip.Prefix) (node, bool) {
	c := node{name: n.Name, created: n.CreationTimestamp.Time}
	if n.Spec.ProviderID != "" {
		instance, ours := instanceOf(n.Spec.ProviderID)
		if !ours {
			return node{}, false
		}
		c.instance = instance
	}
	for _, cidr := range n.Spec.PodCIDRs {
		prefix, err := netip.ParsePrefix(cidr)
		switch {
		case err != nil:
			c.invalid = fmt.Sprintf("pod CIDR %q is not a CIDR", cidr)
		case !within(prefix.Masked(), clusterCIDRs):
			c.invalid = fmt.Sprintf("pod CIDR %s is not within --cluster-cidr", prefix)
		case !slices.Contains(c.podCIDRs, prefix.Masked()):
			c.podCIDRs = append(c.podCIDRs, prefix.Masked())
		}
	}
	return c, true
}
