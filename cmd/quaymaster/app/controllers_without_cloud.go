package app

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/policy"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/leadership"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/ownership"
)

const (
	flagWithoutCloud = "without-cloud"
	flagClass        = "load-balancer-class"
	flagLease        = "leader-elect-resource-name"
)

func (r *controllers) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&r.withoutCloud, flagWithoutCloud, false,
		"Run "+policy.Name+" alone, beside the controllers of another cloud: no cloud config is read and no cloud is called. The lease is then "+leadership.PolicyLease+", unless --"+flagLease+" names another.")
	fs.StringVar(&r.class, flagClass, config.DefaultLoadBalancerClass,
		"Class of Services that policies are about besides those without one, as for the webhooks. With a cloud, the cloud config says it.")
}

// runWithoutCloud runs the status of policies alone. The app, which owns lease, health, metrics and configz, calls a provider
// only through its controllers, and they are off: so it runs with one that offers nothing.
func (r *controllers) runWithoutCloud(ctx context.Context) error {
	// What is wrong with flags and files is told at once.
	usage, files := r.checkWithoutCloud(), r.configure()
	switch {
	case len(usage) > 0:
		return command.Usage(joinLine(append(usage, files...)))
	case len(files) > 0:
		return joinLine(files)
	}
	r.config.LoadBalancerClass = r.class
	if err := r.checkAddress(ctx); err != nil {
		return err
	}
	if err := checkCluster(ctx, ownership.NewCluster(r.api.CoreV1())); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting without a cloud", "role", "controllers", "version", version.String())
	return r.manager.Run(ctx, r.class, r.assembleWithoutCloud)
}

// checkWithoutCloud refuses flags that ask for more than the status of policies.
func (r *controllers) checkWithoutCloud() []error {
	shared := r.manager.Options.KubeCloudShared
	var errs []error
	if shared.CloudProvider.CloudConfigFile != "" {
		errs = append(errs, fmt.Errorf("--cloud-config: must be empty with --%s; leave out one of them", flagWithoutCloud))
		// No file is read for it.
		shared.CloudProvider.CloudConfigFile = ""
	}
	if r.given("controllers") {
		errs = append(errs, fmt.Errorf("--controllers: must be left out with --%s, which runs %s alone", flagWithoutCloud, policy.Name))
	}
	if problems := validation.IsQualifiedName(r.class); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--%s: must be a name such as %s; got %q", flagClass, config.DefaultLoadBalancerClass, r.class))
	}
	generic := r.manager.Options.Generic
	generic.Controllers = []string{policy.Name}
	if !r.given(flagLease) {
		// The app's own name is that of the other cloud's controllers.
		generic.LeaderElection.ResourceName = leadership.PolicyLease
	}
	if err := r.manager.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// assembleWithoutCloud makes the controller of the policies' status.
func (r *controllers) assembleWithoutCloud(completed *ccmconfig.CompletedConfig) (cloud.Assembly, error) {
	assembly, _, err := r.assemblePolicies(completed)
	assembly.Cloud = noCloud{}
	return assembly, err
}

// noCloud is a provider that offers nothing.
type noCloud struct{}

var _ cloudprovider.Interface = noCloud{}

// Initialize has nothing to start.
func (noCloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer is not offered.
func (noCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Instances is not offered.
func (noCloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 is not offered.
func (noCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones is not offered.
func (noCloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not offered.
func (noCloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes is not offered.
func (noCloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName is ours all the same.
func (noCloud) ProviderName() string { return provider.Name }

// HasClusterID is true: nothing in any cloud is tagged.
func (noCloud) HasClusterID() bool { return true }
