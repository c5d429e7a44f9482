package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"quaymaster.dev/test/harness/env"
)

// check waits until the demonstration does what the guide promises: Nodes are initialized, and the webhook denies an
// invalid Service.
func (d *demo) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodesLimit)
	defer cancel()
	if err := env.Poll(ctx, "initialized Nodes", d.nodesInitialized); err != nil {
		return err
	}
	return env.Poll(ctx, "the denial of an invalid Service", d.badServiceDenied)
}

func (d *demo) nodesInitialized(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := d.env.Client.List(ctx, &nodes); err != nil {
		return err
	}
	if len(nodes.Items) == 0 {
		return fmt.Errorf("no Nodes registered")
	}
	for i := range nodes.Items {
		if missing := uninitialized(&nodes.Items[i]); missing != "" {
			return fmt.Errorf("node %s lacks %s", nodes.Items[i].Name, missing)
		}
	}
	return nil
}

// uninitialized returns what a Node still lacks; empty if it is initialized.
func uninitialized(node *corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return "initialization by the controllers"
		}
	}
	switch {
	case node.Spec.ProviderID == "":
		return "a provider ID"
	case node.Spec.PodCIDR == "":
		return "a pod CIDR"
	case len(node.Status.Addresses) == 0:
		return "addresses"
	}
	if !ready(&node.Status) {
		return "readiness"
	}
	return ""
}

func (d *demo) badServiceDenied(ctx context.Context) error {
	manifest, err := d.example("service-bad.yaml")
	if err != nil {
		return err
	}
	out, err := env.Kubectl(ctx, d.env.AdminKubeconfig, manifest, "create", "--dry-run=server", "-f", "-")
	if err != nil {
		return err
	}
	if out.Code != 1 || !strings.Contains(out.Stderr, "is invalid") {
		return fmt.Errorf("kubectl exited with code %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
	return nil
}
