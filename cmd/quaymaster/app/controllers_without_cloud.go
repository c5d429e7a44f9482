package app

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/policy"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/leadership"
	"quaymaster.dev/internal/version"
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
