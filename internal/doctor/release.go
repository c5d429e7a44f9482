package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of the chart's objects. The objects are found by label because their names vary.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"

	webhookComponent     = "webhook"
	controllersComponent = "controllers"
	auditComponent       = "audit"
)

// release holds the objects of the installation that exist in the cluster.
type release struct {
	// webhook, controllers and audit are nil if the role is not installed.
	webhook, controllers, audit *role
	// lease is nil unless a replica of the controllers holds it.
	lease      *held
	mutating   []admissionregistrationv1.MutatingWebhookConfiguration
	validating []admissionregistrationv1.ValidatingWebhookConfiguration
}

// role describes how a role runs.
type role struct {
	component string
	// account is the name of its ServiceAccount.
	account string
	// uid is that of its Deployment or DaemonSet, and observed is true if kube-controller-manager has seen its current
	// state.
	uid      types.UID
	observed bool
	// template is the template of its pods; nil if the role is not deployed by the chart.
	template *corev1.PodTemplateSpec
	// ready and wanted are the numbers of ready and desired pods.
	ready, wanted int32
}

// selector selects the objects of a component; empty selects all objects of the release. Without the name of a release,
// it selects those of all releases.
func (e *examination) selector(component string) metav1.ListOptions {
	set := labels.Set{labelName: "quaymaster"}
	if e.Release != "" {
		set[labelInstance] = e.Release
	}
	if component != "" {
		set[labelComponent] = component
	}
	return metav1.ListOptions{LabelSelector: set.String()}
}

// installed reads the release's objects for the following checks.
func (e *examination) installed(ctx context.Context) Result {
	const what = "the release's objects"
	accounts, err := e.API.CoreV1().ServiceAccounts(e.Namespace).List(ctx, e.selector(""))
	if err != nil {
		return unread(what, err)
	}
	if r := e.choose(accounts.Items); r.Level != OK {
		return r
	}
	deployments, err := e.API.AppsV1().Deployments(e.Namespace).List(ctx, e.selector(""))
	if err != nil {
		return unread(what, err)
	}
	daemonSets, err := e.API.AppsV1().DaemonSets(e.Namespace).List(ctx, e.selector(""))
	if err != nil {
		return unread(what, err)
	}
	mutating, err := e.API.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, e.selector(""))
	if err != nil {
		return unread(what, err)
	}
	validating, err := e.API.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, e.selector(""))
	if err != nil {
		return unread(what, err)
	}
	e.release = release{
		webhook:     findRole(webhookComponent, accounts.Items),
		controllers: findRole(controllersComponent, accounts.Items),
		audit:       findRole(auditComponent, accounts.Items),
		mutating:    mutating.Items, validating: validating.Items,
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		e.release.run(&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, d.Status.ReadyReplicas, wanted)
	}
	for i := range daemonSets.Items {
		d := &daemonSets.Items[i]
		e.release.run(&d.ObjectMeta, &d.Spec.Template, d.Status.ObservedGeneration, d.Status.NumberReady,
			d.Status.DesiredNumberScheduled)
	}
	var parts []string
	for _, part := range []struct {
		name string
		role *role
	}{{webhookComponent, e.release.webhook}, {controllersComponent, e.release.controllers}} {
		if part.role != nil {
			parts = append(parts, part.name+" "+part.role.describe())
		}
	}
	return ok("%s in namespace %s: %s", e.Release, e.Namespace, strings.Join(parts, ", "))
}

// choose determines the release from the ServiceAccounts of all releases that the options allow.
func (e *examination) choose(accounts []corev1.ServiceAccount) Result {
	found := map[[2]string]bool{}
	for i := range accounts {
		found[[2]string{accounts[i].Namespace, accounts[i].Labels[labelInstance]}] = true
	}
	var names []string
	for at := range found {
		names = append(names, at[1]+" in namespace "+at[0])
	}
	slices.Sort(names)
	where := "any namespace"
	if e.Namespace != "" {
		where = "namespace " + e.Namespace
	}
	switch {
	case len(found) == 0 && e.Namespace == "" && e.Release == "":
		return fail("install the chart", "no release of Quaymaster is installed: there is no ServiceAccount of one")
	case len(found) == 0:
		return fail("install the chart, or correct --release and --release-namespace; without them, the release is found",
			"release %s is not installed in %s: it has no ServiceAccount there", cmp.Or(e.Release, "of Quaymaster"),
			where)
	case len(found) > 1:
		return fail("choose one with --release and --release-namespace", "there are several releases: %s",
			strings.Join(names, ", "))
	}
	e.Namespace, e.Release = accounts[0].Namespace, accounts[0].Labels[labelInstance]
	return ok("%s", names[0])
}

func findRole(component string, accounts []corev1.ServiceAccount) *role {
	at := slices.IndexFunc(accounts,
		func(a corev1.ServiceAccount) bool { return a.Labels[labelComponent] == component })
	if at < 0 {
		return nil
	}
	return &role{component: component, account: accounts[at].Name}
}

// run records the Deployment or DaemonSet of a component.
func (r *release) run(
	workload *metav1.ObjectMeta, template *corev1.PodTemplateSpec, observed int64, ready, wanted int32,
) {
	for _, role := range []*role{r.webhook, r.controllers} {
		if role != nil && role.component == workload.Labels[labelComponent] {
			role.uid, role.observed = workload.UID, observed >= workload.Generation
			role.template, role.ready, role.wanted = template, ready, wanted
		}
	}
}

func (r *role) describe() string {
	if r.template == nil {
		return "not deployed by the chart"
	}
	return fmt.Sprintf("%d of %d pods ready", r.ready, r.wanted)
}

// argument returns the value of a command-line flag of the role; the last one wins.
func (r *role) argument(flag string) (value string, given bool) {
	if r == nil || r.template == nil {
		return "", false
	}
	for _, container := range r.template.Spec.Containers {
		for _, arg := range slices.Concat(container.Command, container.Args) {
			name, v, _ := strings.Cut(arg, "=")
			if name == flag {
				value, given = v, true
			}
		}
	}
	return value, given
}

// argumentOr returns the value of a command-line flag, or its default.
func (r *role) argumentOr(flag, defaultValue string) string {
	if value, given := r.argument(flag); given {
		return value
	}
	return defaultValue
}
