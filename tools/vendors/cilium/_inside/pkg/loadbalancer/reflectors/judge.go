package reflectors

import (
	"log/slog"

	slim_corev1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/core/v1"
	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/node"
	"github.com/cilium/cilium/pkg/source"
)

// ConvertForJudge reads a Service as an agent does that lets Services set everything: on a node, which may not serve the
// Service, and on all nodes.
func ConvertForJudge(logger *slog.Logger, service *slim_corev1.Service) *loadbalancer.Service {
	config := loadbalancer.Config{UserConfig: loadbalancer.UserConfig{LBModeAnnotation: true, LBMode: loadbalancer.LBModeSNAT}}
	external := loadbalancer.ExternalConfig{EnableIPv4: true, EnableIPv6: true, KubeProxyReplacement: true}
	convertService(config, external, logger, &node.LocalNode{}, service, source.Kubernetes)
	converted, _ := convertService(config, external, logger, nil, service, source.Kubernetes)
	return converted
}
