package app

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	coreinformers "k8s.io/client-go/informers/core/v1"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/metrics/legacyregistry"

	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/machines"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
)

// assembler creates the controllers, one kind after the other, and has what they share.
type assembler struct {
	*controllers

	assembly  cloud.Assembly
	completed *ccmconfig.CompletedConfig
	core      coreinformers.Interface
	cluster   *ownership.Cluster
	store     *policystore.Store
	book      *brake.Book
	copied    *mirror.Mirror
	machines  *machines.Machines
}

// assemble creates the provider and our own controllers.
func (r *controllers) assemble(
	completed *ccmconfig.CompletedConfig, cluster *ownership.Cluster,
) (cloud.Assembly, error) {
	if err := trimCaches(completed.SharedInformers); err != nil {
		return cloud.Assembly{}, err
	}
	core := completed.SharedInformers.Core().V1()
	assembly, store, err := r.assemblePolicies(completed, core.Services())
	if err != nil {
		return cloud.Assembly{}, err
	}
	election := completed.ComponentConfig.Generic.LeaderElection
	copied := mirror.New(mirror.Options{Cloud: r.cloud, Cluster: cluster})
	a := &assembler{
		controllers: r, assembly: assembly, completed: completed, core: core,
		cluster: cluster, store: store, copied: copied, machines: machines.New(r.cloud, copied),
		book: brake.New(brake.Options{
			Client: r.api, Namespace: election.ResourceNamespace, Recorder: completed.EventRecorder,
		}),
	}
	r.holder = r.newHolder(completed)
	r.holder.OnLoss(copied.Lost)
	reporter := contact.NewReporter(contact.Options{
		Client: r.api, Namespace: election.ResourceNamespace, Lease: election.ResourceName, Epoch: r.manager.Tenure().Epoch,
		Endpoint: r.config.Endpoint, Cloud: copied,
	})
	a.assembly.Cloud = provider.New(a.machines)
	a.assembly.Leading = append(a.assembly.Leading, r.holder.Run, a.book.Run, copied.Run, reporter.Run)
	if err := errors.Join(
		register(a.book, r.holder), a.addNodes(), a.addLoadBalancers(), a.addRoutes(), a.addVolumes(),
	); err != nil {
		return cloud.Assembly{}, err
	}
	return a.assembly, nil
}

func register(collectors ...prometheus.Collector) error {
	for _, collector := range collectors {
		if err := legacyregistry.Registerer().Register(collector); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
