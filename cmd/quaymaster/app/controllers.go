package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ccmconfig "k8s.io/cloud-provider/app/config"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
)

// controllersUserAgent names the role in the logs of the API server and of the cloud.
const controllersUserAgent = "quaymaster-controllers"

// idleConnections is how many connections to the cloud stay open: as many as there are calls at once, at most.
const idleConnections = 64

func newControllersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "Run the cloud controllers",
		Long: "Run the cloud controllers: they initialise Nodes, program routes, make the load balancers of Services and keep\n" +
			"the ingress nodes behind them. One replica leads, the others wait.",
		Args: command.NoArguments,
	}
	manager, err := cloud.NewManager(provider.Name, ingressnode.Name)
	if err != nil {
		cmd.RunE = func(*cobra.Command, []string) error { return err }
		return cmd
	}
	sections := manager.Flags(cmd.Name())
	for _, section := range sections.FlagSets {
		cmd.Flags().AddFlagSet(section)
	}
	cliflag.SetUsageAndHelpFunc(cmd, sections, 0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r := &controllers{manager: manager, clusterNameSet: cmd.Flags().Changed("cluster-name")}
		return r.run(cmd.Context())
	}
	return cmd
}

// controllers is the controllers role.
type controllers struct {
	manager *cloud.Manager
	// clusterNameSet tells whether --cluster-name was given.
	clusterNameSet bool

	config config.Config
	cloud  *cloudapi.Client
	api    kubernetes.Interface
}

// run checks whatever the app would die over, or only find out later, and then runs it.
func (r *controllers) run(ctx context.Context) error {
	if err := r.manager.StartLogging(); err != nil {
		return command.Usage(err)
	}
	// What is wrong with flags and files is told at once.
	usage, files := r.checkFlags(), r.configure()
	switch {
	case len(usage) > 0:
		return command.Usage(joinLine(append(usage, files...)))
	case len(files) > 0:
		return joinLine(files)
	}
	if err := r.checkAddress(ctx); err != nil {
		return err
	}
	if err := r.checkCloud(ctx); err != nil {
		return err
	}
	cluster := ownership.NewCluster(r.api.CoreV1())
	if err := checkCluster(ctx, cluster); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting", "role", "controllers", "version", version.String(), "clusterID", r.config.ClusterID)
	return r.manager.Run(ctx, r.config.LoadBalancerClass, func(completed *ccmconfig.CompletedConfig) (cloud.Assembly, error) {
		return r.assemble(completed, cluster)
	})
}

// configure reads the files that the flags name and makes the clients.
func (r *controllers) configure() []error {
	var errs []error
	if file := r.manager.Options.KubeCloudShared.CloudProvider.CloudConfigFile; file != "" {
		errs = append(errs, r.configureCloud(file)...)
	}
	cfg, err := r.restConfig()
	if err != nil {
		return append(errs, err)
	}
	if r.api, err = kubernetes.NewForConfig(rest.AddUserAgent(cfg, controllersUserAgent)); err != nil {
		errs = append(errs, fmt.Errorf("--kubeconfig: %w", err))
	}
	return errs
}

func (r *controllers) configureCloud(file string) []error {
	var err error
	if r.config, err = config.Load(file); err != nil {
		return []error{fmt.Errorf("--cloud-config: %w", err)}
	}
	errs := r.checkConfig()
	r.manager.Options.KubeCloudShared.ClusterName = r.config.ClusterID
	if r.cloud, err = cloudClient(r.config); err != nil {
		errs = append(errs, fmt.Errorf("--cloud-config: %w", err))
	}
	return errs
}

func cloudClient(cfg config.Config) (*cloudapi.Client, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("unexpected default transport %T", http.DefaultTransport)
	}
	transport = transport.Clone()
	transport.MaxIdleConnsPerHost = idleConnections
	return cloudapi.New(cloudapi.Options{
		Endpoint: cfg.Endpoint, Token: cfg.TokenFile.Read, UserAgent: controllersUserAgent + "/" + version.Version(),
		HTTPClient: &http.Client{Transport: transport, Timeout: cloudTimeout},
	})
}

// assemble makes the provider and our own controllers.
func (r *controllers) assemble(completed *ccmconfig.CompletedConfig, cluster *ownership.Cluster) (cloud.Assembly, error) {
	nodes, err := ingressnode.New(ingressnode.Options{
		Groups:      nodegroup.New(r.cloud, cluster, r.config.ClusterID),
		Nodes:       completed.SharedInformers.Core().V1().Nodes(),
		Recorder:    completed.EventRecorder,
		InstanceID:  providerid.Parse,
		FallbackAll: r.config.IngressNodes.Fallback == config.FallbackAll,
	})
	if err != nil {
		return cloud.Assembly{}, err
	}
	balancer := dlb.New(dlb.Options{
		Cloud:             r.cloud,
		Cluster:           cluster,
		ClusterID:         r.config.ClusterID,
		Network:           dlb.Network{VPCID: r.config.Network.VPCID, SubnetIDs: r.config.Network.SubnetIDs},
		LoadBalancerClass: r.config.LoadBalancerClass,
		NodeGroups:        nodes,
		Services:          r.api.CoreV1(),
		Recorder:          completed.EventRecorder,
	})
	return cloud.Assembly{
		Cloud: provider.New(provider.Options{
			Cloud: r.cloud, Cluster: cluster, ClusterID: r.config.ClusterID, APIServer: completed.Kubeconfig.Host,
			RouteTableID: r.config.Network.RouteTableID, LoadBalancer: balancer,
		}),
		Run: map[string]func(context.Context){ingressnode.Name: nodes.Run},
	}, nil
}
