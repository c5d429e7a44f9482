// Package cloud composes the cloud-controller-manager: flags, configuration and controllers of the k8s.io/cloud-provider
// app, and controllers of our own. Start and end differ from the app's: probes are answered before the API server answers,
// and the lease is released when nothing can be written any more.
package cloud

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	ccmapp "k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	ccmoptions "k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the API server's clients and of work queues
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/leadership"
)

const (
	// serviceSyncs and nodeSyncs are how many Services and new Nodes are processed at the same time. An object whose
	// request the cloud is slow to answer must not delay the others, as it would with the app's default of 1.
	serviceSyncs = 64
	nodeSyncs    = 8
	// apiQPS and apiBurst limit the requests to the API server. With the app's defaults of 20 and 30, the writes for 1000
	// new Services would take minutes. The API server protects itself by priority and fairness.
	apiQPS   = 200
	apiBurst = 400
	// retryPeriod is how often the other replicas try to become the leader: a lease that was released stays without one
	// for at most 2.2 times as long.
	retryPeriod = time.Second
)

// Assembly holds what a Manager runs in addition to the app's controllers. It is built once flags and configuration are
// complete.
type Assembly struct {
	// Cloud is the provider that the controllers call.
	Cloud cloudprovider.Interface
	// Run holds our own controllers by their names: those given to NewManager, and those of the app's controllers that
	// they replace. They run on the leader and return when their context ends.
	Run map[string]func(context.Context)
	// Background is a dependency of all of them. It runs in every replica and returns when its context ends.
	Background func(context.Context)
	// Leading holds what they share on the leader. Each runs there once and returns when its context ends.
	Leading []func(context.Context)
}

// Manager is a cloud-controller-manager that has not been started.
type Manager struct {
	// Options hold the values of the flags.
	Options *ccmoptions.CloudControllerManagerOptions
	// Pod names the process in the lease; without it, the machine does.
	Pod string

	own []string

	once   sync.Once // initializes tenure
	tenure *leadership.Tenure
}

// NewManager creates the manager of a provider, with the app's controllers and the named ones of our own.
func NewManager(provider string, own ...string) (*Manager, error) {
	o, err := ccmoptions.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("default the options: %w", err)
	}
	o.KubeCloudShared.CloudProvider.Name = provider
	o.ServiceController.ConcurrentServiceSyncs = serviceSyncs
	o.NodeController.ConcurrentNodeSyncs = nodeSyncs
	o.Generic.ClientConnection.QPS, o.Generic.ClientConnection.Burst = apiQPS, apiBurst
	o.Generic.LeaderElection.RetryPeriod.Duration = retryPeriod
	// Health and metrics need no HTTP/2, whose server would write errors of connections past the log.
	o.SecureServing.DisableHTTP2Serving = true
	// The app's webhooks are not served: admission is a role of its own. There never was a provider in
	// kube-controller-manager whose leader we could take over from.
	o.Webhook, o.WebhookServing, o.Generic.LeaderMigration = nil, nil, nil
	return &Manager{Options: o, own: own}, nil
}

// Flags returns the app's flags, in the sections of its help. command is the program's name in the help of --help.
func (m *Manager) Flags(command string) cliflag.NamedFlagSets {
	sections := m.Options.Flags(m.controllers(), disabled(), aliases(), nil, nil)
	sections.FlagSet("global").BoolP("help", "h", false, "help for "+command)
	return sections
}

// Validate validates the values of all flags and returns every problem.
func (m *Manager) Validate() error {
	return m.Options.Validate(m.controllers(), disabled(), aliases(), nil, nil)
}

// Enabled reports whether the flags enable a controller. The name is the app's canonical name, not an alias.
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

// RoutesEnabled reports whether the route controller configures the cloud's routes.
func (m *Manager) RoutesEnabled() bool {
	return m.Options.KubeCloudShared.ConfigureCloudRoutes && m.Enabled(names.NodeRouteController)
}

// Address returns the address on which the manager serves health and metrics; it is empty if it does not.
func (m *Manager) Address() string {
	s := m.Options.SecureServing
	if s.BindPort == 0 {
		return ""
	}
	return net.JoinHostPort(s.BindAddress.String(), strconv.Itoa(s.BindPort))
}

// metricName returns the name of a controller in the app's metric of running controllers. The app's own controllers
// have their aliases there.
func metricName(name string) string {
	for alias, canonical := range aliases() {
		if canonical == name {
			return alias
		}
	}
	return name
}

// controllers returns the names of all controllers.
func (m *Manager) controllers() []string {
	return append(ccmapp.ControllerNames(constructors()), m.own...)
}

func constructors() map[string]ccmapp.ControllerInitFuncConstructor {
	return maps.Clone(ccmapp.DefaultInitFuncConstructors)
}

func disabled() []string { return ccmapp.ControllersDisabledByDefault.List() }

func aliases() map[string]string { return names.CCMControllerAliases() }

// Tenure returns the tenure as the leader, which is nil without leader election. It must be called after the flags have
// been parsed.
func (m *Manager) Tenure() *leadership.Tenure {
	m.once.Do(func() {
		if election := m.Options.Generic.LeaderElection; election.LeaderElect {
			m.tenure = leadership.NewTenure(election.LeaseDuration.Duration, clock.RealClock{})
		}
	})
	return m.tenure
}

// Guard wraps the transport of a client that writes as leader, to the cloud or to the API server: it rejects writes
// once the lease has expired. It must be called after the flags have been parsed.
func (m *Manager) Guard(next http.RoundTripper) http.RoundTripper { return m.Tenure().Guard(next) }

// guardClients guards every client of the app that writes. The lease is renewed through a client of Kubeconfig.
func (m *Manager) guardClients(config *ccmconfig.Config) error {
	config.Kubeconfig.Wrap(m.Guard)
	var err error
	named := rest.AddUserAgent(config.Kubeconfig, ccmoptions.CloudControllerManagerUserAgent)
	config.Client, err = kubernetes.NewForConfig(named)
	if err != nil {
		return fmt.Errorf("make a client of the API server: %w", err)
	}
	config.ClientBuilder = guardedBuilder{config.ClientBuilder, m.Guard}
	return nil
}

// guardedBuilder guards clients that use their own ServiceAccounts, whose configurations do not keep the transport. The
// app's controllers call no other method to get clients.
type guardedBuilder struct {
	cloudprovider.ControllerClientBuilder
	guard func(http.RoundTripper) http.RoundTripper
}

// ClientOrDie returns a guarded client.
func (b guardedBuilder) ClientOrDie(name string) kubernetes.Interface {
	config := b.ConfigOrDie(name)
	config.Wrap(b.guard)
	return kubernetes.NewForConfigOrDie(config)
}
