package app

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/client-go/kubernetes"
	ccmapp "k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"

	"quaymaster.dev/controllers/route"
	"quaymaster.dev/provider/routetable"
)

// addRoutes adds the route controller in place of the app's. It has the same flags and the same account.
func (a *assembler) addRoutes() error {
	if !a.manager.RoutesEnabled() {
		return nil
	}
	shared := a.completed.ComponentConfig.KubeCloudShared
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
		Table:        routetable.New(a.cloud, a.copied.Routes, a.cluster, a.config.Network.RouteTableID),
		Nodes:        a.core.Nodes(),
		Client:       func() kubernetes.Interface { return a.completed.ClientBuilder.ClientOrDie(account) },
		InstanceOf:   routetable.InstanceOf,
		ClusterCIDRs: cidrs,
		Period:       shared.RouteReconciliationPeriod.Duration,
		Brake:        a.book,
	})
	if err != nil {
		return fmt.Errorf("create the route controller: %w", err)
	}
	a.assembly.Run[names.NodeRouteController] = c.Run
	return register(c.Metrics())
}
