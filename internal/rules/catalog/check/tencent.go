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
	"tencent-one-transport": {
		Help:  "The JSON has no port with both TCP and UDP, unless key, which is for direct access, is true.",
		Args:  []string{"key"},
		Check: tencentOneTransport,
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

// tencentListeners returns the parts of the JSON by port.
func tencentListeners(s Subject) map[string]tencentListener {
	var listeners map[string]tencentListener
	if json.Unmarshal([]byte(s.Value.Text), &listeners) != nil {
		return nil
	}
	return listeners
}

func tencentOneTransport(s Subject) string {
	if direct, found := s.Other(s.With["key"]); found && direct.Text == "true" {
		return ""
	}
	listeners := tencentListeners(s)
	for _, port := range slices.Sorted(maps.Keys(listeners)) {
		protocols := strings.ToUpper(strings.Join(listeners[port].Protocols, " "))
		if words := strings.Fields(protocols); slices.Contains(words, "TCP") && slices.Contains(words, "UDP") {
			return fmt.Sprintf("not have both TCP and UDP for port %s without %s, because nodes have one node port for it", port, s.With["key"])
		}
	}
	return ""
}

func tencentProtocols(s Subject) string {
	listeners := tencentListeners(s)
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
