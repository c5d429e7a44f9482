package cloud

import (
	"testing"

	"k8s.io/cloud-provider/names"
)

const own = "own-controller"

func TestFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args                   []string
		service, routes, isOwn bool
		address                string
	}{
		"defaults":        {service: true, routes: true, isOwn: true, address: "0.0.0.0:10258"},
		"one off":         {args: []string{"--controllers=*,-own-controller"}, service: true, routes: true, address: "0.0.0.0:10258"},
		"by alias":        {args: []string{"--controllers=service"}, service: true, address: "0.0.0.0:10258"},
		"off by alias":    {args: []string{"--controllers=*,-route"}, service: true, isOwn: true, address: "0.0.0.0:10258"},
		"no cloud routes": {args: []string{"--configure-cloud-routes=false"}, service: true, isOwn: true, address: "0.0.0.0:10258"},
		"address":         {args: []string{"--bind-address=::1", "--secure-port=8443"}, service: true, routes: true, isOwn: true, address: "[::1]:8443"},
		"serves nothing":  {args: []string{"--secure-port=0"}, service: true, routes: true, isOwn: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := NewManager("mycloud", own)
			if err != nil {
				t.Fatal(err)
			}
			sections := m.Flags("controllers")
			all := sections.FlagSet("all")
			for _, section := range sections.FlagSets {
				all.AddFlagSet(section)
			}
			if err := all.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			if err := m.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := m.Enabled(names.ServiceLBController); got != tc.service {
				t.Errorf("service controller enabled: %t, want %t", got, tc.service)
			}
			if got := m.Enabled(own); got != tc.isOwn {
				t.Errorf("own controller enabled: %t, want %t", got, tc.isOwn)
			}
			if got := m.RoutesEnabled(); got != tc.routes {
				t.Errorf("routes enabled: %t, want %t", got, tc.routes)
			}
			if got := m.Address(); got != tc.address {
				t.Errorf("address %q, want %q", got, tc.address)
			}
			if got := m.Options.KubeCloudShared.CloudProvider.Name; got != "mycloud" {
				t.Errorf("cloud provider %q, want mycloud", got)
			}
		})
	}
}
