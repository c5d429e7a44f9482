package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

var tencentFuncs = map[string]Func{
	"tencent-own-config": {
		Help:  "The name has no suffix that TKE keeps for the objects that it creates.",
		Check: tencentOwnConfig,
	},
	"tencent-protocols": {
		Help:  "The JSON has a certificate where a protocol needs one.",
		Check: tencentProtocols,
	},
	"tencent-protocol-ports": {
		Help:  "The JSON is about ports of the Service.",
		Check: func(s Subject) string { return aboutPorts(s, "spec.ports.port") },
	},
}

func tencentOwnConfig(s Subject) string {
	for _, suffix := range []string{"-auto-service-config", "-auto-ingress-config"} {
		if strings.HasSuffix(s.Value.Text, suffix) {
			return "not end in " + suffix + ", which is kept for objects that TKE creates"
		}
	}
	return ""
}

// tencentListener is what a port's part of the JSON sets.
type tencentListener struct {
	Protocols []string `json:"protocol"`
	TLS       string   `json:"tls"`
}

// tencentNeedTLS are the protocols whose listeners need a certificate. With HTTPS, hosts may have their own.
var tencentNeedTLS = []string{"TCP_SSL", "QUIC"}

func tencentProtocols(s Subject) string {
	var listeners map[string]tencentListener
	if json.Unmarshal([]byte(s.Value.Text), &listeners) != nil {
		return ""
	}
	for _, port := range slices.Sorted(maps.Keys(listeners)) {
		l := listeners[port]
		for _, protocol := range l.Protocols {
			if slices.Contains(tencentNeedTLS, strings.ToUpper(protocol)) && l.TLS == "" {
				return fmt.Sprintf("have tls, the name of a Secret, for port %s, because %s needs a certificate", port, protocol)
			}
		}
	}
	return ""
}
