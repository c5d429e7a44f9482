package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quaymaster.dev/internal/rules/catalog/spec"
)

var ociFuncs = map[string]Func{
	"oci-bandwidth": {
		Help:     "The bandwidth is between 10 and 8192 Mbps, and at least that of another key.",
		Optional: []string{"atLeast"},
		Check:    ociBandwidth,
	},
	"oci-grpc": {
		Help:  "GRPC requires a Secret for TLS, and TLS on every port.",
		Check: ociGRPC,
	},
	"oci-tls-port": {
		Help:  "Some port of the Service is one of service.beta.kubernetes.io/oci-load-balancer-ssl-ports.",
		Check: ociTLSPort,
	},
}

// The range that the controller limits bandwidths to, in Mbps.
const (
	ociLeastBandwidth    = 10
	ociGreatestBandwidth = 8192
)

func ociBandwidth(s Subject) string {
	mbps := ociMbps(s.Value.Text)
	if mbps < ociLeastBandwidth || mbps > ociGreatestBandwidth {
		return fmt.Sprintf("be between %d and %d Mbps; the controller limits other values to this range",
			ociLeastBandwidth, ociGreatestBandwidth)
	}
	key := s.With["atLeast"]
	if key == "" {
		return ""
	}
	if least, found := s.Other(key); found && !least.Absent && mbps < ociMbps(least.Text) {
		return fmt.Sprintf("be at least that of %s, which is %s and is used instead", key, least.Text)
	}
	return ""
}

// ociMbps returns the number of a bandwidth that is valid for its type. Like the controller, it drops everything but digits.
func ociMbps(text string) int {
	digits := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, text)
	mbps, err := strconv.Atoi(digits)
	if errors.Is(err, strconv.ErrRange) {
		return ociGreatestBandwidth + 1
	}
	return mbps
}

const (
	ociSSLPorts = "service.beta.kubernetes.io/oci-load-balancer-ssl-ports"
	//nolint:gosec // the name of a key, not a secret
	ociSecret = "service.beta.kubernetes.io/oci-load-balancer-tls-secret"
)

func ociGRPC(s Subject) string {
	if s.Value.Text != "grpc" {
		return ""
	}
	ports, known := s.Other(ociSSLPorts)
	if !known && s.Service.Annotations[ociSSLPorts] != "" {
		return ""
	}
	for _, port := range spec.Values(s.Service, "spec.ports.port") {
		if !slices.Contains(ports.List, port) {
			return fmt.Sprintf("be combined with TLS on every port for GRPC; %s does not contain port %s",
				ociSSLPorts, port)
		}
	}
	if secret, found := s.Other(ociSecret); !found || secret.Absent {
		return "be combined with " + ociSecret + " for GRPC"
	}
	return ""
}

// ociTLSPort is for keys that the controller only reads for a port with TLS.
func ociTLSPort(s Subject) string {
	ports, known := s.Other(ociSSLPorts)
	uses := func(port string) bool { return slices.Contains(ports.List, port) }
	if !known || slices.ContainsFunc(spec.Values(s.Service, "spec.ports.port"), uses) {
		return ""
	}
	return "be combined with a port of the Service in " + ociSSLPorts
}
