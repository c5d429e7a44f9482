package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"quaymaster.dev/cmd/quaymaster/app"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/test/env"
)

const (
	release  = "quaymaster"
	webhooks = release + "-webhook"
	cloud    = release + "-controllers"
)

// What the API server asks the webhooks, and when: other Services cost no call, deletion always passes, and nobody waits long.
func TestWebhookConfigurations(t *testing.T) {
	objects := render(t, env.Values{})
	client := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: env.Namespace, Name: webhooks, Path: &path, Port: ptr.To[int32](443),
		}}
	}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}, Scope: ptr.To(admissionregistrationv1.NamespacedScope),
		},
	}}
	conditions := []admissionregistrationv1.MatchCondition{
		{Name: "not-being-deleted", Expression: "!has(object.metadata.deletionTimestamp)"},
		{Name: "load-balancer", Expression: "object.spec.type == 'LoadBalancer'"},
	}
	mutating := []admissionregistrationv1.MutatingWebhook{{
		Name: "mutate.service.quaymaster.dev", ClientConfig: client("/mutate-service"), Rules: rules,
		FailurePolicy: ptr.To(admissionregistrationv1.Ignore), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To[int32](3),
		AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy),
		MatchConditions: append(slices.Clone(conditions), admissionregistrationv1.MatchCondition{
			Name: "newly", Expression: "request.operation == 'CREATE' || oldObject.spec.type != 'LoadBalancer'",
		}),
	}}
	validating := []admissionregistrationv1.ValidatingWebhook{{
		Name: "validate.service.quaymaster.dev", ClientConfig: client("/validate-service"), Rules: rules,
		FailurePolicy: ptr.To(admissionregistrationv1.Ignore), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To[int32](3),
		AdmissionReviewVersions: []string{"v1"}, MatchConditions: conditions,
	}}
	gotMutating := find[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", release)
	if diff := cmp.Diff(mutating, gotMutating.Webhooks); diff != "" {
		t.Errorf("mutating (-want +got):\n%s", diff)
	}
	gotValidating := find[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", release)
	if diff := cmp.Diff(validating, gotValidating.Webhooks); diff != "" {
		t.Errorf("validating (-want +got):\n%s", diff)
	}
}

func TestInjectionOfTheAuthority(t *testing.T) {
	const annotation = "cert-manager.io/inject-ca-from"
	for name, want := range map[string]string{"default": "", "cert-manager": "quaymaster-system/quaymaster-webhook"} {
		for _, object := range render(t, cases()[name]) {
			if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") && object.GetAnnotations()[annotation] != want {
				t.Errorf("%s: %s is annotated with %q, want %q", name, object.GetKind(), object.GetAnnotations()[annotation], want)
			}
		}
	}
}

// Rights are spelt out, and those over objects that many share are bound to names.
func TestRights(t *testing.T) {
	// What a role may do by name alone.
	named := []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "namespaces", "secrets", "configmaps"}
	for name, values := range cases() {
		t.Run(name, func(t *testing.T) {
			for _, object := range render(t, values) {
				if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
					continue
				}
				role := find[rbacv1.ClusterRole](t, []*unstructured.Unstructured{object}, object.GetKind(), object.GetName())
				for _, rule := range role.Rules {
					all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
					if slices.Contains(all, "*") || slices.Contains(all, "escalate") || slices.Contains(all, "impersonate") {
						t.Errorf("%s may %v", role.Name, rule)
					}
					shared := slices.ContainsFunc(rule.Resources, func(r string) bool { return slices.Contains(named, r) })
					if shared && len(rule.ResourceNames) == 0 {
						t.Errorf("%s may %v without a name", role.Name, rule)
					}
				}
			}
		})
	}
}

// With certificates from files nobody writes the configurations.
func TestRightsOfTheWebhooks(t *testing.T) {
	for name, want := range map[string][]string{"default": {"get", "patch"}, "cert-manager": {"get"}} {
		role := find[rbacv1.ClusterRole](t, render(t, cases()[name]), "ClusterRole", webhooks)
		rules := []rbacv1.PolicyRule{{
			APIGroups: []string{"admissionregistration.k8s.io"}, ResourceNames: []string{release}, Verbs: want,
			Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
		}}
		if diff := cmp.Diff(rules, role.Rules); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Pods satisfy the strictest Pod Security level, the host's network of the controllers apart, and their flags exist.
func TestPods(t *testing.T) {
	for name, values := range cases() {
		t.Run(name, func(t *testing.T) {
			for _, object := range render(t, values) {
				if object.GetKind() != "Deployment" {
					continue
				}
				d := find[appsv1.Deployment](t, []*unstructured.Unstructured{object}, "Deployment", object.GetName())
				pod := d.Spec.Template.Spec
				if !ptr.Deref(pod.SecurityContext.RunAsNonRoot, false) || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
					t.Errorf("%s: security context of the pod is %+v", d.Name, pod.SecurityContext)
				}
				if pod.HostNetwork != strings.HasSuffix(d.Name, "-controllers") {
					t.Errorf("%s: hostNetwork is %t", d.Name, pod.HostNetwork)
				}
				if !within(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
					t.Errorf("%s does not select its pods", d.Name)
				}
				for _, c := range pod.Containers {
					s := c.SecurityContext
					if ptr.Deref(s.AllowPrivilegeEscalation, true) || !ptr.Deref(s.ReadOnlyRootFilesystem, false) ||
						!cmp.Equal(s.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}) {
						t.Errorf("%s: security context is %+v", c.Name, s)
					}
					cmd, flags, err := app.NewCommand().Find(c.Args)
					if err == nil {
						err = cmd.ParseFlags(flags)
					}
					if err != nil {
						t.Errorf("%s: arguments %v: %v", c.Name, c.Args, err)
					}
				}
			}
		})
	}
}

// The Service, the pods behind it and the certificate fit together.
func TestServiceOfTheWebhooks(t *testing.T) {
	objects := render(t, env.Values{})
	service := find[corev1.Service](t, objects, "Service", webhooks)
	deployment := find[appsv1.Deployment](t, objects, "Deployment", webhooks)
	if !within(service.Spec.Selector, deployment.Spec.Template.Labels) {
		t.Error("the Service does not select the pods")
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	port := service.Spec.Ports[0].TargetPort.StrVal
	if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port && p.ContainerPort == 9443 }) {
		t.Errorf("the pods have no port %q: %v", port, container.Ports)
	}
	if host := "--self-signed-hosts=" + webhooks + "." + env.Namespace + ".svc"; !slices.Contains(container.Args, host) {
		t.Errorf("the certificate is not for the Service: %v lack %s", container.Args, host)
	}
}

// The cloud config that the controllers find is one that they accept.
func TestCloudConfig(t *testing.T) {
	for name, want := range map[string]config.Config{
		"default": {
			ClusterID: "kubernetes", Endpoint: "https://api.mycloud.internal", TokenFile: "/var/run/secrets/quaymaster/token",
			LoadBalancerClass: "mycloud.io/dlb", Network: config.Network{SubnetIDs: []string{}}, IngressNodes: config.IngressNodes{Fallback: "all"},
		},
		"routes": {
			ClusterID: "prod", Endpoint: "https://api.mycloud.internal", TokenFile: "/var/run/secrets/quaymaster/token",
			LoadBalancerClass: "mycloud.io/dlb", IngressNodes: config.IngressNodes{Fallback: "all"},
			Network: config.Network{RouteTableID: "rt-main", SubnetIDs: []string{"subnet-a"}},
		},
	} {
		objects := render(t, cases()[name])
		got, err := config.Parse([]byte(find[corev1.ConfigMap](t, objects, "ConfigMap", cloud).Data["cloud.yaml"]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// within tells whether every label of the selector is there.
func within(selector, labels map[string]string) bool {
	for key := range maps.Keys(selector) {
		if labels[key] != selector[key] {
			return false
		}
	}
	return len(selector) > 0
}
