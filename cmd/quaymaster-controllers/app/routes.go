package app

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/client-go/kubernetes"
	ccmapp "k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/component-base/metrics/legacyregistry"

	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/route"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/routetable"
)

// addRoutes adds the route controller to an assembly, in place of the app's. It has the same flags and the same
// account.
func (r *controllers) addRoutes(
	assembly *cloud.Assembly, completed *ccmconfig.CompletedConfig, cluster *ownership.Cluster, copied *mirror.Mirror,
	book *brake.Book,
) error {
	if !r.manager.RoutesEnabled() {
		return nil
	}
	shared := completed.ComponentConfig.KubeCloudShared
	var cidrs []netip.Prefix
	for cidr := range strings.SplitSeq(shared.ClusterCIDR, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
		if err != nil {
			return fmt.Errorf("--cluster-cidr: %w", err)
		}
		cidrs = append(cidrs, prefix.Masked())
	}
	account := ccmapp.DefaultInitFuncConstructors[names.NodeRouteController].InitContext.ClientName
	c, err := route.New(route.Options{
		Table:        routetable.New(r.cloud, copied.Routes, cluster, r.config.Network.RouteTableID),
		Nodes:        completed.SharedInformers.Core().V1().Nodes(),
		Client:       func() kubernetes.Interface { return completed.ClientBuilder.ClientOrDie(account) },
		InstanceOf:   routetable.InstanceOf,
		ClusterCIDRs: cidrs,
		Period:       shared.RouteReconciliationPeriod.Duration,
		Brake:        book,
	})
	if err != nil {
		return fmt.Errorf("create the route controller: %w", err)
	}
	if err := legacyregistry.Registerer().Register(c.Metrics()); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	assembly.Run[names.NodeRouteController] = c.Run
	return nil
}
