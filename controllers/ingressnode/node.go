package ingressnode

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// observed holds everything of a Node that membership depends on.
type observed struct {
	annotation string
	annotated  bool
	excluded   bool
	ready      bool
	leaving    bool
	providerID string
	addresses  []string
	zone       string
}

func observe(node *corev1.Node) observed {
	o := observed{
		leaving:    node.DeletionTimestamp != nil,
		providerID: node.Spec.ProviderID,
		zone:       node.Labels[corev1.LabelTopologyZone],
	}
	o.annotation, o.annotated = node.Annotations[Annotation]
	_, o.excluded = node.Labels[corev1.LabelNodeExcludeBalancers]
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			o.ready = condition.Status == corev1.ConditionTrue
		}
	}
	o.addresses = internalAddresses(node.Status.Addresses)
	return o
}

// candidate returns the Node as decide takes it. instanceID parses provider IDs.
func (o observed) candidate(name string, instanceID func(providerID string) (string, error)) candidate {
	c := candidate{name: name, excluded: o.excluded || o.leaving, ready: o.ready}
	if id, err := instanceID(o.providerID); err == nil && len(o.addresses) > 0 {
		c.member = &Member{InstanceID: id, Addresses: o.addresses, Zone: o.zone}
	}
	return c
}

// internalAddresses returns the first internal address of each family in canonical form, so that spelling makes no
// difference.
func internalAddresses(all []corev1.NodeAddress) []string {
	var list []string
	seen := map[bool]bool{}
	for _, address := range all {
		ip, err := netip.ParseAddr(address.Address)
		if err != nil || address.Type != corev1.NodeInternalIP || seen[ip.Is4()] {
			continue
		}
		seen[ip.Is4()] = true
		list = append(list, ip.String())
	}
	return list
}
