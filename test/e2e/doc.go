// Package e2e tries the chart on a cluster that runs pods, with cert-manager installed: see make e2e.
package e2e
