package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"

	"quaymaster.dev/api/v1alpha1"
	quayctl "quaymaster.dev/cmd/quayctl/app"
	controllers "quaymaster.dev/cmd/quaymaster-controllers/app"
	"quaymaster.dev/cmd/quaymaster/app"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/test/harness/env"
)

const (
	release  = "quaymaster"
	webhooks = release + "-webhook"
	cloud    = release + "-cloud"
)

// grows is true if a claim requests more than before.
const grows = "quantity(object.spec.?resources.?requests.?storage.orValue('0'))" +
	".isGreaterThan(quantity(oldObject.spec.?resources.?requests.?storage.orValue('0')))"

// TestWebhookConfigurations checks when the API server calls the webhooks: never for other Services or deletions, and
// with a short timeout.
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
	const (
		alive    = "!has(object.metadata.deletionTimestamp)"
		balancer = "object.spec.type == 'LoadBalancer' && " + alive + " && "
	)

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
			condition("new-or-other-defaults", balancer+"(request.operation == 'CREATE' || oldObject.spec.type != 'LoadBalancer' || "+
				"(object.metadata.?annotations != oldObject.metadata.?annotations && ( "+
				"object.metadata.?annotations[?'quaymaster.dev/refresh-defaults'] != oldObject.metadata.?annotations[?'quaymaster.dev/refresh-defaults'] || "+
				"(oldObject.metadata.?annotations[?'quaymaster.dev/defaulted'].hasValue() && !object.metadata.?annotations[?'quaymaster.dev/defaulted'].hasValue()) || "+
				"oldObject.metadata.?annotations[?'quaymaster.dev/defaulted'].orValue('').size() > 1024 || "+
				"oldObject.metadata.?annotations[?'quaymaster.dev/defaulted'].orValue('').split(',').exists(entry, "+
				"object.metadata.?annotations[?entry.split('=')[0]] != oldObject.metadata.?annotations[?entry.split('=')[0]]))))")),
		mutating("mutate.persistentvolume.quaymaster.dev", "/mutate-persistentvolume", rules("", "v1", "persistentvolumes", cluster, create, update),
			admissionregistrationv1.IfNeededReinvocationPolicy,
			condition("new-or-other-affinity", "has(object.spec.csi) && object.spec.csi.driver == 'csi.mycloud.io' && "+
				"(request.operation == 'CREATE' || object.spec.?nodeAffinity != oldObject.spec.?nodeAffinity)")),
		mutating("mutate.persistentvolumeclaim.quaymaster.dev", "/mutate-persistentvolumeclaim",
			rules("", "v1", "persistentvolumeclaims", namespaced, create, update),
			admissionregistrationv1.NeverReinvocationPolicy,
			condition("new-or-growing", alive+" && (request.operation == 'CREATE' || "+grows+")")),
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
	serviceRules := rules("", "v1", "services", namespaced, create, update)
	serviceRules[0].Resources = append(serviceRules[0].Resources, "services/status")
	wantValidating := []admissionregistrationv1.ValidatingWebhook{
		validating("validate.service.quaymaster.dev", "/validate-service", serviceRules,
			condition("load-balancer", "(object.spec.type == 'LoadBalancer' || object.metadata.?annotations.orValue({}).exists(key, "+
				"key.startsWith('service.beta.kubernetes.io/dlb-'))) && "+alive+" && (!has(request.subResource) || object.metadata.?annotations != oldObject.metadata.?annotations)")),
		validating("validate.persistentvolumeclaim.quaymaster.dev", "/validate-persistentvolumeclaim",
			rules("", "v1", "persistentvolumeclaims", namespaced, update), condition("growing", alive+" && "+grows)),
		validating("validate.loadbalancerpolicy.quaymaster.dev", "/validate-loadbalancerpolicy",
			rules(v1alpha1.Group, "v1alpha1", "loadbalancerpolicies", namespaced, create, update), condition("not-being-deleted", alive)),
		validating("validate.clusterloadbalancerpolicy.quaymaster.dev", "/validate-clusterloadbalancerpolicy",
			rules(v1alpha1.Group, "v1alpha1", "clusterloadbalancerpolicies", cluster, create, update), condition("not-being-deleted", alive)),
	}
	gotValidating := find[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", release)
	gotValidating.Webhooks = slices.DeleteFunc(gotValidating.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
		return w.Name == ofTemplates // see TestTemplateWebhook
	})
	if diff := cmp.Diff(wantValidating, gotValidating.Webhooks); diff != "" {
		t.Errorf("validating (-want +got):\n%s", diff)
	}
}

// TestFailurePolicies checks that each failure policy applies to its own webhooks.
func TestFailurePolicies(t *testing.T) {
	tests := map[string][]string{
		"mutateService":                 {"mutate.service.quaymaster.dev"},
		"mutatePersistentVolume":        {"mutate.persistentvolume.quaymaster.dev"},
		"mutatePersistentVolumeClaim":   {"mutate.persistentvolumeclaim.quaymaster.dev"},
		"validateService":               {"validate.service.quaymaster.dev"},
		"validateTemplate":              {ofTemplates},
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

// TestNamespaceSelector checks that users can select namespaces for Services and claims, but not for volumes and
// policies.
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
		"validate.service.quaymaster.dev": true, ofTemplates: true, "validate.persistentvolumeclaim.quaymaster.dev": true,
		"validate.loadbalancerpolicy.quaymaster.dev": false, "validate.clusterloadbalancerpolicy.quaymaster.dev": false,
	}
	if diff := cmp.Diff(want, selected); diff != "" {
		t.Errorf("webhooks with a selector (-want +got):\n%s", diff)
	}
}

// TestCAInjection checks that cert-manager injects the CA that signs the certificate, except in mode
// self-signed.
func TestCAInjection(t *testing.T) {
	const annotation = "cert-manager.io/inject-ca-from"
	for name, want := range map[string]string{
		"default":     "quaymaster-system/quaymaster-webhook-ca",
		"issuer":      "quaymaster-system/quaymaster-webhook",
		"monitored":   "quaymaster-system/quaymaster-webhook",
		"files":       "quaymaster-system/quaymaster-webhook",
		"self-signed": "",
		"development": "",
	} {
		for _, object := range render(t, cases()[name]) {
			if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") && object.GetAnnotations()[annotation] != want {
				t.Errorf("%s: %s is annotated with %q, want %q", name, object.GetKind(), object.GetAnnotations()[annotation], want)
			}
		}
	}
}

// The objects of cert-manager have only fields that cert-manager knows.
func TestCertManagerObjects(t *testing.T) {
	for name, test := range map[string]struct {
		values env.Values
		want   int
	}{
		"default": {cases()["default"], 4},
		"issuer":  {cases()["issuer"], 1},
		"names that look like numbers": {
			env.Values{"certs": map[string]any{"secretName": "1e3", "issuerRef": map[string]any{"group": "1.0", "kind": "Issuer", "name": "2024"}}}, 1,
		},
	} {
		args := find[appsv1.Deployment](t, render(t, test.values), "Deployment", webhooks).Spec.Template.Spec.Containers[0].Args
		decoded := 0
		for _, arg := range args {
			text, is := strings.CutPrefix(arg, "--cert-manager-object=")
			if !is {
				continue
			}
			var object any = &certmanagerv1.Issuer{}
			if strings.Contains(text, `"kind":"Certificate"`) {
				object = &certmanagerv1.Certificate{}
			}
			if problems, err := json.UnmarshalStrict([]byte(text), object); err != nil || len(problems) > 0 {
				t.Errorf("%s: %s: %v %v", name, text, problems, err)
			}
			decoded++
		}
		if decoded != test.want {
			t.Errorf("%s: %d objects, want %d", name, decoded, test.want)
		}
	}
}

// TestCertificateFlags checks the flags for each certificate mode.
func TestCertificateFlags(t *testing.T) {
	request := []string{"--cert-mode=cert-manager", "--cert-secret=quaymaster-webhook-tls", "--namespace=quaymaster-system"}
	object := func(kind, name, spec string) string {
		return fmt.Sprintf(`--cert-manager-object={"apiVersion":"cert-manager.io/v1","kind":%q,"metadata":{"labels":`+
			`{"app.kubernetes.io/managed-by":"quaymaster-webhook"},"name":%q,"namespace":"quaymaster-system"},"spec":%s}`, kind, name, spec)
	}
	serving := func(group, kind, name string) string {
		return object("Certificate", "quaymaster-webhook", fmt.Sprintf(
			`{"dnsNames":["quaymaster-webhook.quaymaster-system.svc"],"duration":"2160h0m0s","issuerRef":{"group":%q,"kind":%q,`+
				`"name":%q},"privateKey":{"algorithm":"ECDSA","rotationPolicy":"Always","size":256},"renewBefore":"720h0m0s",`+
				`"secretName":"quaymaster-webhook-tls","usages":["digital signature","server auth"]}`, group, kind, name))
	}
	tests := map[string][]string{
		"default": append([]string{
			object("Issuer", "quaymaster-webhook-selfsigned", `{"selfSigned":{}}`),
			object("Certificate", "quaymaster-webhook-ca", `{"commonName":"quaymaster.dev webhook authority","duration":"87600h0m0s",`+
				`"isCA":true,"issuerRef":{"group":"cert-manager.io","kind":"Issuer","name":"quaymaster-webhook-selfsigned"},`+
				`"privateKey":{"algorithm":"ECDSA","rotationPolicy":"Never","size":256},"secretName":"quaymaster-webhook-ca",`+
				`"usages":["cert sign"]}`),
			object("Issuer", "quaymaster-webhook-ca", `{"ca":{"secretName":"quaymaster-webhook-ca"}}`),
			serving("cert-manager.io", "Issuer", "quaymaster-webhook-ca"),
		}, request...),
		"issuer":    append([]string{serving("issuers.example.com", "ClusterIssuer", "internal")}, request...),
		"monitored": request,
		"self-signed": {
			"--cert-mode=self-signed", "--cert-secret=quaymaster-webhook-self-signed", "--self-signed-validity=48h",
			"--namespace=quaymaster-system", "--cert-hosts=quaymaster-webhook.quaymaster-system.svc",
		},
		"files": {"--cert-mode=files", "--tls-cert-file=/certs/tls.crt", "--tls-private-key-file=/certs/tls.key"},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, arg := range find[appsv1.Deployment](t, render(t, cases()[name]), "Deployment", webhooks).Spec.Template.Spec.Containers[0].Args {
				for _, prefix := range []string{"--cert-", "--namespace", "--self-signed", "--tls-"} {
					if strings.HasPrefix(arg, prefix) {
						got = append(got, arg)
					}
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// pods returns the pods of all workloads and of the test, by the name of their container.
func pods(t *testing.T, objects []*unstructured.Unstructured) map[string]corev1.PodTemplateSpec {
	t.Helper()
	found := map[string]corev1.PodTemplateSpec{}
	for _, object := range objects {
		path := []string{"spec", "template"}
		if object.GetKind() == "CronJob" {
			path = []string{"spec", "jobTemplate", "spec", "template"}
		}
		raw, ok, err := unstructured.NestedMap(object.Object, path...)
		if object.GetKind() == "Pod" {
			raw, ok = map[string]any{"metadata": object.Object["metadata"], "spec": object.Object["spec"]}, true
		}
		if !ok || err != nil || object.GetKind() == definition {
			continue
		}
		var template corev1.PodTemplateSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(raw, &template, true); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		if selector, ok, _ := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels"); ok && !selects(selector, template.Labels) {
			t.Errorf("%s %s does not select its pods", object.GetKind(), object.GetName())
		}
		found[template.Spec.Containers[0].Name] = template
	}
	return found
}

// TestPods checks for all installations that flags exist, that pods run with least privilege, and that tolerations do
// not expire.
func TestPods(t *testing.T) {
	for name, values := range cases() {
		t.Run(name, func(t *testing.T) {
			for role, template := range pods(t, render(t, values)) {
				pod := template.Spec
				if !ptr.Deref(pod.SecurityContext.RunAsNonRoot, false) || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
					t.Errorf("%s: security context of the pod is %+v", role, pod.SecurityContext)
				}
				c := pod.Containers[0]
				s := c.SecurityContext
				if ptr.Deref(s.AllowPrivilegeEscalation, true) || !ptr.Deref(s.ReadOnlyRootFilesystem, false) ||
					!cmp.Equal(s.Capabilities, &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}) {
					t.Errorf("%s: security context is %+v", role, s)
				}
				for _, toleration := range pod.Tolerations {
					if toleration.TolerationSeconds != nil {
						t.Errorf("%s: %+v expires", role, toleration)
					}
				}
				if pod.HostNetwork && pod.DNSPolicy != corev1.DNSDefault {
					t.Errorf("%s: DNS is %s on the host's network", role, pod.DNSPolicy)
				}
				root := app.NewCommand()
				if slices.Equal(c.Command, []string{"/quayctl"}) {
					root = quayctl.NewCommand("quayctl")
				}
				cmd, flags, err := root.Find(c.Args)
				if err == nil && cmd.DisableFlagParsing {
					// Another program parses the flags.
					cmd = controllers.NewCommand()
				}
				if err == nil {
					err = cmd.ParseFlags(flags)
				}
				if err != nil {
					t.Errorf("%s: arguments %v: %v", role, c.Args, err)
				}
			}
		})
	}
}

// TestHostNetwork checks that only pods that must work without a pod network use the host network.
func TestHostNetwork(t *testing.T) {
	tests := map[string]map[string]bool{
		"default":          {"webhook": false, "controllers": true, "test": false},
		"self-signed":      {"webhook": true, "controllers": true, "test": false},
		"controllers-only": {"controllers": true, "test": false},
		"webhooks-only":    {"webhook": false, "controllers": false, "test": false},
	}
	for name, want := range tests {
		got := map[string]bool{}
		for role, template := range pods(t, render(t, cases()[name])) {
			got[role] = template.Spec.HostNetwork
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAPIServerAddress checks that pods get the configured address, because they may run before the API server's
// Service works.
func TestAPIServerAddress(t *testing.T) {
	want := []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_HOST", Value: "10.0.0.2"}, {Name: "KUBERNETES_SERVICE_PORT", Value: "6443"}}
	for role, template := range pods(t, render(t, cases()["issuer"])) {
		if diff := cmp.Diff(want, variables(template.Spec.Containers[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role, diff)
		}
	}
}

// variables returns the environment that values of the chart determine: without the pod's own name.
func variables(container corev1.Container) []corev1.EnvVar {
	return slices.DeleteFunc(slices.Clone(container.Env), func(v corev1.EnvVar) bool { return v.Name == "POD_NAME" })
}

// TestCloudCertificates checks that the pods that use the cloud get its CAs and the client certificate, at the paths
// that the cloud config names.
func TestCloudCertificates(t *testing.T) {
	objects := render(t, cases()["routes"])
	data := find[corev1.ConfigMap](t, objects, "ConfigMap", cloud).Data
	cfg, err := config.Parse([]byte(data["cloud.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if data["ca.crt"] == "" || cfg.CAFile != "/etc/quaymaster/ca.crt" {
		t.Errorf("caFile is %q, the ConfigMap has %q", cfg.CAFile, data["ca.crt"])
	}
	const folder = "/var/run/secrets/quaymaster-client"
	if cfg.ClientCertFile != folder+"/tls.crt" || cfg.ClientKeyFile != folder+"/tls.key" {
		t.Errorf("client certificate %q with key %q", cfg.ClientCertFile, cfg.ClientKeyFile)
	}
	for role, template := range pods(t, objects) {
		mounts := map[string]string{}
		for _, m := range template.Spec.Containers[0].VolumeMounts {
			mounts[m.MountPath] = m.Name
		}
		secret := ""
		for _, v := range template.Spec.Volumes {
			if v.Name == mounts[folder] && v.Secret != nil {
				secret = v.Secret.SecretName
			}
		}
		want := map[bool]string{true: "cloud-client"}[role != "test"]
		if secret != want || (mounts["/etc/quaymaster"] != "") != (want != "") {
			t.Errorf("%s has the client certificate %q and the mounts %v", role, secret, mounts)
		}
	}
}

// TestWithoutCloud checks that controllers without a cloud do not interfere with another cloud-controller-manager and
// its lease.
func TestWithoutCloud(t *testing.T) {
	objects := render(t, cases()["webhooks-only"])
	args := pods(t, objects)["controllers"].Spec.Containers[0].Args
	for _, want := range []string{
		"--without-cloud", "--leader-elect-resource-name=admission-policy-controller", "--leader-elect-resource-namespace=" + env.Namespace,
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%v lack %s", args, want)
		}
	}
	role := find[rbacv1.Role](t, objects, "Role", "admission-controllers-leader-election")
	if role.Namespace != env.Namespace || !slices.Equal(role.Rules[1].ResourceNames, []string{"admission-policy-controller"}) {
		t.Errorf("the lease is in %s: %v", role.Namespace, role.Rules)
	}
}

// TestWebhookService checks that the Service selects the pods and uses one of their ports.
func TestWebhookService(t *testing.T) {
	objects := render(t, env.Values{})
	service := find[corev1.Service](t, objects, "Service", webhooks)
	deployment := find[appsv1.Deployment](t, objects, "Deployment", webhooks)
	if !selects(service.Spec.Selector, deployment.Spec.Template.Labels) {
		t.Error("the Service does not select the pods")
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	port := service.Spec.Ports[0].TargetPort.StrVal
	if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == port && p.ContainerPort == 9443 }) {
		t.Errorf("the pods have no port %q: %v", port, container.Ports)
	}
}

// TestCloudConfig checks that the rendered cloud config is valid.
func TestCloudConfig(t *testing.T) {
	for name, want := range map[string]config.Config{
		"default": {
			ClusterID: "kubernetes", Endpoint: "https://api.mycloud.internal", TokenFile: "/var/run/secrets/quaymaster/token",
			LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true, Network: config.Network{SubnetIDs: []string{}}, IngressNodes: config.IngressNodes{Fallback: "all", MaxRemovedPercentPerMinute: 10, MaxGroups: 50},
			QuotaPercent: 50, KubeProxyHealthCheckPort: 10256,
		},
		"certificate": {
			ClusterID: "kubernetes", Endpoint: "https://api.mycloud.internal", OtherEndpoints: []string{"https://api-2.mycloud.internal"},
			LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true,
			Network:      config.Network{SubnetIDs: []string{}},
			IngressNodes: config.IngressNodes{Fallback: "all", MaxRemovedPercentPerMinute: 10, MaxGroups: 50},
			QuotaPercent: 50, KubeProxyHealthCheckPort: 10256,
			ClientCertFile: "/var/run/secrets/quaymaster-client/tls.crt", ClientKeyFile: "/var/run/secrets/quaymaster-client/tls.key",
		},
		"routes": {
			ClusterID: "prod", Endpoint: "https://api.mycloud.internal", TokenFile: "/var/run/secrets/quaymaster/token",
			LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true, IngressNodes: config.IngressNodes{Fallback: "all", MaxRemovedPercentPerMinute: 10, MaxGroups: 50},
			Network:      config.Network{RouteTableID: "rt-main", SubnetIDs: []string{"subnet-a"}},
			QuotaPercent: 80, KubeProxyHealthCheckPort: 9999, CAFile: "/etc/quaymaster/ca.crt",
			ClientCertFile: "/var/run/secrets/quaymaster-client/tls.crt", ClientKeyFile: "/var/run/secrets/quaymaster-client/tls.key",
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

// TestPodCloudAccess checks that pods that use the cloud get its config and a token, which is optional for the
// webhooks.
func TestPodCloudAccess(t *testing.T) {
	type access struct {
		secret, key string
		optional    bool
	}
	tests := map[string]map[string]access{
		"default": {
			"webhook":     {"quaymaster-cloud-token", "token", true},
			"controllers": {"quaymaster-cloud-token", "token", false},
		},
		"certificate":         {"webhook": {}, "controllers": {}},
		"development":         {"controllers": {"quaymaster-cloud-token", "token", false}},
		"webhooks-only":       {},
		"webhooks-with-cloud": {"webhook": {"read-only", "reader", true}},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			objects := render(t, cases()[name])
			got := map[string]access{}
			for _, template := range pods(t, objects) {
				pod := template.Spec
				container := pod.Containers[0]
				if !slices.Contains(container.Args, "--cloud-config=/etc/quaymaster/cloud.yaml") {
					continue
				}
				got[container.Name] = access{}
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

// selects reports whether the labels match the selector.
func selects(selector, labels map[string]string) bool {
	for key := range maps.Keys(selector) {
		if labels[key] != selector[key] {
			return false
		}
	}
	return len(selector) > 0
}
