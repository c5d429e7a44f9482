package cloud

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/app/config"
	ccmoptions "k8s.io/cloud-provider/options"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/leadership"
)

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
