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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/cmd/quaymaster/app"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/test/env"
)

const (
	release  = "quaymaster"
	webhooks = release + "-webhook"
	cloud    = release + "-cloud"
)

// grows is when a claim asks for more than before.
const grows = "quantity(object.spec.?resources.?requests.?storage.orValue('0'))" +
	".isGreaterThan(quantity(oldObject.spec.?resources.?requests.?storage.orValue('0')))"

// What the API server asks the webhooks, and when: other Services cost no call, deletion always passes, and nobody waits long.
func TestWebhookConfigurations(t *testing.T) {
	objects := render(t, env.Values{})
	client := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: env.Namespace, Name: webhooks, Path: &path, Port: ptr.To[int32](443),
		}}
	}
	const (
		create, update      = admissionregistrationv1.Create, admissionregistrationv1.Update
		namespaced, cluster = admissionregistrationv1.NamespacedScope, admissionregistrationv1.ClusterScope
	)
	rules := func(group, version, resource string, scope admissionregistrationv1.ScopeType, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}, Scope: &scope,
		}}}
	}
	condition := func(name, expression string) admissionregistrationv1.MatchCondition {
		return admissionregistrationv1.MatchCondition{Name: name, Expression: expression}
	}
	alive := condition("not-being-deleted", "!has(object.metadata.deletionTimestamp)")
	balancer := condition("load-balancer", "object.spec.type == 'LoadBalancer'")

	mutating := func(name, path string, rules []admissionregistrationv1.RuleWithOperations, again admissionregistrationv1.ReinvocationPolicyType, conditions ...admissionregistrationv1.MatchCondition) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{
			Name: name, ClientConfig: client(path), Rules: rules, MatchConditions: conditions, ReinvocationPolicy: &again,
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To[int32](3), AdmissionReviewVersions: []string{"v1"},
		}
	}
	wantMutating := []admissionregistrationv1.MutatingWebhook{
		mutating("mutate.service.quaymaster.dev", "/mutate-service", rules("", "v1", "services", namespaced, create, update),
			admissionregistrationv1.IfNeededReinvocationPolicy,
			alive, balancer, condition("newly-or-without-defaults", "request.operation == 'CREATE' || oldObject.spec.type != 'LoadBalancer' || "+
				"(oldObject.metadata.?annotations[?'quaymaster.dev/defaulted'].hasValue() && !object.metadata.?annotations[?'quaymaster.dev/defaulted'].hasValue())")),
		mutating("mutate.persistentvolume.quaymaster.dev", "/mutate-persistentvolume", rules("", "v1", "persistentvolumes", cluster, create, update),
			admissionregistrationv1.IfNeededReinvocationPolicy,
			condition("of-the-cloud", "has(object.spec.csi) && object.spec.csi.driver == 'csi.mycloud.io'"),
			condition("new-or-other-affinity", "request.operation == 'CREATE' || object.spec.?nodeAffinity != oldObject.spec.?nodeAffinity")),
		mutating("mutate.persistentvolumeclaim.quaymaster.dev", "/mutate-persistentvolumeclaim",
			rules("", "v1", "persistentvolumeclaims", namespaced, create, update),
			admissionregistrationv1.NeverReinvocationPolicy,
			alive, condition("new-or-growing", "request.operation == 'CREATE' || "+grows)),
	}
	gotMutating := find[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", release)
	if diff := cmp.Diff(wantMutating, gotMutating.Webhooks); diff != "" {
		t.Errorf("mutating (-want +got):\n%s", diff)
	}

	validating := func(name, path string, rules []admissionregistrationv1.RuleWithOperations, conditions ...admissionregistrationv1.MatchCondition) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: name, ClientConfig: client(path), Rules: rules, MatchConditions: conditions,
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore), MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To[int32](3), AdmissionReviewVersions: []string{"v1"},
		}
	}
	wantValidating := []admissionregistrationv1.ValidatingWebhook{
		validating("validate.service.quaymaster.dev", "/validate-service", rules("", "v1", "services", namespaced, create, update), alive, balancer),
		validating("validate.persistentvolumeclaim.quaymaster.dev", "/validate-persistentvolumeclaim",
			rules("", "v1", "persistentvolumeclaims", namespaced, update), alive, condition("growing", grows)),
		validating("validate.loadbalancerpolicy.quaymaster.dev", "/validate-loadbalancerpolicy",
			rules(v1alpha1.Group, "v1alpha1", "loadbalancerpolicies", namespaced, create, update), alive),
		validating("validate.clusterloadbalancerpolicy.quaymaster.dev", "/validate-clusterloadbalancerpolicy",
			rules(v1alpha1.Group, "v1alpha1", "clusterloadbalancerpolicies", cluster, create, update), alive),
	}
	gotValidating := find[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", release)
	if diff := cmp.Diff(wantValidating, gotValidating.Webhooks); diff != "" {
		t.Errorf("validating (-want +got):\n%s", diff)
	}
}

// Each failure policy reaches its own webhooks.
func TestFailurePolicies(t *testing.T) {
	tests := map[string][]string{
		"mutateService":                 {"mutate.service.quaymaster.dev"},
		"mutatePersistentVolume":        {"mutate.persistentvolume.quaymaster.dev"},
		"mutatePersistentVolumeClaim":   {"mutate.persistentvolumeclaim.quaymaster.dev"},
		"validateService":               {"validate.service.quaymaster.dev"},
		"validatePersistentVolumeClaim": {"validate.persistentvolumeclaim.quaymaster.dev"},
		"validatePolicy":                {"validate.loadbalancerpolicy.quaymaster.dev", "validate.clusterloadbalancerpolicy.quaymaster.dev"},
	}
	for value, want := range tests {
		t.Run(value, func(t *testing.T) {
			objects := render(t, env.Values{"webhook": map[string]any{"failurePolicy": map[string]any{value: "Fail"}}})
			var got []string
			for _, w := range find[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", release).Webhooks {
				if *w.FailurePolicy == admissionregistrationv1.Fail {
					got = append(got, w.Name)
				}
			}
			for _, w := range find[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", release).Webhooks {
				if *w.FailurePolicy == admissionregistrationv1.Fail {
					got = append(got, w.Name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("webhooks that fail (-want +got):\n%s", diff)
			}
		})
	}
}

// Users choose where their Services and claims are reviewed, not where volumes and policies are.
func TestNamespaceSelector(t *testing.T) {
	objects := render(t, cases()["webhooks-only"])
	selected := map[string]bool{}
	for _, w := range find[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", "admission").Webhooks {
		selected[w.Name] = w.NamespaceSelector != nil
	}
	for _, w := range find[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", "admission").Webhooks {
		selected[w.Name] = w.NamespaceSelector != nil
	}
	want := map[string]bool{
		"mutate.service.quaymaster.dev": true, "mutate.persistentvolume.quaymaster.dev": false, "mutate.persistentvolumeclaim.quaymaster.dev": true,
		"validate.service.quaymaster.dev": true, "validate.persistentvolumeclaim.quaymaster.dev": true,
		"validate.loadbalancerpolicy.quaymaster.dev": false, "validate.clusterloadbalancerpolicy.quaymaster.dev": false,
	}
	if diff := cmp.Diff(want, selected); diff != "" {
		t.Errorf("webhooks with a selector (-want +got):\n%s", diff)
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

// The cloud config that both roles find is one that they accept.
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

// Who asks the cloud has its config and a token; the webhooks serve without either.
func TestCloudOfThePods(t *testing.T) {
	type access struct {
		secret, key string
		optional    bool
	}
	tests := map[string]map[string]access{
		"default": {
			"webhook":     {"quaymaster-cloud-token", "token", true},
			"controllers": {"quaymaster-cloud-token", "token", false},
		},
		"development":         {"controllers": {"quaymaster-cloud-token", "token", false}},
		"webhooks-only":       {},
		"webhooks-with-cloud": {"webhook": {"read-only", "reader", true}},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			objects := render(t, cases()[name])
			got := map[string]access{}
			for _, object := range objects {
				if object.GetKind() != "Deployment" {
					continue
				}
				pod := find[appsv1.Deployment](t, []*unstructured.Unstructured{object}, "Deployment", object.GetName()).Spec.Template.Spec
				container := pod.Containers[0]
				if !slices.Contains(container.Args, "--cloud-config=/etc/quaymaster/cloud.yaml") {
					continue
				}
				for _, volume := range pod.Volumes {
					if volume.ConfigMap != nil {
						find[corev1.ConfigMap](t, objects, "ConfigMap", volume.ConfigMap.Name)
					}
					if volume.Name == "token" {
						s := volume.Secret
						got[container.Name] = access{s.SecretName, s.Items[0].Key, ptr.Deref(s.Optional, false)}
					}
				}
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(access{})); diff != "" {
				t.Errorf("tokens by role (-want +got):\n%s", diff)
			}
			configured := slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
			if configured != (len(want) > 0) {
				t.Errorf("a cloud config is rendered: %t", configured)
			}
		})
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
