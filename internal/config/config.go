// Package config reads the cloud config, the file that identifies the cluster and the cloud for the controllers.
// Decoding is strict: an unknown field is an error, and all errors are reported together.
package config

import (
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/strictyaml"
)

// Defaults of optional fields.
const (
	DefaultLoadBalancerClass = "mycloud.io/dlb"
	defaultFallback          = FallbackAll
	defaultQuotaPercent      = 50
	// DefaultMaxRemovedPercentPerMinute lets a large group lose at most a tenth of its members per minute.
	DefaultMaxRemovedPercentPerMinute = 10
	DefaultMaxGroups                  = 50
)

// The values of IngressNodes.Fallback.
const (
	FallbackAll  = "all"
	FallbackNone = "none"
)

// Config is the cloud config.
type Config struct {
	// ClusterID is the prefix of the names of the cluster's objects in the cloud. It is a DNS label.
	ClusterID string `json:"clusterID"`
	// Endpoint is the address of the cloud's API without the API version, such as http://127.0.0.1:8090.
	Endpoint string `json:"endpoint"`
	// OtherEndpoints are the addresses of other servers of the same cloud, which are used when one fails.
	OtherEndpoints []string `json:"otherEndpoints"`
	// TokenFile contains the bearer token for the cloud. Changes are noticed. It may be empty if there is a client
	// certificate, which then says who the cluster is.
	TokenFile TokenFile `json:"tokenFile"`
	// CAFile has the authorities of the cloud's certificate in PEM; if empty, those of the system are trusted.
	CAFile string `json:"caFile"`
	// ClientCertFile and ClientKeyFile are the client certificate for the cloud and its key, in PEM. Changes are noticed.
	ClientCertFile string `json:"clientCertFile"`
	ClientKeyFile  string `json:"clientKeyFile"`
	// AllowInsecureHTTP allows an endpoint with http on another machine, to which the token is sent in the clear.
	AllowInsecureHTTP bool `json:"allowInsecureHTTP"`
	// QuotaPercent is the share of the quota advertised by the cloud that each process may use, in percent.
	QuotaPercent int `json:"quotaPercent"`
	// LoadBalancerClass is the class of Services that are handled.
	LoadBalancerClass string `json:"loadBalancerClass"`
	// DefaultClass is true if Services without a class are handled, too.
	DefaultClass bool `json:"defaultClass"`
	// Network places load balancers and routes in the cloud.
	Network Network `json:"network"`
	// IngressNodes selects the Nodes that receive the traffic of load balancers.
	IngressNodes IngressNodes `json:"ingressNodes"`
	// KubeProxyHealthCheckPort is the port at which kube-proxy, or what replaces it, serves /healthz on each Node. Load
	// balancers probe it for listeners of udp under externalTrafficPolicy Cluster.
	KubeProxyHealthCheckPort int32 `json:"kubeProxyHealthCheckPort"`
}

// Network places load balancers and routes in the cloud.
type Network struct {
	// VPCID is the network of load balancers; if empty, the cloud chooses it.
	VPCID string `json:"vpcID"`
	// RouteTableID is the table for the routes to the pods of Nodes; without it, cloud routes cannot be configured.
	RouteTableID string `json:"routeTableID"`
	// SubnetIDs are the subnets of load balancers whose Service does not name one.
	SubnetIDs []string `json:"subnetIDs"`
}

// IngressNodes selects the Nodes that receive the traffic of load balancers.
type IngressNodes struct {
	// Fallback is all or none: the Nodes that serve a group for which no Node is marked.
	Fallback string `json:"fallback"`
	// MaxRemovedPercentPerMinute is the share of a group's members, at least one, that may leave per minute although
	// their Nodes were not deleted, excluded or unmarked. 100 removes the limit.
	MaxRemovedPercentPerMinute int `json:"maxRemovedPercentPerMinute"`
	// DrainCordoned makes cordoned Nodes leave their groups, after their connections have drained.
	DrainCordoned bool `json:"drainCordoned"`
	// MaxGroups is the number of groups that the Services of the cluster may create in the cloud.
	MaxGroups int `json:"maxGroups"`
}

// Load reads, defaults and validates a cloud config file. The error is one line with the name of the file and every
// problem.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read cloud config: %w", err)
	}
	cfg, err := Parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("cloud config %s: %w", path, err)
	}
	return cfg, nil
}

// Parse reads, defaults and validates a cloud config in YAML or JSON.
func Parse(data []byte) (Config, error) {
	cfg := Config{
		LoadBalancerClass: DefaultLoadBalancerClass,
		DefaultClass:      true,
		IngressNodes: IngressNodes{
			Fallback:                   defaultFallback,
			MaxRemovedPercentPerMinute: DefaultMaxRemovedPercentPerMinute,
			MaxGroups:                  DefaultMaxGroups,
		},
		QuotaPercent:             defaultQuotaPercent,
		KubeProxyHealthCheckPort: loadbalancer.DefaultKubeProxyHealthCheckPort,
	}
	errs, err := strictyaml.Decode(data, &cfg)
	if err != nil {
		return Config{}, err
	}
	for _, invalid := range validate(cfg) {
		if !reported(errs, invalid.Field) {
			errs = append(errs, invalid)
		}
	}
	if len(errs) > 0 {
		return Config{}, errs.ToAggregate()
	}
	return cfg, nil
}

func reported(errs field.ErrorList, path string) bool {
	return slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Field == path })
}

// TokenFile is the path of a file that contains a bearer token.
type TokenFile string

// Read returns the current token in the file, without surrounding white space; empty if there is no file. Errors contain the
// path and never the token.
func (f TokenFile) Read() (string, error) {
	if f == "" {
		return "", nil
	}
	return cloudapi.TokenFile(string(f))()
}
