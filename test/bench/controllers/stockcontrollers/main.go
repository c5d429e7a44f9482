// Command stockcontrollers runs the controllers of k8s.io/cloud-provider for Services, Nodes and routes in place of ours,
// with the same flags and over the same cloud, so that the benchmark can compare them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	ccmconfig "k8s.io/cloud-provider/app/config"

	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/provider/routetable"
	"quaymaster.dev/test/harness/plain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stockcontrollers:", err)
		os.Exit(1)
	}
}

// run runs the controllers with the arguments of quaymaster, of which the first is the name of the role.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: stockcontrollers controllers --flag…")
	}
	manager, err := cloud.NewManager(provider.Name, ingressnode.Name)
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("stockcontrollers", pflag.ContinueOnError)
	sections := manager.Flags(flags.Name())
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	if err := errors.Join(flags.Parse(args[1:]), manager.Validate()); err != nil {
		return err
	}
	cfg, err := config.Load(manager.Options.KubeCloudShared.CloudProvider.CloudConfigFile)
	if err != nil {
		return err
	}
	manager.Options.KubeCloudShared.ClusterName = cfg.ClusterID
	client, err := cloudapi.New(cloudapi.Options{
		Endpoint: cfg.Endpoint, AllowInsecureHTTP: cfg.AllowInsecureHTTP, Token: cfg.TokenFile.Read, Wrap: manager.Guard,
	})
	if err != nil {
		return err
	}
	connection := manager.Options.Generic.ClientConnection
	access, err := clientcmd.BuildConfigFromFlags("", connection.Kubeconfig)
	if err != nil {
		return err
	}
	access.QPS, access.Burst = connection.QPS, int(connection.Burst)
	api, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	return manager.Run(ctx, cloud.RunOptions{
		Wait:     func(context.Context, func(string)) error { return nil },
		Assemble: func(c *ccmconfig.CompletedConfig) (cloud.Assembly, error) { return assemble(c, cfg, client, api) },
	})
}

// assemble creates a provider for the app's controllers, and the controller that maintains the backends of load balancers,
// for which the app has none.
func assemble(
	completed *ccmconfig.CompletedConfig, cfg config.Config, client *cloudapi.Client, api kubernetes.Interface,
) (cloud.Assembly, error) {
	core := completed.SharedInformers.Core().V1()
	cluster := ownership.NewCluster(api.CoreV1())
	copied := mirror.New(mirror.Options{Cloud: client, Cluster: cluster})
	machines := nodegroup.NewMachines(client, copied)
	nodes, err := ingressnode.New(nodegroup.Configure(ingressnode.Options{
		Groups: nodegroup.New(client, copied.NodeGroups, cluster, cfg.ClusterID), Machines: machines, Nodes: core.Nodes(),
		Services: core.Services(), Synced: []cache.InformerSynced{machines.HasSynced}, Recorder: completed.EventRecorder,
		InstanceID: providerid.Parse,
	}, cfg.IngressNodes))
	if err != nil {
		return cloud.Assembly{}, err
	}
	balancer := dlb.New(dlb.Options{
		Cloud: client, Mirror: copied, Cluster: cluster, NodeGroups: nodes, Services: core.Services().Lister(),
		Recorder: completed.EventRecorder,
	}.Configure(cfg))
	return cloud.Assembly{
		Cloud: &adapter{
			Provider:  plain.Provider{Interface: provider.New(nil), Cloud: client},
			balancers: &balancers{Balancer: balancer, synced: copied.Synced},
			routes:    &routes{table: routetable.New(client, copied.Routes, cluster, cfg.Network.RouteTableID), nodes: core.Nodes().Lister()},
		},
		Run:        map[string]func(context.Context){ingressnode.Name: nodes.Run},
		Background: func(context.Context) {},
		Leading:    []func(context.Context){copied.Run},
	}, nil
}
