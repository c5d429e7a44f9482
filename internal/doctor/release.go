package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Labels of the chart's objects. The objects are found by label because their names vary.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"

	webhookComponent     = "webhook"
	controllersComponent = "controllers"
)

// release holds the objects of the installation that exist in the cluster.
type release struct {
	// webhook and controllers are nil if the role is not installed.
	webhook, controllers *role
	mutating             []admissionregistrationv1.MutatingWebhookConfiguration
	validating           []admissionregistrationv1.ValidatingWebhookConfiguration
}

// role describes how a role runs.
type role struct {
	// account is the name of its ServiceAccount.
	account string
	// template is the template of its pods; nil if the role is not deployed by the chart.
	template *corev1.PodTemplateSpec
	// ready and wanted are the numbers of ready and desired pods.
	ready, wanted int32
}

// selector selects the objects of a component; empty selects all objects of the release.
func (e *examination) selector(component string) metav1.ListOptions {
	set := labels.Set{labelName: "quaymaster", labelInstance: e.Release}
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
		mutating:    mutating.Items, validating: validating.Items,
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		e.release.run(d.Labels[labelComponent], &d.Spec.Template, d.Status.ReadyReplicas, wanted)
	}
	for i := range daemonSets.Items {
		d := &daemonSets.Items[i]
		e.release.run(d.Labels[labelComponent], &d.Spec.Template, d.Status.NumberReady, d.Status.DesiredNumberScheduled)
	}
	if e.release.webhook == nil && e.release.controllers == nil {
		return fail("install the chart, or set --release and --namespace to the installed release",
			"release %s is not installed in namespace %s: it has no ServiceAccount there", e.Release, e.Namespace)
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

func findRole(component string, accounts []corev1.ServiceAccount) *role {
	at := slices.IndexFunc(accounts,
		func(a corev1.ServiceAccount) bool { return a.Labels[labelComponent] == component })
	if at < 0 {
		return nil
	}
	return &role{account: accounts[at].Name}
}

// run records the workload of a component.
func (r *release) run(component string, template *corev1.PodTemplateSpec, ready, wanted int32) {
	for name, role := range map[string]*role{webhookComponent: r.webhook, controllersComponent: r.controllers} {
		if name == component && role != nil {
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
