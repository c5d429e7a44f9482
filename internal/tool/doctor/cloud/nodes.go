package cloud

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"quaymaster.dev/internal/tool/doctor"
)

// initialization is how long the initialization of a new Node may take before it is reported.
const initialization = time.Minute

const (
	remedyUninitialized = "first correct the checks that fail above; then the cloud must have an instance with the " +
		"provider ID of the Node or, if it has none, exactly one with its name as hostname: correct the instance, or the " +
		"flags --provider-id and --hostname-override of the kubelet"
	remedyDown = "start the machines of these Nodes, or look at the logs of their kubelets; if a machine is gone for good, " +
		"delete its Node"
	remedyUnknown = "if it is a machine of this cloud, delete the Node and restart its kubelet with " +
		"--cloud-provider=external"
)

// Nodes checks that the controllers have initialized all Nodes, and can know their machines.
func (c *Checks) Nodes(ctx context.Context) doctor.Result {
	if c.Config == nil {
		return doctor.Skipped("%s", c.NoConfig)
	}
	count := 0
	held := doctor.LastEvents(ctx, c.API, metav1.NamespaceDefault, fields.Set{"reason": "DeletionHeld"})
	var waiting, down, unknown []string
	err := doctor.Each(ctx, metav1.ListOptions{}, c.API.CoreV1().Nodes().List, func(node *corev1.Node) {
		count++
		machine, known := c.machine(node)
		age := c.Now().Sub(node.CreationTimestamp.Time).Round(time.Second)
		switch uninitialized := slices.ContainsFunc(node.Spec.Taints, isCloudTaint); {
		case uninitialized && age > initialization:
			waiting = append(waiting, fmt.Sprintf("%s since %s: %s", node.Name, age, machine))
		case !uninitialized && !known:
			unknown = append(unknown, node.Name+": "+machine)
		case !uninitialized:
			if what := c.fails(node, held); what != "" {
				down = append(down, node.Name+": "+what)
			}
		}
	})
	if err != nil {
		return doctor.Unread("Nodes", err)
	}
	switch {
	case len(waiting) > 0:
		return doctor.Failed(remedyUninitialized, "%d of %d Nodes have the taint %s, so ordinary pods cannot run there", len(waiting),
			count, cloudproviderapi.TaintExternalCloudProvider).With(waiting, down, unknown)
	case len(down) > 0:
		return doctor.Warned(remedyDown, "%d of %d Nodes are initialized but do not run", len(down), count).With(down, unknown)
	case len(unknown) > 0:
		return doctor.Warned(remedyUnknown, "%d of %d Nodes have no machine in the cloud, so load balancers do not use them",
			len(unknown), count).With(waiting, unknown)
	}
	return doctor.Passed("%s initialized", doctor.All(count, "Node", "Nodes"))
}

func isCloudTaint(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider }

// fails returns why a Node does not run, as the controllers or its kubelet have recorded it; empty if it runs.
func (c *Checks) fails(node *corev1.Node, held map[types.UID]*corev1.Event) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady || condition.Status == corev1.ConditionTrue {
			continue
		}
		cause := condition.Message
		if event := held[node.UID]; event != nil {
			cause = event.Message
		} else if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintNodeShutdown }) {
			cause = "its instance is stopped"
		}
		return fmt.Sprintf("not ready for %s: %s", c.Now().Sub(condition.LastTransitionTime.Time).Round(time.Second), cause)
	}
	return ""
}

// machine describes how the cloud finds the machine of a Node. known is true if it has a provider ID of the cloud.
func (c *Checks) machine(node *corev1.Node) (text string, known bool) {
	id := node.Spec.ProviderID
	if id == "" {
		return "it has no provider ID", false
	}
	if _, err := c.InstanceID(id); err != nil {
		return err.Error(), false
	}
	return "its provider ID is " + id, true
}
