package ingressnode

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// taintScaledDown is the taint that the cluster autoscaler sets on a Node before it deletes the machine.
const taintScaledDown = "ToBeDeletedByClusterAutoscaler"

// readiness is the status of the condition Ready. Its zero value means that the Node's kubelet does not report.
type readiness int

const (
	unreported readiness = iota
	ready
	notReady
)

// observed holds everything of a Node that membership depends on.
type observed struct {
	annotation string
	annotated  bool
	excluded   bool
	readiness  readiness
	// draining is true if the Node is about to leave: it is being deleted or scaled down.
	draining   bool
	cordoned   bool
	providerID string
	addresses  []string
	zone       string
}

func observe(node *corev1.Node) observed {
	o := observed{
		draining:   node.DeletionTimestamp != nil,
		cordoned:   node.Spec.Unschedulable,
		providerID: node.Spec.ProviderID,
		zone:       node.Labels[corev1.LabelTopologyZone],
		addresses:  internalAddresses(node.Status.Addresses),
	}
	o.annotation, o.annotated = node.Annotations[Annotation]
	_, o.excluded = node.Labels[corev1.LabelNodeExcludeBalancers]
	for _, taint := range node.Spec.Taints {
		o.draining = o.draining || taint.Key == taintScaledDown
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			o.readiness = readinessOf(condition.Status)
		}
	}
	return o
}

// readinessOf treats everything except True and False as missing information: the node controller writes Unknown when
// it has not heard from a kubelet, which may as well be a fault of the network between the two.
func readinessOf(status corev1.ConditionStatus) readiness {
	switch status {
	case corev1.ConditionTrue:
		return ready
	case corev1.ConditionFalse:
		return notReady
	default:
		return unreported
	}
}

// candidate returns the Node as decide takes it. instanceID parses provider IDs.
func (o observed) candidate(name string, instanceID func(providerID string) (string, error)) candidate {
	c := candidate{
		name: name, excluded: o.excluded, readiness: o.readiness, addresses: o.addresses, zone: o.zone,
	}
	if id, err := instanceID(o.providerID); err == nil {
		c.instanceID = id
	}
	return c
}

// internalAddresses returns the internal addresses in canonical form, so that spelling makes no difference.
func internalAddresses(all []corev1.NodeAddress) []string {
	var list []string
	for _, address := range all {
		if ip, err := netip.ParseAddr(address.Address); err == nil && address.Type == corev1.NodeInternalIP {
			list = append(list, ip.String())
		}
	}
	return list
}

// onePerFamily returns the first address of each family.
func onePerFamily(addresses []string) []string {
	var list []string
	seen := map[bool]bool{}
	for _, address := range addresses {
		ip, err := netip.ParseAddr(address)
		if err != nil || seen[ip.Is4()] {
			continue
		}
		seen[ip.Is4()] = true
		list = append(list, address)
	}
	return list
}
