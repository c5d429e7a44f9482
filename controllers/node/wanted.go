package node

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	cloudnode "k8s.io/cloud-provider/node/helpers"

	"quaymaster.dev/controllers/machine"
)

// uninitialized reports whether the Node has the taint with which kubelets register.
func uninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, isCloudTaint)
}

func isCloudTaint(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider }

// initialized returns the Node with provider ID and labels of its machine, and without the taint. Labels are written
// once: they are never changed later.
func initialized(node *corev1.Node, m *machine.Machine) (*corev1.Node, error) {
	if _, err := addresses(node, m); err != nil {
		return nil, err
	}
	node = node.DeepCopy()
	if node.Spec.ProviderID == "" {
		node.Spec.ProviderID = m.ProviderID
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for _, l := range []struct{ beta, stable, value string }{
		{corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, m.Type},
		{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone, m.Zone},
		{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion, m.Region},
	} {
		if l.value != "" {
			node.Labels[l.beta], node.Labels[l.stable] = l.value, l.value
		}
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isCloudTaint)
	return node, nil
}

// missingLabels returns the stable labels that differ from the beta labels, which have priority, as in the controller
// that this one replaces.
func missingLabels(node *corev1.Node) map[string]string {
	missing := map[string]string{}
	for beta, stable := range map[string]string{
		corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
		corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
		corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	} {
		if value, ok := node.Labels[beta]; ok && node.Labels[stable] != value {
			missing[stable] = value
		}
	}
	return missing
}

// addresses returns the addresses of the machine in the order for the Node, or none if the cloud does not know any. The
// kubelet's choice of an address (--node-ip) has priority; without a hostname of the cloud, the kubelet's stays.
func addresses(node *corev1.Node, m *machine.Machine) ([]corev1.NodeAddress, error) {
	if len(m.Addresses) == 0 {
		return nil, nil
	}
	isName := func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeHostName }
	list := slices.Clone(m.Addresses)
	if !slices.ContainsFunc(list, isName) {
		for _, a := range node.Status.Addresses {
			if isName(a) {
				list = append(list, a)
			}
		}
	}
	provided, ok := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	if !ok {
		return list, nil
	}
	list, err := cloudnode.GetNodeAddressesFromNodeIP(provided, list)
	if err != nil {
		return nil, fmt.Errorf("provided node ip for node %q is not valid: %w", node.Name, err)
	}
	return list, nil
}
