package operations_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/test/harness/env"
)

// well holds the levels of an installation without problems, whose webhooks run on loopback.
func well() map[string]doctor.Level {
	return map[string]doctor.Level{
		"api-server": doctor.OK, "release": doctor.OK, "crds": doctor.OK, "webhook-configurations": doctor.OK,
		"webhook-service": doctor.Skip, "dns": doctor.Skip, "admission": doctor.OK, "ca-bundle": doctor.OK,
		"certificate": doctor.Skip, "cert-manager": doctor.Skip, "rights": doctor.OK, "controllers": doctor.OK,
		"cloud-config": doctor.OK, "cloud": doctor.OK, "nodes": doctor.OK, "stored-services": doctor.OK, "load-balancers": doctor.OK, "orphans": doctor.OK, "brakes": doctor.OK, "policies": doctor.OK,
	}
}

func remove(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := shared.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	// The deletion of a CRD deletes its objects first.
	for _, object := range objects {
		gone(t, object)
	}
}

// gone waits until the object no longer exists.
func gone(t *testing.T, object client.Object) {
	t.Helper()
	env.Eventually(t, 30*time.Second, "the end of "+object.GetName(), func(ctx context.Context) error {
		err := shared.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			err = errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
}

func definition(name string) client.Object {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(name)
	return crd
}

// held is a policy that blocks the deletion of its CRD.
func held() *v1alpha1.LoadBalancerPolicy {
	return &v1alpha1.LoadBalancerPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "held", Finalizers: []string{"example.com/hold"}},
		Spec:       v1alpha1.LoadBalancerPolicySpec{Defaults: map[string]string{"service.beta.kubernetes.io/dlb-listener-maxqps": "5000"}},
	}
}

func deleteHeldDefinition(t *testing.T) {
	if err := shared.Client.Create(t.Context(), held()); err != nil {
		t.Fatal(err)
	}
	if err := shared.Client.Delete(t.Context(), definition("loadbalancerpolicies.quaymaster.dev")); err != nil {
		t.Fatal(err)
	}
}

// waitDefinitionGone waits until the CRD is deleted.
func waitDefinitionGone(t *testing.T) {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := shared.Client.Patch(t.Context(), held(), patch); err != nil {
		t.Fatal(err)
	}
	gone(t, definition("loadbalancerpolicies.quaymaster.dev"))
}

// Every failure is found by the check for it, with a remedy; checks that depend on it are skipped, and all others pass.
func TestDoctorFindsWhatBreaks(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "quaymaster"}
	restarted := func(t *testing.T, server *env.Server) {
		if err := server.Restart(t.Context()); err != nil {
			t.Error(err)
		}
	}
	reinstall := func(t *testing.T) {
		if err := install(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, tc := range []struct {
		name          string
		spoil, repair func(t *testing.T)
		fails         string
		found, remedy string
		skipped       []string
	}{
		{
			name: "no validating configuration",
			spoil: func(t *testing.T) {
				remove(t, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta})
			},
			// A restart writes the authority into the recreated objects.
			repair: func(t *testing.T) {
				reinstall(t)
				shared.webhook.Kill()
				restarted(t, &shared.webhook.Server)
			},
			fails: "webhook-configurations", found: "the ValidatingWebhookConfiguration is missing", remedy: "helm upgrade",
			skipped: []string{"admission", "ca-bundle"},
		},
		{
			name: "no definitions",
			spoil: func(t *testing.T) {
				remove(t, definition("loadbalancerpolicies.quaymaster.dev"), definition("clusterloadbalancerpolicies.quaymaster.dev"))
			},
			repair: reinstall,
			fails:  "crds", found: "loadbalancerpolicies.quaymaster.dev is missing; clusterloadbalancerpolicies.quaymaster.dev is missing",
			remedy: "crds.enabled=true", skipped: []string{"policies"},
		},
		{
			name: "definition that is being deleted", spoil: deleteHeldDefinition, repair: func(t *testing.T) { waitDefinitionGone(t); reinstall(t) },
			fails: "crds", found: "loadbalancerpolicies.quaymaster.dev is being deleted, with all policies of its kind",
			remedy: "finalizers of the policies that block its deletion; then install them", skipped: []string{"policies"},
		},
		{
			name:   "webhook stopped",
			spoil:  func(*testing.T) { shared.webhook.Kill() },
			repair: func(t *testing.T) { restarted(t, &shared.webhook.Server) },
			fails:  "admission", found: "connection refused", remedy: "the logs of the webhook's pods",
		},
		{
			name: "no rights",
			spoil: func(t *testing.T) {
				remove(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "quaymaster-webhook"}})
			},
			repair: reinstall,
			fails:  "rights", found: "quaymaster-webhook cannot list mutatingwebhookconfigurations.admissionregistration.k8s.io quaymaster",
			remedy: "helm upgrade",
		},
		{
			name:   "cloud stopped",
			spoil:  func(*testing.T) { shared.cloud.Kill() },
			repair: func(t *testing.T) { restarted(t, &shared.cloud.Server) },
			fails:  "cloud", found: "no response: ", remedy: "check that the API of the cloud runs at " + shared.cloud.Endpoint,
			skipped: []string{"orphans"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spoil(t)
			want := well()
			want[tc.fails] = doctor.Fail
			for _, check := range tc.skipped {
				want[check] = doctor.Skip
			}
			result := wait(t, want)[tc.fails]
			if !strings.Contains(result.Found, tc.found) || !strings.Contains(result.Remedy, tc.remedy) {
				t.Errorf("got %+v, want %q and %q", result, tc.found, tc.remedy)
			}
			tc.repair(t)
			wait(t, well())
		})
	}
}

// A configuration with the wrong authority is found by its effect: the API server no longer trusts the webhooks. They
// would repair it, but for the missing permission.
func TestDoctorFindsAWrongAuthority(t *testing.T) {
	remove(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "quaymaster-webhook"}})
	want := well()
	want["rights"] = doctor.Fail
	wait(t, want)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Name: "quaymaster"}, configuration); err != nil {
		t.Fatal(err)
	}
	right := configuration.DeepCopy()
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = shared.Admin.CAData
	}
	if err := shared.Client.Patch(t.Context(), configuration, client.MergeFrom(right)); err != nil {
		t.Fatal(err)
	}
	want["admission"] = doctor.Fail
	result := wait(t, want)["admission"]
	if !strings.Contains(result.Found, "x509: certificate signed by unknown authority") || !strings.Contains(result.Remedy, "ca-bundle") {
		t.Errorf("got %+v", result)
	}
	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, well())
}

// With the failure policy Ignore, only the doctor reports that no webhook answers.
func TestDoctorSeesWhatFailsOpen(t *testing.T) {
	v := values(shared.port)
	v["webhook"].(map[string]any)["failurePolicy"] = map[string]any{"mutateService": "Ignore", "validateService": "Ignore"}
	if err := shared.InstallChart(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	shared.webhook.Kill()
	want := well()
	want["admission"] = doctor.Fail
	if result := wait(t, want)["admission"]; !strings.Contains(result.Found, "no webhook answers the API server, and the failure policy is Ignore") {
		t.Errorf("got %+v", result)
	}
	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := shared.webhook.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, well())
}

// A role that the chart does not run is not checked, and a wrong release name is reported.
func TestDoctorNamesTheRelease(t *testing.T) {
	found := wait(t, map[string]doctor.Level{
		"api-server": doctor.OK, "release": doctor.Fail, "crds": doctor.OK, "webhook-configurations": doctor.Skip,
		"webhook-service": doctor.Skip, "dns": doctor.Skip, "admission": doctor.Skip, "ca-bundle": doctor.Skip,
		"certificate": doctor.Skip, "cert-manager": doctor.Skip, "rights": doctor.Skip, "controllers": doctor.Skip,
		"cloud-config": doctor.Skip, "cloud": doctor.OK, "nodes": doctor.Skip, "stored-services": doctor.Skip, "load-balancers": doctor.Skip, "orphans": doctor.OK, "brakes": doctor.Skip,
		"policies": doctor.OK,
	}, "--release=other")
	if !strings.Contains(found["release"].Remedy, "--release") {
		t.Errorf("got %+v", found["release"])
	}
}

// An unprivileged user gets warnings for what is not readable, and no failure.
func TestDoctorForAnOrdinaryUser(t *testing.T) {
	found := wait(t, map[string]doctor.Level{
		"api-server": doctor.OK, "release": doctor.Warn, "crds": doctor.Warn, "webhook-configurations": doctor.Skip,
		"webhook-service": doctor.Skip, "dns": doctor.Skip, "admission": doctor.Skip, "ca-bundle": doctor.Skip,
		"certificate": doctor.Skip, "cert-manager": doctor.Skip, "rights": doctor.Skip, "controllers": doctor.Skip,
		"cloud-config": doctor.Skip, "cloud": doctor.OK, "nodes": doctor.Skip, "stored-services": doctor.Skip, "load-balancers": doctor.Skip, "orphans": doctor.Warn, "brakes": doctor.Skip,
		"policies": doctor.Skip,
	}, "--kubeconfig="+shared.DeveloperKubeconfig)
	if !strings.Contains(found["release"].Remedy, "a user with permission") {
		t.Errorf("got %+v", found["release"])
	}
}

// A leader that stopped is found by its lease.
func TestDoctorFindsNoLeader(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "quaymaster-controllers"}}
	key := client.ObjectKeyFromObject(deployment)
	if err := shared.Client.Get(t.Context(), key, deployment); err != nil {
		t.Fatal(err)
	}
	args := &deployment.Spec.Template.Spec.Containers[0].Args
	*args = append(slices.Clone(*args), "--leader-elect-resource-name=another")
	if err := shared.Client.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	want := well()
	want["controllers"], want["rights"] = doctor.Fail, doctor.Fail
	result := wait(t, want)["controllers"]
	if !strings.Contains(result.Found, "no controllers hold lease kube-system/another") {
		t.Errorf("got %+v", result)
	}
	if err := shared.Client.Get(t.Context(), key, deployment); err != nil {
		t.Fatal(err)
	}
	remove(t, deployment)
	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, well())
}

// Without a cloud config, the doctor reads the endpoint in the ConfigMap of the release, and asks from both sides.
func TestDoctorAsksTheCloudFromBothSides(t *testing.T) {
	const none = "--cloud-config="
	healthy := well()
	healthy["orphans"] = doctor.Skip
	// A leader that has just started has not recorded anything yet.
	env.Eventually(t, time.Minute, "both sides agree", func(context.Context) error {
		found := wait(t, healthy, none)["cloud"].Found
		if want := shared.cloud.Endpoint + " answers; it also answers the controllers"; found != want {
			return fmt.Errorf("got %q, want %q", found, want)
		}
		return nil
	})

	// It does not matter that only the controllers reach the cloud.
	v := values(shared.port)
	v["cloud"].(map[string]any)["endpoint"] = "http://127.0.0.1:1"
	if err := installWith(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	found := wait(t, healthy, none)["cloud"].Found
	for _, want := range []string{" has answered the controllers for ", "no response of http://127.0.0.1:1: "} {
		if !strings.Contains(found, want) {
			t.Errorf("got %q, want %q", found, want)
		}
	}
	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}

	// A dead cloud is reported by both, and by the Services that wait for it.
	shared.cloud.Kill()
	svc := service("waiting")
	if err := shared.Client.Create(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(healthy)
	want["cloud"], want["load-balancers"] = doctor.Fail, doctor.Fail
	results := wait(t, want, none)
	for _, want := range []string{
		shared.cloud.Endpoint + " has not answered the controllers for ", "; asked from this machine: no response of ",
	} {
		if found := results["cloud"].Found; !strings.Contains(found, want) {
			t.Errorf("got %q, want %q", found, want)
		}
	}
	if details := results["load-balancers"].Details; len(details) != 1 || !strings.HasPrefix(details[0], "default/waiting is SyncFailing for ") {
		t.Errorf("got %q", details)
	}
	// Other namespaces are not the concern of this one.
	want["load-balancers"] = doctor.OK
	wait(t, want, none, "-n", "kube-system")
	if err := shared.cloud.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, healthy, none)
	remove(t, svc)
}

// Nodes that are not of the cloud are named.
func TestDoctorFindsForeignNodes(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, Spec: corev1.NodeSpec{ProviderID: "aws:///zone/i-1"}}
	if err := shared.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	want := well()
	want["nodes"] = doctor.Warn
	details := wait(t, want)["nodes"].Details
	if len(details) != 1 || !strings.Contains(details[0], "stranger: provider ID \"aws:///zone/i-1\": must begin with mycloud://") {
		t.Errorf("got %q", details)
	}
	remove(t, node)
	wait(t, well())
}

// Pods that do not start are explained by their status and by Events, in words.
func TestDoctorExplainsPodsThatDoNotStart(t *testing.T) {
	if err := reportReady(t.Context(), "quaymaster-controllers", 0); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "quaymaster-controllers-1", Labels: map[string]string{
			"app.kubernetes.io/name": "quaymaster", "app.kubernetes.io/instance": "quaymaster",
			"app.kubernetes.io/component": "controllers",
		}},
		Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "quaymaster-controllers", Containers: []corev1.Container{{Name: "controllers", Image: "quaymaster:1"}}},
	}
	if err := shared.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionFalse},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "controllers", Image: "quaymaster:1",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Message: `{"ts":1,"msg":"Could not start","err":"the cloud rejects the token"}`,
		}},
	}}
	if err := shared.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "set.1"}, Type: corev1.EventTypeWarning,
		Reason: "FailedCreate", Message: "Error creating: exceeded quota: pods",
		InvolvedObject: corev1.ObjectReference{Kind: "Deployment", Namespace: env.Namespace, Name: "quaymaster-controllers"},
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "quaymaster-controllers"}}
	if err := shared.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
		t.Fatal(err)
	}
	event.InvolvedObject.UID = deployment.UID
	if err := shared.Client.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	want := well()
	want["controllers"] = doctor.Warn // the process of the tests leads
	got := wait(t, want)["controllers"]
	details := []string{
		"pods cannot be created: Error creating: exceeded quota: pods",
		"a container ended with code 1: Could not start: the cloud rejects the token",
	}
	if diff := cmp.Diff(details, got.Details); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	if err := shared.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	remove(t, event)
	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, well())
}
