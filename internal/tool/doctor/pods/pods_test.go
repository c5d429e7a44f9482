package pods

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
	"quaymaster.dev/test/harness/installation"
)

// podOf returns a pod of a component, on a Node, with a condition and the status of its container.
func podOf(component, name string, condition corev1.PodCondition, container corev1.ContainerStatus) *corev1.Pod {
	return installation.Pod(component, name, corev1.PodStatus{
		Conditions: []corev1.PodCondition{condition}, ContainerStatuses: []corev1.ContainerStatus{container},
	})
}

func warning(uid types.UID, reason, message string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "quay", Name: string(uid) + ".1"},
		InvolvedObject: corev1.ObjectReference{UID: uid}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		LastTimestamp: metav1.NewTime(installation.Noon),
	}
}

// Each cause for which pods of a role do not run is named once, with its remedy, for both roles alike.
func TestWhyPodsDoNotRun(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Image: "quaymaster:1", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}
	}
	ended := func(code int32, reason, message string) corev1.ContainerStatus {
		s := waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
		return s
	}
	unready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}
	unplaced := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
		Message: "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."}
	tainted := unplaced
	tainted.Message = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
	none := corev1.ContainerStatus{}
	on := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}}
	}
	const key = "node-role.kubernetes.io/control-plane"
	pod := func(condition corev1.PodCondition, container corev1.ContainerStatus) func(string) []runtime.Object {
		return func(component string) []runtime.Object {
			return []runtime.Object{
				on(map[string]string{key: ""}), podOf(component, "one", condition, container),
				podOf(component, "two", condition, container),
			}
		}
	}
	failure := func(message string) func(string) []runtime.Object {
		return func(component string) []runtime.Object {
			labels := podOf(component, "", unready, none).Labels
			return []runtime.Object{on(map[string]string{key: ""}), &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "quay", Name: "set", Labels: labels},
				Status: appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{{
					Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message,
				}}},
			}}
		}
	}
	with := func(objects func(string) []runtime.Object, more ...runtime.Object) func(string) []runtime.Object {
		return func(component string) []runtime.Object { return append(objects(component), more...) }
	}
	for name, tc := range map[string]struct {
		objects func(component string) []runtime.Object
		details []string
		// remedy is part of the remedy; VALUES is the key of the role's values.
		remedy string
	}{
		"image": {
			pod(unready, waiting("ErrImagePull", `rpc error: pull access denied for "quaymaster:1"`)),
			[]string{`image quaymaster:1: ErrImagePull: rpc error: pull access denied for "quaymaster:1"`}, "image.repository",
		},
		"crash": {
			pod(unready, ended(1, "Error", "starting\nquaymaster controllers: the cloud rejects the token\n")),
			[]string{"a container ended with code 1: quaymaster controllers: the cloud rejects the token"}, "correct what the message",
		},
		"crash with a log in JSON": {
			pod(unready, ended(1, "Error", `{"ts":1767225600.1,"caller":"app/run.go:3","msg":"Could not run","err":"no rights"}`)),
			[]string{"a container ended with code 1: Could not run: no rights"}, "correct what the message",
		},
		"crash with a log of klog": {
			pod(unready, ended(1, "Error", `E0112 10:00:00.123456       1 main.go:20] no rights`)),
			[]string{"a container ended with code 1: no rights"}, "correct what the message",
		},
		"panic": {
			pod(unready, ended(2, "Error", "panic: out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:3")),
			[]string{"a container ended with code 2: panic: out of range"}, "correct what the message",
		},
		"silent crash": {
			pod(unready, ended(139, "Error", "")), []string{"a container ended with code 139"},
			"kubectl --namespace quay logs --previous one",
		},
		"memory": {
			pod(unready, ended(137, "OOMKilled", "")), []string{"a container needed more memory than allowed and was killed"},
			"VALUES.resources.limits.memory",
		},
		"missing key of a Secret": {
			pod(unready, waiting("CreateContainerConfigError", `secret "quay-token" not found`)),
			[]string{`CreateContainerConfigError: secret "quay-token" not found`}, "helm upgrade",
		},
		"missing volume": {
			with(pod(unready, waiting("ContainerCreating", "")),
				warning("one", "FailedMount", `MountVolume.SetUp failed for volume "token": secret "quay-token" not found`),
				warning("two", "FailedMount", `MountVolume.SetUp failed for volume "token": secret "quay-token" not found`)),
			[]string{`MountVolume.SetUp failed for volume "token": secret "quay-token" not found`}, "create what the message names",
		},
		"selector": {
			func(component string) []runtime.Object {
				return []runtime.Object{on(nil), podOf(component, "one", unplaced, none)}
			},
			[]string{"no Node has the labels node-role.kubernetes.io/control-plane=, which VALUES.nodeSelector requires"},
			"set VALUES.nodeSelector to labels of the Nodes for these pods, or to null",
		},
		"selector without pods, as of a DaemonSet": {
			func(string) []runtime.Object { return []runtime.Object{on(nil)} },
			[]string{"no Node has the labels node-role.kubernetes.io/control-plane=, which VALUES.nodeSelector requires"},
			"VALUES.nodeSelector",
		},
		"affinity": {
			pod(unplaced, none), []string{"no Node is suitable: " + unplaced.Message}, "VALUES.nodeSelector and VALUES.affinity",
		},
		"taint": {
			pod(tainted, none), []string{"no Node is suitable: " + tainted.Message}, "VALUES.tolerations",
		},
		"Pod Security": {
			failure(`pods "quay-1" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`),
			[]string{`pods cannot be created: pods "quay-1" is forbidden: violates PodSecurity "restricted:latest": host namespaces ` +
				`(hostNetwork=true)`},
			"kubectl label namespace quay pod-security.kubernetes.io/enforce=privileged --overwrite",
		},
		"quota": {
			failure(`pods "quay-1" is forbidden: exceeded quota: pods`),
			[]string{`pods cannot be created: pods "quay-1" is forbidden: exceeded quota: pods`}, "ResourceQuota of namespace quay",
		},
		"rejected pods of a DaemonSet": {
			func(string) []runtime.Object {
				return []runtime.Object{on(map[string]string{key: ""}), warning("workload", "FailedCreate", "Error creating: denied")}
			},
			[]string{"pods cannot be created: Error creating: denied"}, "remove what rejects the pods",
		},
		"probe": {
			with(pod(unready, none), warning("one", "Unhealthy", "Readiness probe failed: 500"),
				warning("two", "Unhealthy", "Readiness probe failed: 500")),
			[]string{"Unhealthy: Readiness probe failed: 500"}, "kubectl --namespace quay logs --prefix --selector",
		},
		"nothing": {
			func(string) []runtime.Object { return []runtime.Object{on(map[string]string{key: ""})} },
			[]string{"there are no pods"}, "kube-controller-manager",
		},
	} {
		for component, values := range map[string]string{release.WebhookComponent: "webhook", release.ControllersComponent: "cloudController"} {
			t.Run(name+" of "+component, func(t *testing.T) {
				c := Checks{Release: installation.New(fake.NewClientset(tc.objects(component)...))}
				r := c.Controllers
				if component == release.WebhookComponent {
					r = c.Webhook
				}
				r.UID, r.Observed, r.Wanted = "workload", true, 2
				r.Template.Spec.NodeSelector = map[string]string{key: ""}
				got := c.Running(t.Context(), r, "not good")
				if got.Level != doctor.Fail || got.Found != "not good; 0 of 2 pods ready" {
					t.Errorf("got %+v", got)
				}
				var want []string
				for _, detail := range tc.details {
					want = append(want, strings.ReplaceAll(detail, "VALUES", values))
				}
				if diff := cmp.Diff(want, got.Details); diff != "" {
					t.Errorf("details (-want +got):\n%s", diff)
				}
				if remedy := strings.ReplaceAll(tc.remedy, "VALUES", values); !strings.Contains(got.Remedy, remedy) {
					t.Errorf("remedy %q, want %q", got.Remedy, remedy)
				}
			})
		}
	}
}

// The webhooks wait until the controllers have initialized Nodes; the scheduler does not name the taint.
func TestWebhooksWaitForInitializedNodes(t *testing.T) {
	condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Message: "0/1 nodes are available: 1 node(s) had untolerated taint(s)."}
	c := Checks{Release: installation.New(fake.NewClientset(podOf(release.WebhookComponent, "one", condition, corev1.ContainerStatus{}), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}},
	}))}
	c.Webhook.Wanted = 1
	got := c.Running(t.Context(), c.Webhook, "not good")
	if want := "first let the controllers initialize the Nodes; see the checks controllers and nodes"; got.Remedy != want {
		t.Errorf("remedy %q, want %q", got.Remedy, want)
	}
}

// A Secret or ConfigMap that a volume needs is named before any pod exists.
func TestMissingObjects(t *testing.T) {
	c := Checks{Release: installation.New(fake.NewClientset(&corev1.Node{}))}
	r := c.Controllers
	r.Wanted = 1
	r.Template.Spec.Volumes = []corev1.Volume{
		{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "quay-token"}}},
		{Name: "other", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "optional", Optional: new(true)},
		}},
	}
	got := c.Running(t.Context(), r, "not good")
	want := []string{"Secret quay-token is missing, which the pods need"}
	if diff := cmp.Diff(want, got.Details); diff != "" || !strings.Contains(got.Remedy, "create it in namespace quay") {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
}

// Who leads is one thing, whether all pods run is another.
func TestLeader(t *testing.T) {
	lease := func(age time.Duration) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(installation.Noon.Add(-age))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("a_1"), LeaseDurationSeconds: new(int32(15)), RenewTime: &renewed, LeaseTransitions: new(int32(4)),
			},
		}
	}
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "quay", Name: name, Labels: map[string]string{
				release.LabelName: "quaymaster", release.LabelInstance: "quay", release.LabelComponent: release.ControllersComponent,
			}},
			Spec: corev1.PodSpec{NodeName: node},
		}
	}
	const leads = "a_1 is the leader and holds lease kube-system/cloud-controller-manager"
	const nothing = "so nothing is reconciled"
	for name, tc := range map[string]struct {
		objects []runtime.Object
		args    []string
		ready   int32
		level   doctor.Level
		found   string
	}{
		"well":              {[]runtime.Object{lease(0)}, nil, 2, doctor.OK, leads + "; 2 of 2 pods ready"},
		"one is not ready":  {[]runtime.Object{lease(0)}, nil, 1, doctor.Warn, leads + "; 1 of 2 pods ready"},
		"no leader":         {nil, nil, 0, doctor.Fail, "no controllers hold lease kube-system/cloud-controller-manager, " + nothing + "; 0 of 2 pods ready"},
		"leader is gone":    {[]runtime.Object{lease(time.Minute)}, nil, 2, doctor.Fail, "a_1 holds lease kube-system/cloud-controller-manager but last renewed it 1m0s ago, " + nothing + "; 2 of 2 pods ready"},
		"named":             {[]runtime.Object{lease(0), pod("b", "n"), pod("a", "m")}, nil, 2, doctor.OK, "pod a on Node m" + strings.TrimPrefix(leads, "a_1") + "; 2 of 2 pods ready"},
		"foreign":           {[]runtime.Object{lease(0), pod("b", "n"), pod("c", "a")}, nil, 2, doctor.Warn, "a_1 holds lease kube-system/cloud-controller-manager and is not a pod of this release; 2 of 2 pods ready"},
		"without election":  {nil, []string{"--leader-elect=false"}, 2, doctor.OK, "the controllers run without leader election; 2 of 2 pods ready"},
		"not without a pod": {nil, []string{"--leader-elect=false"}, 0, doctor.Fail, "the controllers run without leader election; 0 of 2 pods ready"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Checks{Release: installation.New(fake.NewClientset(tc.objects...), tc.args...)}
			c.Controllers.Ready, c.Controllers.Wanted = tc.ready, 2
			got := c.Leader(t.Context())
			if got.Level != tc.level || got.Found != tc.found || (got.Remedy == "") != (tc.level == doctor.OK) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
			if held := c.Epoch != nil; held != (tc.level != doctor.Fail && tc.args == nil) {
				t.Errorf("the lease is %+v", c.Epoch)
			}
		})
	}
}

// What the API server or a container writes in JSON is shown in words.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"dial tcp: refused","code":500}`: "dial tcp: refused",
		`{"level":"error","msg":"Could not start","error":"no token"}`:                                                  "Could not start: no token",
		"starting\nno token\n": "no token",
		`{"broken`:             `{"broken`,
	} {
		if got := plain(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
