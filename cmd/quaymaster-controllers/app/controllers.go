// Package app composes the quaymaster-controllers command, which runs the controllers role.
package app

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ccmconfig "k8s.io/cloud-provider/app/config"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/controllers/audit"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/controllers/persistentvolume"
	"quaymaster.dev/controllers/policy"
	"quaymaster.dev/internal/cloudmetrics"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/observability"
	"quaymaster.dev/internal/selection"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/provider/ownership"
)

// podVariable has the name of the pod, which the chart sets.
const podVariable = "POD_NAME"

// controllersUserAgent identifies the role in the logs of the API server and of the cloud.
const controllersUserAgent = "quaymaster-controllers"

// Run runs the command and returns its exit code. An error is printed to stderr as one line.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, NewCommand(), args, stdout, stderr) //nolint:contextcheck // cobra passes the context to the command
}

// NewCommand returns the command. It appears as a subcommand of quaymaster, because users call it as such.
func NewCommand() *cobra.Command {
	cmd := command.Program(&cobra.Command{
		Use:         "controllers",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "quaymaster controllers"},
		Short:       "Run the cloud controllers",
		Long: "Run the cloud controllers. They initialize Nodes, configure routes, reconcile the load balancers of\n" +
			"Services and their ingress nodes, report Services that violate a policy or were stored without an\n" +
			"answer of admission, and add missing zones to PersistentVolumes. One replica is the leader; the\n" +
			"others stand by.\n\n" +
			"With --without-cloud, they only report Services. Use this next to the controllers of another cloud.",
		Args: command.NoArguments,
	})
	manager, err := cloud.NewManager(
		provider.Name, ingressnode.Name, policy.Name, audit.Name, persistentvolume.Name, orphans.ReporterName)
	if err != nil {
		cmd.RunE = func(*cobra.Command, []string) error { return err }
		return cmd
	}
	manager.Pod = os.Getenv(podVariable)
	r := &controllers{manager: manager, given: cmd.Flags().Changed, drift: drift{dlb.DriftRepair}}
	sections := manager.Flags(cmd.Name())
	r.addFlags(sections.FlagSet("without cloud"))
	sections.FlagSet("load balancers").Var(&r.drift, flagDrift,
		"What to do about load balancers that were changed in the cloud: "+strings.Join(dlb.Drifts(), ", ")+
			". To repair writes what the Service asks for; to report sets the condition of the Service and writes nothing "+
			"until the Service changes; off compares nothing until then.")
	r.addAuditFlags(sections.FlagSet("audit"))
	r.log.AddFlags(sections.FlagSet("logs"))
	for _, section := range sections.FlagSets {
		cmd.Flags().AddFlagSet(section)
	}
	cliflag.SetUsageAndHelpFunc(cmd, sections, 0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if problems := r.log.Validate(); len(problems) > 0 {
			return command.Usage(command.JoinLine(problems))
		}
		r.log.Output = cmd.ErrOrStderr()
		logger, err := r.log.Start("controllers")
		if err != nil {
			return err
		}
		return command.Logged(logger, r.run(klog.NewContext(cmd.Context(), logger)))
	}
	return cmd
}

// controllers runs the controllers role.
type controllers struct {
	manager *cloud.Manager
	// given reports whether a flag was set on the command line.
	given func(flag string) bool
	// withoutCloud runs only the controllers that report Services, for Services of class and, with defaultClass, those
	// without a class.
	withoutCloud bool
	class        string
	defaultClass bool
	drift        drift
	// catalogs and audited are what admission reviews Services by, and in which namespaces.
	catalogs selection.Flags
	audited  string
	log      observability.LogOptions

	// clusterUID is set before the controllers run.
	clusterUID string
	// identity observes the API server, holder decides whether the cluster may write. It is set before there is a write.
	identity *clusterca.Observer
	holder   *holder.Holder
	// raising is held while fenced reads the record of the holder.
	raising sync.Mutex

	config   config.Config
	measured *cloudmetrics.Metrics
	cloud    *cloudapi.Client
	api      kubernetes.Interface
	policies *policystore.Client
}

// run checks everything that would make the app exit, or fail only later, before it runs the app.
func (r *controllers) run(ctx context.Context) error {
	if r.withoutCloud {
		return r.runWithoutCloud(ctx)
	}
	// Report the problems of flags and files together.
	usage, files := r.checkFlags(), r.configure()
	switch {
	case len(usage) > 0:
		return command.Usage(command.JoinLine(append(usage, files...)))
	case len(files) > 0:
		return command.JoinLine(files)
	}
	if err := r.checkAddress(ctx); err != nil {
		return err
	}
	cluster := ownership.NewCluster(r.api.CoreV1())
	klog.FromContext(ctx).Info("Starting", "version", version.String(),
		"clusterID", r.config.ClusterID)
	return r.manager.Run(ctx, cloud.RunOptions{
		Wait: func(ctx context.Context, waiting func(string)) error {
			var err error
			if r.clusterUID, err = awaitCluster(ctx, cluster, waiting); err != nil {
				return err
			}
			return r.awaitCloud(ctx, waiting)
		},
		Assemble: func(completed *ccmconfig.CompletedConfig) (cloud.Assembly, error) {
			return r.assemble(completed, cluster)
		},
	})
}

// configure reads the files named by the flags and creates the clients.
func (r *controllers) configure() []error {
	var errs []error
	if file := r.manager.Options.KubeCloudShared.CloudProvider.CloudConfigFile; file != "" {
		errs = append(errs, r.configureCloud(file)...)
	}
	cfg, err := r.restConfig()
	if err != nil {
		return append(errs, err)
	}
	cfg = rest.AddUserAgent(cfg, controllersUserAgent)
	connection := r.manager.Options.Generic.ClientConnection
	cfg.QPS, cfg.Burst = connection.QPS, int(connection.Burst)
	cfg.Wrap(r.manager.Guard)
	r.identity = clusterca.Observe(cfg)
	if r.api, err = kubernetes.NewForConfig(cfg); err != nil {
		return append(errs, fmt.Errorf("--kubeconfig: %w", err))
	}
	if r.policies, err = policystore.NewClient(cfg); err != nil {
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
	if r.measured, err = cloudmetrics.New(legacyregistry.Registerer()); err != nil {
		return append(errs, err)
	}
	options := connect.Cloud(r.config, controllersUserAgent)
	options.OnCall, options.Wrap = r.measured.Call, r.manager.Guard
	options.Fence, options.OnFenced = r.fence, r.fenced
	options.Withhold = func(ctx context.Context) error { return r.holder.Withhold(ctx) }
	options.OnNotHolder = func() { r.holder.Doubt() }
	options.Identify = func(ctx context.Context) error { return r.holder.Identify(ctx) }
	options.OnOtherState = func() { r.holder.Doubt() }
	if r.cloud, err = cloudapi.New(options); err != nil {
		return append(errs, fmt.Errorf("--cloud-config: %w", err))
	}
	if err := r.measured.Pace(r.cloud.Pace); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// fence identifies this leader to the cloud. The cluster is known before there is a leader.
func (r *controllers) fence() string {
	if r.clusterUID == "" {
		return ""
	}
	leader := r.clusterUID
	if tenure := r.manager.Tenure(); tenure != nil {
		leader = tenure.Fence(r.clusterUID)
	}
	return r.holder.Fence(leader)
}

// raiseTimeout bounds the read of the holder's record after a write was fenced.
const raiseTimeout = 10 * time.Second

// fenced is called when the cloud has rejected a write because it has seen a later leader of this cluster. If the cloud's
// record of the cluster has a higher epoch than the lease, the lease may be older than the record, as after a restore of
// etcd: the next renewal raises it, which only its holder can do. Otherwise the leadership ends, and the process with it,
// because the lease is not renewed any more.
func (r *controllers) fenced(err error) {
	if !r.raising.TryLock() {
		return
	}
	defer r.raising.Unlock()
	tenure := r.manager.Tenure()
	logger := klog.Background().WithValues("fence", r.fence())
	ctx, cancel := context.WithTimeout(cloudapi.WithClass(context.Background(), cloudapi.Safety), raiseTimeout)
	defer cancel()
	// The cloud may be about to be identified again, by a claim that waits for this.
	record, failed := holder.Read(cloudapi.WithIdentified(ctx), r.cloud, r.clusterUID)
	own, known := tenure.Epoch()
	switch {
	case failed != nil:
		logger.Error(failed, "The cloud has seen a later leader of this cluster; will ask again which one")
	case known && record != nil && record.Epoch > uint64(own) && record.Epoch < math.MaxInt32:
		logger.Info("The cloud has seen a later epoch of this cluster than that of the lease; raising the lease",
			"seen", record.Epoch)
		tenure.Raise(int64(record.Epoch) + 1)
	case tenure.Floor() > 0:
		// A write from before the lease was raised.
	default:
		tenure.End(err)
		logger.Error(err, "The cloud has seen a later leader of this cluster: leadership ends, nothing is written any more, "+
			"and the process exits once its lease cannot be renewed")
	}
}
