// Package connect creates the clients of the API server and of the cloud for the project's commands.
package connect

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
	"quaymaster.dev/internal/version"
)

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

// Cloud returns the options for a client of the cloud, for the caller to complete.
func Cloud(cfg config.Config, userAgent string) cloudapi.Options {
	return cloudapi.Options{
		Endpoint: cfg.Endpoint, OtherEndpoints: cfg.OtherEndpoints, AllowInsecureHTTP: cfg.AllowInsecureHTTP, Token: cfg.TokenFile.Read,
		TLS:       tlsfiles.Files{CA: cfg.CAFile, Cert: cfg.ClientCertFile, Key: cfg.ClientKeyFile},
		UserAgent: userAgent + "/" + version.Version(), QuotaShare: float64(cfg.QuotaPercent) / 100,
	}
}
