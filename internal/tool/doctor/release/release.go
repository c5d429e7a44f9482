// Package release finds the installed release of the chart: its roles, how they run and with which flags, its webhook
// configurations and its cloud config. All other checks build on it.
package release

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/tool/doctor"
)

// Labels of the chart's objects. The objects are found by label because their names vary.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"

	WebhookComponent     = "webhook"
	ControllersComponent = "controllers"
	auditComponent       = "audit"
)

// Release is a release in a cluster, and the access to it. Its methods that return a result are the checks that find
// what the fields contain.
type Release struct {
	// API and Objects are the typed and the dynamic client of the cluster.
	API     kubernetes.Interface
	Objects dynamic.Interface
	// Clock is the clock of this machine.
	Clock clock.PassiveClock
	// Namespace and Name identify the release; Installed finds those that are empty.
	Namespace, Name string
	// Within limits the Services and policies that are looked at to a namespace; empty for all.
	Within string
	// OwnConfig is true if the user has named a cloud config.
	OwnConfig bool

	// Webhook, Controllers and Audit are nil if the role is not installed.
	Webhook, Controllers, Audit *Role
	Mutating                    []admissionregistrationv1.MutatingWebhookConfiguration
	Validating                  []admissionregistrationv1.ValidatingWebhookConfiguration
	// Epoch is the number of transitions of the lease of the controllers, which increases with every leader; nil unless
	// one of them holds it.
	Epoch *int64
	// Config is the cloud config; nil if there is none, or if it cannot be read. NoConfig says why.
	Config   *config.Config
	NoConfig string
	// CA has the authorities of the cloud's certificate in PEM; if empty, those of the system are trusted.
	CA []byte

	// offset is how far the API server's clock is ahead of this machine's.
	offset time.Duration
}

// Selector selects the objects of a component; empty selects all objects of the release. Without the name of a release,
// it selects those of all releases.
func (r *Release) Selector(component string) metav1.ListOptions {
	set := labels.Set{LabelName: "quaymaster"}
	if r.Name != "" {
		set[LabelInstance] = r.Name
	}
	if component != "" {
		set[LabelComponent] = component
	}
	return metav1.ListOptions{LabelSelector: set.String()}
}

// Kubectl returns a kubectl command for the namespace of the release.
func (r *Release) Kubectl(command string) string {
	return "kubectl --namespace " + r.Namespace + " " + command
}

// LogCommand returns the command that shows the log of a role.
func (r *Release) LogCommand(component string) string {
	return r.Kubectl("logs --prefix --selector " + LabelComponent + "=" + component)
}

// Scope says in which namespace Services were looked at.
func (r *Release) Scope() string {
	if r.Within == "" {
		return ""
	}
	return " in namespace " + r.Within
}

// Installed reads the objects of the release.
func (r *Release) Installed(ctx context.Context) doctor.Result {
	const what = "the release's objects"
	accounts, err := r.API.CoreV1().ServiceAccounts(r.Namespace).List(ctx, r.Selector(""))
	if err != nil {
		return doctor.Unread(what, err)
	}
	if result := r.choose(accounts.Items); result.Level != doctor.OK {
		return result
	}
	deployments, err := r.API.AppsV1().Deployments(r.Namespace).List(ctx, r.Selector(""))
	if err != nil {
		return doctor.Unread(what, err)
	}
	daemonSets, err := r.API.AppsV1().DaemonSets(r.Namespace).List(ctx, r.Selector(""))
	if err != nil {
		return doctor.Unread(what, err)
	}
	mutating, err := r.API.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, r.Selector(""))
	if err != nil {
		return doctor.Unread(what, err)
	}
	validating, err := r.API.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, r.Selector(""))
	if err != nil {
		return doctor.Unread(what, err)
	}
	r.Webhook = findRole(WebhookComponent, accounts.Items)
	r.Controllers = findRole(ControllersComponent, accounts.Items)
	r.Audit = findRole(auditComponent, accounts.Items)
	r.Mutating, r.Validating = mutating.Items, validating.Items
	if r.Audit != nil {
		jobs, err := r.API.BatchV1().CronJobs(r.Namespace).List(ctx, r.Selector(auditComponent))
		if apierrors.IsForbidden(err) {
			jobs = &batchv1.CronJobList{} // without it, only fewer rights of the audit are checked
		} else if err != nil {
			return doctor.Unread(what, err)
		}
		for i := range jobs.Items {
			r.Audit.Template = &jobs.Items[i].Spec.JobTemplate.Spec.Template
		}
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		r.deployed(&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, d.Status.ReadyReplicas,
			ptr.Deref(d.Spec.Replicas, 1))
	}
	for i := range daemonSets.Items {
		d := &daemonSets.Items[i]
		r.deployed(&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, d.Status.NumberReady,
			d.Status.DesiredNumberScheduled)
	}
	var parts []string
	for _, role := range []*Role{r.Webhook, r.Controllers} {
		if role != nil {
			parts = append(parts, role.Component+" "+role.Describe())
		}
	}
	return doctor.Passed("%s in namespace %s: %s", r.Name, r.Namespace, strings.Join(parts, ", "))
}

// choose determines the release from the ServiceAccounts of all releases that the options allow.
func (r *Release) choose(accounts []corev1.ServiceAccount) doctor.Result {
	var found []string
	for i := range accounts {
		found = append(found, accounts[i].Labels[LabelInstance]+" in namespace "+accounts[i].Namespace)
	}
	slices.Sort(found)
	found = slices.Compact(found)
	where := "any namespace"
	if r.Namespace != "" {
		where = "namespace " + r.Namespace
	}
	switch {
	case len(found) == 0 && r.Namespace == "" && r.Name == "":
		return doctor.Failed("install the chart", "no release of Quaymaster is installed: there is no ServiceAccount of one")
	case len(found) == 0:
		return doctor.Failed(
			"install the chart, or correct --release and --release-namespace; without them, the release is found",
			"release %s is not installed in %s: it has no ServiceAccount there", cmp.Or(r.Name, "of Quaymaster"), where)
	case len(found) > 1:
		return doctor.Failed("choose one with --release and --release-namespace", "there are several releases: %s",
			strings.Join(found, ", "))
	}
	r.Namespace, r.Name = accounts[0].Namespace, accounts[0].Labels[LabelInstance]
	return doctor.Passed("%s", found[0])
}

// deployed records the Deployment or DaemonSet of a component.
func (r *Release) deployed(
	workload *metav1.ObjectMeta, template *corev1.PodTemplateSpec, observed int64, ready, wanted int32,
) {
	for _, role := range []*Role{r.Webhook, r.Controllers} {
		if role != nil && role.Component == workload.Labels[LabelComponent] {
			role.UID, role.Observed = workload.UID, observed >= workload.Generation
			role.Template, role.Ready, role.Wanted = template, ready, wanted
		}
	}
}
