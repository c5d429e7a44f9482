package app

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"quaymaster.dev/controllers/audit"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/review"
)

const flagAudited = "namespace-selector"

func (r *controllers) addAuditFlags(fs *pflag.FlagSet) {
	r.catalogs.AddFlags(fs)
	fs.StringVar(&r.audited, flagAudited, "",
		"Label `selector` of the namespaces whose stored Services are audited, as in the webhook configurations; empty "+
			"for all.")
}

// checkAudit checks the flags of the audit.
func (r *controllers) checkAudit() []error {
	_, errs := r.catalogs.Reviewer(r.class, r.defaultClass)
	if _, err := labels.Parse(r.audited); err != nil {
		errs = append(errs, fmt.Errorf("--%s must be a label selector: %w", flagAudited, err))
	}
	return errs
}

// newAudit creates the controller that audits.
func (r *controllers) newAudit(services coreinformers.ServiceInformer, store *policystore.Store) (*audit.Controller, error) {
	reviewer, _ := r.catalogs.Reviewer(r.config.LoadBalancerClass, r.config.DefaultClass) // checked before
	if r.withoutCloud {
		reviewer = reviewer.WithoutControllers()
	}
	namespaces, err := labels.Parse(r.audited)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagAudited, err)
	}
	served := !r.withoutCloud && r.manager.Enabled(service.Name)
	c := audit.New(audit.Options{
		Services: services, Policies: store, Reviewer: reviewer, Namespaces: namespaces, Events: r.api.CoreV1(),
		Reported: func(svc *corev1.Service, errs []finding.Finding) bool {
			return served && reportedByService(reviewer, svc, errs)
		},
	})
	return c, register(c.Metrics())
}

// reportedByService reports whether the service controller finds these errors, too: it reviews its Services by the own
// catalog and by policies.
func reportedByService(reviewer review.Reviewer, svc *corev1.Service, errs []finding.Finding) bool {
	others := slices.ContainsFunc(errs, func(f finding.Finding) bool {
		return f.Catalog != "" && f.Catalog != loadbalancer.Catalog
	})
	return !others && reviewer.Served(svc)
}
