// Package audit judges the objects of a cluster as admission would judge them today. It only reads.
package audit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/lint"
	"quaymaster.dev/internal/report"
	"quaymaster.dev/internal/volume"
)

// Options are what an audit needs.
type Options struct {
	API kubernetes.Interface
	// Objects reads the policies.
	Objects dynamic.Interface
	// Namespace is the only one to look at; empty for all, and for PersistentVolumes.
	Namespace string
	// Catalogs and Class are as in lint.JudgeOptions.
	Catalogs []string
	Class    string
	// OnProgress is told how many objects of a resource have been looked at; nil if nobody wants to know.
	OnProgress func(resource string, seen int)
}

// Report is what an audit found.
type Report struct {
	// Results are those of objects with findings, in the order of the API server.
	Results []report.Result
	// Judged is how many objects were judged.
	Judged int
}

// Run judges every object. An error means that something could not be read, so that nothing can be said of the whole.
func Run(ctx context.Context, o Options) (Report, error) {
	a := &audit{Options: o}
	for _, step := range []func(context.Context) error{a.services, a.volumes, a.claims} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	return a.Report, nil
}

type audit struct {
	Options
	Report
}

// services are judged by the policies and the namespaces as they are now.
func (a *audit) services(ctx context.Context) error {
	namespaces, err := a.namespaces(ctx)
	if err != nil {
		return err
	}
	policies, err := a.policies(ctx)
	if err != nil {
		return err
	}
	judge := lint.NewJudge(lint.JudgeOptions{Catalogs: a.Catalogs, Class: a.Class, Policies: policies, Namespaces: namespaces})
	return each(ctx, a, "services", a.API.CoreV1().Services(a.Namespace).List, func(svc *corev1.Service) {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.DeletionTimestamp == nil {
			a.add("Service", svc.ObjectMeta, judge.Findings(svc))
		}
	})
}

// volumes are judged as far as that needs no cloud.
func (a *audit) volumes(ctx context.Context) error {
	if a.Namespace != "" {
		return nil
	}
	return each(ctx, a, "persistentvolumes", a.API.CoreV1().PersistentVolumes().List, func(pv *corev1.PersistentVolume) {
		if volume.Zoned(pv) && pv.DeletionTimestamp == nil {
			var findings []finding.Finding
			if labels, ok := volume.Trusted(pv); ok {
				findings = volume.ApplyZones(pv, labels).Findings
			}
			a.add("PersistentVolume", pv.ObjectMeta, findings)
		}
	})
}

func (a *audit) namespaces(ctx context.Context) (map[string]map[string]string, error) {
	labels := map[string]map[string]string{}
	if a.Namespace != "" {
		namespace, err := a.API.CoreV1().Namespaces().Get(ctx, a.Namespace, metav1.GetOptions{})
		if err != nil {
			return nil, unread(err, "get", "namespaces")
		}
		labels[namespace.Name] = namespace.Labels
		return labels, nil
	}
	err := each(ctx, a, "namespaces", a.API.CoreV1().Namespaces().List, func(namespace *corev1.Namespace) {
		labels[namespace.Name] = namespace.Labels
	})
	return labels, err
}

func (a *audit) add(kind string, meta metav1.ObjectMeta, findings []finding.Finding) {
	a.Judged++
	if shown := report.Findings(findings); len(shown) > 0 {
		a.Results = append(a.Results, report.Result{
			Object: report.Object{Kind: kind, Namespace: meta.Namespace, Name: meta.Name}, Findings: shown,
		})
	}
}

// claims are judged where they ask for more than they have: that is a growth whose conditions can still be looked at.
func (a *audit) claims(ctx context.Context) error {
	classes := map[string]*storagev1.StorageClass{}
	err := each(ctx, a, "storageclasses.storage.k8s.io", a.API.StorageV1().StorageClasses().List, func(class *storagev1.StorageClass) {
		classes[class.Name] = class
	})
	if err != nil {
		return err
	}
	return each(ctx, a, "persistentvolumeclaims", a.API.CoreV1().PersistentVolumeClaims(a.Namespace).List, func(pvc *corev1.PersistentVolumeClaim) {
		if pvc.DeletionTimestamp == nil {
			a.add("PersistentVolumeClaim", pvc.ObjectMeta, growing(pvc, classes))
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
