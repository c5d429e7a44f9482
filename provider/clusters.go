package provider

import (
	"context"
	"fmt"

	cloudprovider "k8s.io/cloud-provider"
)

type clusters struct{ id, apiServer string }

var _ cloudprovider.Clusters = (*clusters)(nil)

func (c *clusters) ListClusters(context.Context) ([]string, error) { return []string{c.id}, nil }

func (c *clusters) Master(_ context.Context, clusterName string) (string, error) {
	if clusterName != c.id {
		return "", fmt.Errorf("cluster %q: this provider serves %q", clusterName, c.id)
	}
	return c.apiServer, nil
}
