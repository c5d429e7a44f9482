package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"quaymaster.dev/test/env"
)

// check returns when the demonstration does what the guide promises: Nodes are initialized and a bad Service is
// refused by the webhook.
func (d *demo) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodesLimit)
	defer cancel()
	if err := env.Poll(ctx, "initialized Nodes", d.nodesInitialized); err != nil {
		return err
	}
	return env.Poll(ctx, "the refusal of a bad Service", d.badServiceRefused)
}

func (d *demo) nodesInitialized(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := d.env.Client.List(ctx, &nodes); err != nil {
		return err
	}
	if len(nodes.Items) == 0 {
		return fmt.Errorf("no Node has registered")
	}
	for i := range nodes.Items {
		if missing := uninitialized(&nodes.Items[i]); missing != "" {
			return fmt.Errorf("%s has no %s", nodes.Items[i].Name, missing)
		}
	}
	return nil
}

// uninitialized names what a Node still lacks.
func uninitialized(node *corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return "initialization by the controllers"
		}
	}
	switch {
	case node.Spec.ProviderID == "":
		return "provider id"
	case node.Spec.PodCIDR == "":
		return "pod range"
	case len(node.Status.Addresses) == 0:
		return "addresses"
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return "readiness"
}

func (d *demo) badServiceRefused(ctx context.Context) error {
	manifest, err := d.example("service-bad.yaml")
	if err != nil {
		return err
	}
	out, err := env.Kubectl(ctx, d.env.AdminKubeconfig, manifest, "create", "--dry-run=server", "-f", "-")
	if err != nil {
		return err
	}
	if out.Code != 1 || !strings.Contains(out.Stderr, "is invalid") {
		return fmt.Errorf("kubectl ended with %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
	return nil
}
