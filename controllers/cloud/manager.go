package cloud

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cloudprovider "k8s.io/cloud-provider"
	ccmapp "k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	ccmoptions "k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the API server's clients and of work queues
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/leadership"
)

// concurrentSyncs is how many Services, and how many new Nodes, are worked on at the same time. One that waits for the cloud
// must not keep the others waiting, as it would with the app's default of one.
const concurrentSyncs = 8

// Assembly is what a Manager runs besides its own controllers. It is made when flags and configuration are complete.
type Assembly struct {
	// Cloud is the provider that the controllers call.
	Cloud cloudprovider.Interface
	// Run are our own controllers by the names given to NewManager. They run on the leader and return when their context
	// ends.
	Run map[string]func(context.Context)
	// Background is what they all need. It runs in every replica and returns when its context ends.
	Background func(context.Context)
	// Synced tells whether what Services are judged by is known. The service controller begins only then.
	Synced func() bool
}

// Manager is a cloud-controller-manager before it runs.
type Manager struct {
	// Options hold what the flags say.
	Options *ccmoptions.CloudControllerManagerOptions

	logs *logs.Options
	own  []string

	once   sync.Once // makes tenure
	tenure *leadership.Tenure
}

// NewManager makes the manager of a provider with controllers of our own, beside the app's.
func NewManager(provider string, own ...string) (*Manager, error) {
	o, err := ccmoptions.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("default the options: %w", err)
	}
	o.KubeCloudShared.CloudProvider.Name = provider
	o.ServiceController.ConcurrentServiceSyncs = concurrentSyncs
	o.NodeController.ConcurrentNodeSyncs = concurrentSyncs
	// The app's own webhooks are not served: admission is another role.
	o.Webhook, o.WebhookServing = nil, nil
	return &Manager{Options: o, logs: logs.NewOptions(), own: own}, nil
}

// Flags are the app's, in the sections of its help. command is the name for the help of --help.
func (m *Manager) Flags(command string) cliflag.NamedFlagSets {
	sections := m.Options.Flags(m.controllers(), disabled(), aliases(), nil, nil)
	global := sections.FlagSet("global")
	logsapi.AddFlags(m.logs, global)
	globalflag.AddGlobalFlags(global, command, logs.SkipLoggingConfigurationFlags())
	return sections
}

// StartLogging makes libraries log as the flags say. It is done once in a process.
func (m *Manager) StartLogging() error {
	return logsapi.ValidateAndApply(m.logs, utilfeature.DefaultFeatureGate)
}

// Validate checks the flags' values, all of them at once.
func (m *Manager) Validate() error {
	return m.Options.Validate(m.controllers(), disabled(), aliases(), nil, nil)
}

// Enabled tells whether the flags leave a controller on. The name is the one that the app knows, no alias.
func (m *Manager) Enabled(name string) bool {
	var chosen []string
	for _, given := range m.Options.Generic.Controllers {
		name, off := strings.CutPrefix(given, "-")
		if canonical, ok := aliases()[name]; ok {
			name = canonical
		}
		if off {
			name = "-" + name
		}
		chosen = append(chosen, name)
	}
	return genericcontrollermanager.IsControllerEnabled(name, sets.NewString(disabled()...), chosen)
}

// RoutesEnabled tells whether the route controller is to configure the cloud's routes.
func (m *Manager) RoutesEnabled() bool {
	return m.Options.KubeCloudShared.ConfigureCloudRoutes && m.Enabled(names.NodeRouteController)
}

// Address is where the manager serves health and metrics; empty is nowhere.
func (m *Manager) Address() string {
	s := m.Options.SecureServing
	if s.BindPort == 0 {
		return ""
	}
	return net.JoinHostPort(s.BindAddress.String(), strconv.Itoa(s.BindPort))
}

// Run runs the manager until ctx ends. class is the loadBalancerClass of Services that are ours besides those without
// one; assemble makes the rest.
func (m *Manager) Run(ctx context.Context, class string, assemble func(*ccmconfig.CompletedConfig) (Assembly, error)) error {
	config, err := m.Options.Config(m.controllers(), disabled(), aliases(), nil, nil)
	if err != nil {
		return err
	}
	if err := m.guardClients(config); err != nil {
		return err
	}
	completed := config.Complete()
	assembly, err := assemble(completed)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { assembly.Background(ctx) })
	constructors := constructors()
	constructors[names.ServiceLBController] = ccmapp.ControllerInitFuncConstructor{
		InitContext: constructors[names.ServiceLBController].InitContext,
		Constructor: serviceController(class, assembly.Synced),
	}
	for name, run := range assembly.Run {
		constructors[name] = ccmapp.ControllerInitFuncConstructor{Constructor: start(ctx, &running, name, run)}
	}
	initializers := ccmapp.ConstructControllerInitializers(constructors, completed, assembly.Cloud)
	return ccmapp.Run(completed, assembly.Cloud, initializers, nil, ctx.Done())
}

// start runs a controller of our own when the app starts it. Its context ends with the process, as the app's never does;
// running makes the process wait for it.
func start(ctx context.Context, running *sync.WaitGroup, name string, run func(context.Context)) ccmapp.InitFuncConstructor {
	logger := klog.FromContext(ctx).WithName(name)
	return func(ccmapp.ControllerInitContext, *ccmconfig.CompletedConfig, cloudprovider.Interface) ccmapp.InitFunc {
		return func(context.Context, genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
			running.Go(func() {
				logger.Info("Starting controller")
				defer logger.Info("Stopped controller")
				run(klog.NewContext(ctx, logger))
			})
			return nil, true, nil
		}
	}
}

// controllers are the names of all controllers.
func (m *Manager) controllers() []string {
	return append(ccmapp.ControllerNames(constructors()), m.own...)
}

func constructors() map[string]ccmapp.ControllerInitFuncConstructor {
	return maps.Clone(ccmapp.DefaultInitFuncConstructors)
}

func disabled() []string { return ccmapp.ControllersDisabledByDefault.List() }

func aliases() map[string]string { return names.CCMControllerAliases() }
