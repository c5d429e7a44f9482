package nodegroup

import (
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/config"
)

// Configure returns the options of the controller with what the cloud config decides.
func Configure(o ingressnode.Options, cfg config.IngressNodes) ingressnode.Options {
	o.FallbackAll, o.DrainCordoned = cfg.Fallback == config.FallbackAll, cfg.DrainCordoned
	o.MaxRemovedPercent, o.MaxGroups = cfg.MaxRemovedPercentPerMinute, cfg.MaxGroups
	return o
}
