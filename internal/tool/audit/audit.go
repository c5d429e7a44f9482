// Package audit validates the objects of a cluster with the checks of admission. It is read-only.
package audit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/rules/volume"
	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/suppress"
)

// Options holds the dependencies and settings of an audit.
type Options struct {
	API kubernetes.Interface
	// Objects is used to read the policies and the objects for which controllers create Services.
	Objects dynamic.Interface
	// Namespace limits the audit to one namespace; if empty, all namespaces and PersistentVolumes are audited.
	Namespace string
	// Catalogs, Library, Class, DefaultClass and UnknownKeys are as in lint.ReviewerOptions.
	Catalogs     []string
	Library      *library.Library
	Class        string
	DefaultClass bool
	UnknownKeys  map[string]catalog.UnknownKeys
	// Templates are as in lint.Linter.
	Templates []template.Template
	// Selector selects the namespaces whose Services, and objects for which controllers create Services, are audited; nil for
	// all.
	Selector labels.Selector
	// ServicesOnly means that no other objects are audited.
	ServicesOnly bool
	// OnInvalid, unless nil, is called with each object that has errors.
	OnInvalid func(of corev1.ObjectReference, errs []finding.Finding)
	// OnProgress, unless nil, is called with the number of objects of a resource read so far.
	OnProgress func(resource string, seen int)
}

// Report is the result of an audit.
type Report struct {
	// Results holds the objects with findings, in the order of the API server.
	Results []report.Result
	// Counts holds the numbers of objects validated.
	Counts report.Counts
	// Unread says why objects for which controllers create Services are missing: a kind may have lost its operator, or the
	// user's role may not know it yet.
	Unread []error
}

// Run validates every object. It fails if anything else could not be read, because the report would be incomplete.
func Run(ctx context.Context, o Options) (Report, error) {
	a := &audit{Options: o}
	steps := []func(context.Context) error{a.prepare, a.services, a.templates, a.volumes, a.claims}
	if o.ServicesOnly {
		steps = steps[:2]
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	return a.Report, nil
}

type audit struct {
	Options
	Report

	// reviewer knows the current policies, namespaces has the labels of namespaces.
	reviewer   *lint.Reviewer
	namespaces map[string]map[string]string
}

// prepare reads what Services are validated by.
func (a *audit) prepare(ctx context.Context) error {
	if err := a.readNamespaces(ctx); err != nil {
		return err
	}
	policies, err := a.policies(ctx)
	if err != nil {
		return err
	}
	a.reviewer = lint.NewReviewer(lint.ReviewerOptions{
		Catalogs: a.Catalogs, Class: a.Class, DefaultClass: a.DefaultClass, Policies: policies, Namespaces: a.namespaces,
		Library: a.Library, UnknownKeys: a.UnknownKeys,
	})
	return nil
}

// services validates load balancers.
func (a *audit) services(ctx context.Context) error {
	return each(ctx, a, "services", a.API.CoreV1().Services(a.Namespace).List, func(svc *corev1.Service) {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.DeletionTimestamp == nil && a.selects(svc.Namespace) {
			a.add("v1", "Service", svc, a.reviewer.Stored(svc))
		}
	})
}

// selects reports whether the selector matches a namespace. As for webhooks, it does not concern objects without one.
func (a *audit) selects(namespace string) bool {
	return a.Selector == nil || namespace == "" || a.Selector.Matches(labels.Set(a.namespaces[namespace]))
}

// volumes validates PersistentVolumes as far as possible without the cloud.
func (a *audit) volumes(ctx context.Context) error {
	if a.Namespace != "" {
		return nil
	}
	return each(ctx, a, "persistentvolumes", a.API.CoreV1().PersistentVolumes().List,
		func(pv *corev1.PersistentVolume) {
			if volume.Zoned(pv) && pv.DeletionTimestamp == nil {
				var findings []finding.Finding
				if zones, ok := volume.Trusted(pv); ok {
					findings = volume.ApplyZones(pv, zones).Findings
				}
				a.add("v1", "PersistentVolume", pv, findings)
			}
		})
}

func (a *audit) readNamespaces(ctx context.Context) error {
	a.namespaces = map[string]map[string]string{}
	if a.Namespace != "" {
		namespace, err := a.API.CoreV1().Namespaces().Get(ctx, a.Namespace, metav1.GetOptions{})
		if err != nil {
			return unread(err, "get", "namespaces")
		}
		a.namespaces[namespace.Name] = namespace.Labels
		return nil
	}
	return each(ctx, a, "namespaces", a.API.CoreV1().Namespaces().List, func(namespace *corev1.Namespace) {
		a.namespaces[namespace.Name] = namespace.Labels
	})
}

func (a *audit) add(apiVersion, kind string, o metav1.Object, findings []finding.Finding) {
	a.Counts.Check(kind, 1)
	if shown := report.Findings(findings); len(shown) > 0 {
		a.Results = append(a.Results, report.Result{
			Object: report.Object{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, Findings: shown,
			Ignores: suppress.Annotations(o.GetAnnotations(), func(string) manifest.Place { return manifest.Place{} }),
		})
	}
	if errs := finding.Errors(findings); len(errs) > 0 && a.OnInvalid != nil {
		a.OnInvalid(corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
			ResourceVersion: o.GetResourceVersion(),
		}, errs)
	}
}

// claims validates the claims that request more storage than they have: only for these expansions can the conditions
// still be checked.
func (a *audit) claims(ctx context.Context) error {
	classes := map[string]*storagev1.StorageClass{}
	err := each(ctx, a, "storageclasses.storage.k8s.io", a.API.StorageV1().StorageClasses().List,
		func(class *storagev1.StorageClass) {
			classes[class.Name] = class
		})
	if err != nil {
		return err
	}
	return each(ctx, a, "persistentvolumeclaims", a.API.CoreV1().PersistentVolumeClaims(a.Namespace).List,
		func(pvc *corev1.PersistentVolumeClaim) {
			if pvc.DeletionTimestamp == nil {
				a.add("v1", "PersistentVolumeClaim", pvc, growing(pvc, classes))
			}
		})
}

func growing(pvc *corev1.PersistentVolumeClaim, classes map[string]*storagev1.StorageClass) []finding.Finding {
	had := pvc.DeepCopy()
	had.Spec.Resources.Requests = pvc.Status.Capacity
	if pvc.Status.Phase != corev1.ClaimBound || !volume.Grows(had, pvc) {
		return nil
	}
	findings := volume.ExplainClaim(had, pvc)
	if name := volume.ClassOf(pvc); name != "" {
		findings = append(findings, volume.ExplainClass(pvc, classes[name])...)
	}
	return findings
}
