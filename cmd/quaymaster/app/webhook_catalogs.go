package app

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/catalogfile"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
	templates "quaymaster.dev/webhook/template"
)

// catalogInterval is how often the files of --catalog-file are read. A kubelet takes about a minute to update them.
const catalogInterval = 10 * time.Second

// services decide on Services, and on templates of them, by catalogs that can change.
type services struct {
	options   service.Options
	templates []template.Template
	// review returns the Reviewer with the catalogs of files.
	review func([]catalogfile.Source) (review.Reviewer, []error)
	files  []string
	clock  clock.WithTicker

	mutator, validator, templateValidator atomic.Pointer[webhook.Admitter]
	// sources and problems are what was read last.
	sources  []catalogfile.Source
	problems []error
	broken   *metrics.Gauge
}

// newServices returns services with a Reviewer of the files, whose content is in sources.
func newServices(
	o service.Options, templates []template.Template, files []string, sources []catalogfile.Source,
	reviewer func([]catalogfile.Source) (review.Reviewer, []error),
) *services {
	s := &services{options: o, templates: templates, review: reviewer, files: files, sources: sources, clock: clock.RealClock{}, broken: metrics.NewGauge(&metrics.GaugeOpts{
		Name: "quaymaster_catalog_files_invalid", StabilityLevel: metrics.ALPHA,
		Help: "1 if the files of --catalog-file are invalid, so that the former ones are still in use.",
	})}
	s.use(o.Reviewer)
	return s
}

func (s *services) use(reviewer review.Reviewer) {
	s.options.Reviewer = reviewer
	mutator, validator := service.NewMutator(s.options), service.NewValidator(s.options)
	ofTemplates := templates.NewValidator(templates.Options{
		Reviewer: reviewer, Policies: s.options.Policies, Templates: s.templates,
	})
	s.mutator.Store(&mutator)
	s.validator.Store(&validator)
	s.templateValidator.Store(&ofTemplates)
}

// current returns an Admitter that always decides by the current catalogs.
func current(of *atomic.Pointer[webhook.Admitter]) webhook.Admitter {
	a := *of.Load()
	a.Admit = func(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
		return of.Load().Admit(ctx, req)
	}
	return a
}

// run uses changed files until the context ends. While they are invalid, the former catalogs stay in use.
func (s *services) run(ctx context.Context) error {
	if len(s.files) == 0 {
		return nil
	}
	ticker := s.clock.NewTicker(catalogInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			s.reload(klog.FromContext(ctx))
		}
	}
}

func (s *services) reload(logger klog.Logger) {
	sources, problems := catalogfile.Read(s.files)
	errs := catalogfile.Errors(problems)
	if reflect.DeepEqual(sources, s.sources) && reflect.DeepEqual(errs, s.problems) {
		return
	}
	s.sources, s.problems = sources, errs
	var reviewer review.Reviewer
	if len(errs) == 0 {
		reviewer, errs = s.review(sources)
	}
	if len(errs) > 0 {
		s.broken.Set(1)
		logger.Error(errors.Join(errs...), "Cannot use the changed catalog files; the former ones stay in use")
		return
	}
	s.broken.Set(0)
	s.use(reviewer)
	logger.Info("Using the changed catalog files", "files", len(sources))
}
