// Package connect creates the clients of the API server and of the cloud for the project's commands.
package connect

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/version"
)

// CloudTimeout limits one cloud call, unless a user waits for it. The cloud may delay its response about a job for half
// of this time.
const CloudTimeout = time.Minute

// idleConnections is the maximum number of idle connections to the cloud: at most as many as there are concurrent
// calls.
const idleConnections = 64

// APIServer reads the kubeconfig or, without one, uses the credentials of the pod.
func APIServer(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig is required outside a cluster: %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s must be a readable kubeconfig: %w", kubeconfig, err)
	}
	return cfg, nil
}

// Cloud creates the client of a role. timeout limits one call, onCall is called for each call unless it is nil,
// and wraps decorate the transport.
func Cloud(
	cfg config.Config, userAgent string, timeout time.Duration, onCall func(cloudapi.Call),
	wraps ...func(http.RoundTripper) http.RoundTripper,
) (*cloudapi.Client, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("unexpected default transport %T", http.DefaultTransport)
	}
	base = base.Clone()
	base.MaxIdleConnsPerHost = idleConnections
	var transport http.RoundTripper = base
	for _, wrap := range wraps {
		transport = wrap(transport)
	}
	return cloudapi.New(cloudapi.Options{
		Endpoint: cfg.Endpoint, Token: cfg.TokenFile.Read, UserAgent: userAgent + "/" + version.Version(),
		HTTPClient: &http.Client{Transport: transport, Timeout: timeout}, OnCall: onCall,
	})
}
