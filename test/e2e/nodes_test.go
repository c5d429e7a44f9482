package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	// ofCloud begins the provider IDs of the cloud's machines.
	ofCloud = "mycloud://"
)

func (c *cluster) nodes(t *testing.T) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := json.Unmarshal([]byte(c.must(t, "get", "nodes", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// uninitialize makes sure that every Node has the taint of kubelets that wait for the cloud: a Node of an earlier test has
// lost it, and would prove nothing.
func (c *cluster) uninitialize(t *testing.T) {
	t.Helper()
	nodes := c.nodes(t)
	if len(nodes) == 0 {
		t.Fatal("the cluster has no Nodes")
	}
	for i := range nodes {
		if !hasTaint(&nodes[i]) {
			t.Logf("Node %s is initialized; it gets the taint again", nodes[i].Name)
			c.must(t, "taint", "node", nodes[i].Name, uninitialized+"=true:NoSchedule")
		}
	}
}

// initialized returns why a Node is not initialized by the cloud; empty if it is.
func initialized(node *corev1.Node) string {
	address := func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP }
	switch {
	case hasTaint(node):
		return "has the taint " + uninitialized
	case !strings.HasPrefix(node.Spec.ProviderID, ofCloud):
		return fmt.Sprintf("has the provider ID %q, not one of the cloud", node.Spec.ProviderID)
	case node.Labels[corev1.LabelTopologyZone] == "":
		return "has no zone"
	case !slices.ContainsFunc(node.Status.Addresses, address):
		return "has no internal address"
	}
	return ""
}

func hasTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized })
}

// A Node without the taint is only initialized if the cloud has set what it knows.
func TestInitialized(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: "zone-a"}},
			Spec:       corev1.NodeSpec{ProviderID: "mycloud://i-1"},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}},
		}
		change(n)
		return n
	}
	for want, n := range map[string]*corev1.Node{
		"":                            node(func(*corev1.Node) {}),
		"has the taint":               node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: uninitialized}} }),
		`has the provider ID ""`:      node(func(n *corev1.Node) { n.Spec.ProviderID = "" }),
		`has the provider ID "aws://`: node(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///i-1" }),
		"has no zone":                 node(func(n *corev1.Node) { n.Labels = nil }),
		"has no internal address":     node(func(n *corev1.Node) { n.Status.Addresses = nil }),
	} {
		if got := initialized(n); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
