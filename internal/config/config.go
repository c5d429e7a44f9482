// Package config reads the cloud config: the file that tells the controllers which cluster they serve and where the cloud
// is. Reading it is strict: an unknown field is an error, and all errors are reported at once.
package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/strictyaml"
)

// What a cloud config may leave out.
const (
	DefaultLoadBalancerClass = "mycloud.io/dlb"
	DefaultFallback          = FallbackAll
)

// The values of IngressNodes.Fallback.
const (
	FallbackAll  = "all"
	FallbackNone = "none"
)

// Config is the cloud config.
type Config struct {
	// ClusterID begins the names of the cluster's objects in the cloud. It is a DNS label.
	ClusterID string `json:"clusterID"`
	// Endpoint is the cloud's address without the API version, such as http://127.0.0.1:8090.
	Endpoint string `json:"endpoint"`
	// TokenFile holds the cloud's bearer token. It is read again whenever the token is needed.
	TokenFile TokenFile `json:"tokenFile"`
	// LoadBalancerClass is the class of Services that are ours besides those without one.
	LoadBalancerClass string `json:"loadBalancerClass"`
	// Network places load balancers and routes.
	Network Network `json:"network"`
	// IngressNodes decides which Nodes carry the traffic of load balancers.
	IngressNodes IngressNodes `json:"ingressNodes"`
}

// Network places load balancers and routes in the cloud.
type Network struct {
	// VPCID is the network of load balancers; empty leaves the choice to the cloud.
	VPCID string `json:"vpcID"`
	// RouteTableID takes the routes to the Nodes' pods; without it the cloud's routes cannot be configured.
	RouteTableID string `json:"routeTableID"`
	// SubnetIDs are the subnets of load balancers whose Service names none.
	SubnetIDs []string `json:"subnetIDs"`
}

// IngressNodes decides which Nodes carry the traffic of load balancers.
type IngressNodes struct {
	// Fallback is all or none: which Nodes serve a group for which no Node is marked.
	Fallback string `json:"fallback"`
}

// Load reads, defaults and validates a cloud config. The error is one line with the file's name and every problem.
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
		IngressNodes:      IngressNodes{Fallback: DefaultFallback},
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

// TokenFile is the path of a file with a bearer token.
type TokenFile string

// Read is the token as it is now in the file, without the space around it. The error names the file and never the token.
func (f TokenFile) Read() (string, error) {
	data, err := os.ReadFile(string(f))
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("token file %s: %w", f, err)
	}
	return token, nil
}

func checkToken(token string) error {
	if token == "" {
		return errors.New("is empty; put the cloud's bearer token into it")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return errors.New("must hold one token of printable ASCII without spaces, and nothing else")
	}
	return nil
}
