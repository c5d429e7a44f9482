package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// initialization is how long the initialization of a new Node may take before it is reported.
const initialization = time.Minute

const (
	remedyUninitialized = "first correct the checks that fail above; then the cloud must have an instance with the " +
		"provider ID of the Node or, if it has none, exactly one with its name as hostname: correct the instance, or the " +
		"flags --provider-id and --hostname-override of the kubelet"
	remedyUnknown = "if it is a machine of this cloud, delete the Node and restart its kubelet with " +
		"--cloud-provider=external"
)

// nodes checks that the controllers have initialized all Nodes, and can know their machines.
func (e *examination) nodes(ctx context.Context) Result {
	if e.config.config == nil {
		return skip("%s", e.config.missing)
	}
	count := 0
	var waiting, unknown []string
	err := each(ctx, metav1.ListOptions{}, e.API.CoreV1().Nodes().List, func(node *corev1.Node) {
		count++
		machine, known := e.machine(node)
		age := e.now().Sub(node.CreationTimestamp.Time).Round(time.Second)
		switch uninitialized := slices.ContainsFunc(node.Spec.Taints, isCloudTaint); {
		case uninitialized && age > initialization:
			waiting = append(waiting, fmt.Sprintf("%s since %s: %s", node.Name, age, machine))
		case !uninitialized && !known:
			unknown = append(unknown, node.Name+": "+machine)
		}
	})
	if err != nil {
		return unread("Nodes", err)
	}
	lines := slices.Concat(firstOf(waiting), firstOf(unknown))
	switch {
	case len(waiting) > 0:
		return fail(remedyUninitialized, "%d of %d Nodes have the taint %s, so ordinary pods cannot run there", len(waiting),
			count, cloudproviderapi.TaintExternalCloudProvider).with(lines)
	case len(unknown) > 0:
		return warn(remedyUnknown, "%d of %d Nodes have no machine in the cloud, so load balancers do not use them",
			len(unknown), count).with(lines)
	}
	return ok("all %d Nodes are initialized", count)
}

func isCloudTaint(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider }

// machine describes how the cloud finds the machine of a Node. known is true if it has a provider ID of the cloud.
func (e *examination) machine(node *corev1.Node) (text string, known bool) {
	id := node.Spec.ProviderID
	if id == "" {
		return "it has no provider ID", false
	}
	if _, err := e.InstanceID(id); err != nil {
		return err.Error(), false
	}
	return "its provider ID is " + id, true
}
