// Package lint judges manifests as admission would, without a cluster: Services of type LoadBalancer, and policies.
package lint
