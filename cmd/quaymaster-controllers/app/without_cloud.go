package app

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/informers"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/controllers/audit"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/policy"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/ownership"
)

const (
	flagWithoutCloud = "without-cloud"
	flagClass        = "load-balancer-class"
	flagDefaultClass = "default-class"
	flagLease        = "leader-elect-resource-name"
)

// reporting names the controllers that need no cloud.
const reporting = policy.Name + " and " + audit.Name

func (r *controllers) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&r.withoutCloud, flagWithoutCloud, false,
		"Run only "+reporting+", next to the controllers of another cloud: no cloud config is read and no "+
			"cloud is called. The lease defaults to "+leadership.PolicyLease+
			" instead of the default of --"+flagLease+".")
	fs.StringVar(&r.class, flagClass, config.DefaultLoadBalancerClass,
		"loadBalancerClass of Services that policies apply to, as for the webhooks. Requires --"+flagWithoutCloud+
			"; otherwise the class is set in the cloud config.")
	fs.BoolVar(&r.defaultClass, flagDefaultClass, true,
		"Policies also apply to Services without a class, as for the webhooks. Requires --"+flagWithoutCloud+
			"; otherwise set defaultClass in the cloud config.")
}

// runWithoutCloud runs only the controllers that report Services. The app owns lease, health, metrics and configz,
// and needs a provider, which its own controllers would call; they are disabled.
func (r *controllers) runWithoutCloud(ctx context.Context) error {
	// Report the problems of flags and files together.
	usage, files := r.checkWithoutCloud(), r.configure()
	switch {
	case len(usage) > 0:
		return command.Usage(command.JoinLine(append(usage, files...)))
	case len(files) > 0:
		return command.JoinLine(files)
	}
	r.config.LoadBalancerClass, r.config.DefaultClass = r.class, r.defaultClass
	if err := r.checkAddress(ctx); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting without a cloud", "version", version.String())
	return r.manager.Run(ctx, cloud.RunOptions{
		Wait: func(ctx context.Context, waiting func(string)) error {
			_, err := awaitCluster(ctx, ownership.NewCluster(r.api.CoreV1()), waiting)
			return err
		},
		Assemble: r.assembleWithoutCloud,
	})
}

// checkWithoutCloud rejects flags that request more than these.
func (r *controllers) checkWithoutCloud() []error {
	shared := r.manager.Options.KubeCloudShared
	errs := r.checkAudit()
	if shared.CloudProvider.CloudConfigFile != "" {
		errs = append(errs, fmt.Errorf("--cloud-config must not be combined with --%s; remove one of them",
			flagWithoutCloud))
		// Do not read the file.
		shared.CloudProvider.CloudConfigFile = ""
	}
	if r.given("controllers") {
		errs = append(errs, fmt.Errorf("--controllers must not be combined with --%s, which runs only %s",
			flagWithoutCloud, reporting))
	}
	if problems := validation.IsQualifiedName(r.class); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--%s must be a qualified name such as %s; got %q", flagClass,
			config.DefaultLoadBalancerClass, r.class))
	}
	generic := r.manager.Options.Generic
	generic.Controllers = []string{policy.Name, audit.Name}
	if !r.given(flagLease) {
		// The default of the app is the lease of the other cloud's controllers.
		generic.LeaderElection.ResourceName = leadership.PolicyLease
	}
	if err := r.manager.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// assembleWithoutCloud creates the controllers that report Services.
func (r *controllers) assembleWithoutCloud(completed *ccmconfig.CompletedConfig) (cloud.Assembly, error) {
	// Without the controllers of the cloud, only the Services that are reported are needed.
	services := informers.NewSharedInformerFactoryWithOptions(r.api, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.type=LoadBalancer" }),
		informers.WithTransform(cache.TransformStripManagedFields()))
	assembly, _, err := r.assemblePolicies(completed, services.Core().V1().Services())
	assembly.Cloud = provider.New(nil)
	assembly.Leading = append(assembly.Leading, func(ctx context.Context) {
		// It is not waited for at the end: it only reads, and may sleep past the end of its context.
		services.StartWithContext(ctx)
		<-ctx.Done()
	})
	return assembly, err
}
