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

	"quaymaster.dev/internal/leadership"
)

// Guard is for the transports of whoever writes as leader, to the cloud or to the API server: it refuses writes when the lease has run
// out. It is asked for when the flags are parsed.
func (m *Manager) Guard(next http.RoundTripper) http.RoundTripper {
	m.once.Do(func() {
		if election := m.Options.Generic.LeaderElection; election.LeaderElect {
			m.tenure = leadership.NewTenure(election.LeaseDuration.Duration, clock.RealClock{})
		}
	})
	return m.tenure.Guard(next)
}

// guardClients puts the guard into every client of the app that writes. The lease is renewed through one made of Kubeconfig.
func (m *Manager) guardClients(config *ccmconfig.Config) error {
	config.Kubeconfig.Wrap(m.Guard)
	var err error
	config.Client, err = kubernetes.NewForConfig(rest.AddUserAgent(config.Kubeconfig, ccmoptions.CloudControllerManagerUserAgent))
	if err != nil {
		return fmt.Errorf("make a client of the API server: %w", err)
	}
	config.ClientBuilder = guardedBuilder{config.ClientBuilder, m.Guard}
	return nil
}

// guardedBuilder guards clients that act with accounts of their own, whose configurations keep no transport. The app's controllers
// ask for clients in this way alone.
type guardedBuilder struct {
	cloudprovider.ControllerClientBuilder
	guard func(http.RoundTripper) http.RoundTripper
}

// ClientOrDie makes a guarded client.
func (b guardedBuilder) ClientOrDie(name string) kubernetes.Interface {
	config := b.ConfigOrDie(name)
	config.Wrap(b.guard)
	return kubernetes.NewForConfigOrDie(config)
}
