// Package rights_test drives every feature on a real API server with the rights that the chart gives, and reads in the audit log
// that none was missing and none is too much.
package rights_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"quaymaster.dev/test/env"
	"quaymaster.dev/test/rights"
)

// soon is how long a change may take until somebody acts on it, with room for slow machines.
const soon = 30 * time.Second

// modes are the chart's values that make a difference for rights.
var modes = map[string]env.Values{
	"one account, routes, cert-manager": {
		"cloudController": map[string]any{"clusterCIDR": env.ClusterCIDR},
		"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
		"certs":           map[string]any{"mode": "cert-manager"},
	},
	"separate accounts, routes, self-signed": {
		"cloudController": map[string]any{"clusterCIDR": env.ClusterCIDR, "useServiceAccountCredentials": true},
		"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
		"certs":           map[string]any{"mode": "self-signed"},
	},
	"separate accounts, a certificate that others ask for": {
		"cloudController": map[string]any{"useServiceAccountCredentials": true},
		"certs":           map[string]any{"mode": "cert-manager", "certManager": map[string]any{"managed": false}},
	},
	"policies alone, an issuer of the user's": {
		"cloudController": map[string]any{"enabled": false},
		"certs":           map[string]any{"mode": "cert-manager", "issuerRef": map[string]any{"name": "corporate", "kind": "ClusterIssuer"}},
	},
	"policies alone, volumes, files": {
		"cloudController": map[string]any{"enabled": false},
		"webhook":         map[string]any{"cloud": map[string]any{"enabled": true}},
		"certs":           map[string]any{"mode": "files", "secretName": "mine"},
	},
}

func TestRights(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	for name, values := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, values)
			w.start()
			w.drive()
			granted := w.granted(nil)
			w.eventually("the use of every right", func(context.Context) error {
				if err := w.log.Read(); err != nil {
					return err
				}
				if unused := rights.Unused(granted, w.log.Used); len(unused) > 0 {
					return fmt.Errorf("unused:\n%s", lines(unused))
				}
				return nil
			})
			w.stop()
			w.must(w.log.Read())
			// The accounts of kube-system may do more, by roles that the API server has for kube-controller-manager.
			if beyond := rights.Beyond(w.granted(rights.WellKnown()), w.log.Used); len(beyond) > 0 {
				t.Errorf("rights that the chart does not give:\n%s", lines(beyond))
			}
		})
	}
}

func lines(all []rights.Right) string {
	var text strings.Builder
	for _, right := range all {
		fmt.Fprintln(&text, right)
	}
	return text.String()
}
