// Package e2e tests the chart on a cluster that runs pods, with cert-manager installed; see make e2e.
package e2e
