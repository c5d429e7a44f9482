package inspect

import (
	"context"
	"net"
	"os"

	"k8s.io/utils/clock"

	"quaymaster.dev/cmd/quayctl/app/access"
	"quaymaster.dev/cmd/quayctl/app/operate"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/cloud"
	"quaymaster.dev/internal/tool/doctor/pods"
	"quaymaster.dev/internal/tool/doctor/release"
	"quaymaster.dev/internal/tool/doctor/rights"
	"quaymaster.dev/internal/tool/doctor/stored"
	"quaymaster.dev/internal/tool/doctor/webhooks"
	"quaymaster.dev/provider/providerid"
)

// podVariable is set only in pods, where the cluster's DNS can be used.
const podVariable = "KUBERNETES_SERVICE_HOST"

// checks connects to what the flags select, and returns the checks of it.
func (o *doctorOptions) checks() ([]doctor.Check, error) {
	rc, err := o.RESTConfig()
	if err != nil {
		return nil, err
	}
	r := &release.Release{
		Clock: clock.RealClock{}, Namespace: o.releaseNamespace, Name: o.release, Within: o.namespace,
		OwnConfig: o.cloudConfig != "",
	}
	w := &webhooks.Checks{Release: r, Class: o.class}
	c := &cloud.Checks{
		Release: r, Reach: cloud.Reach, InstanceID: providerid.Parse, Identity: clusterca.Observe(rc).Identity,
	}
	if r.API, r.Objects, err = access.ClientsOf(rc); err != nil {
		return nil, err
	}
	if os.Getenv(podVariable) != "" {
		w.Resolve = net.DefaultResolver.LookupHost
	}
	if o.cloudConfig == "" {
		return ordered(r, w, c), nil
	}
	cfg, client, err := access.Cloud(o.cloudConfig, nil)
	if err != nil {
		return nil, err
	}
	c.Client = client
	c.ListOrphans = func(ctx context.Context) ([]string, error) {
		return operate.DescribeOrphans(ctx, r.API, client, cfg, c.Identity)
	}
	return ordered(r, w, c), nil
}

// ordered returns all checks in their order: later ones use what earlier ones have found.
func ordered(r *release.Release, w *webhooks.Checks, c *cloud.Checks) []doctor.Check {
	s := stored.Checks{Release: r}
	return []doctor.Check{
		{Name: "api-server", Run: r.APIServer},
		{Name: "release", Needs: []string{"api-server"}, Run: r.Installed},
		{Name: "crds", Needs: []string{"api-server"}, Run: s.CRDs},
		{Name: "rights", Needs: []string{"release"}, Run: rights.Checks{Release: r}.Granted},
		{Name: "cloud-config", Needs: []string{"release"}, Run: r.Configured},
		{Name: "controllers", Needs: []string{"release"}, Run: pods.Checks{Release: r}.Leader},
		// It compares the lease that the check before has read.
		{Name: "cloud", Run: c.Answers},
		{Name: "nodes", Needs: []string{"release", "cloud-config"}, Run: c.Nodes},
		{Name: "webhook-configurations", Needs: []string{"release"}, Run: w.Configurations},
		{Name: "cert-manager", Needs: []string{"release"}, Run: w.CertManager},
		{Name: "certificate", Needs: []string{"release"}, Run: w.Certificate},
		{Name: "ca-bundle", Needs: []string{"release", "webhook-configurations"}, Run: w.Authority},
		{Name: "webhook-service", Needs: []string{"release"}, Run: w.Service},
		{Name: "dns", Needs: []string{"release", "webhook-service"}, Run: w.DNS},
		{Name: "admission", Needs: []string{"release", "webhook-configurations"}, Run: w.Admission},
		{Name: "stored-services", Needs: []string{"release"}, Run: s.Services},
		{Name: "load-balancers", Needs: []string{"release", "cloud-config"}, Run: c.Balancers},
		{Name: "orphans", Needs: []string{"api-server", "cloud"}, Run: c.Orphans},
		{Name: "brakes", Needs: []string{"release", "cloud-config"}, Run: c.Brakes},
		{Name: "policies", Needs: []string{"crds"}, Run: s.Policies},
	}
}
