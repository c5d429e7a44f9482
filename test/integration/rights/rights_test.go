// Package rights_test uses every feature on a real API server with the rights that the chart grants, and checks in the
// audit log that no right is missing and none is superfluous.
package rights_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/rights"
)

// soon bounds how long a change takes to have its effect, with a margin for slow machines.
const soon = 30 * time.Second

// modes are the values of the chart that affect rights.
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
			// ServiceAccounts in kube-system have more rights, by roles of the API server for kube-controller-manager.
			if beyond := rights.Beyond(w.granted(rights.WellKnown()), w.log.Used); len(beyond) > 0 {
				t.Errorf("rights that the chart does not grant:\n%s", lines(beyond))
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
