package pods

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/tool/doctor/release"
	"quaymaster.dev/internal/visible"
)

// eventFailedCreate is the reason of the Event about a pod that a DaemonSet or ReplicaSet could not create.
const eventFailedCreate = "FailedCreate"

// cause is why pods do not exist or are not ready.
type cause struct{ found, remedy string }

// evidence is what explains why pods of a role do not exist or are not ready.
type evidence struct {
	role      *release.Role
	namespace string
	// nodes is true if a Node has the labels of the role's selector.
	nodes bool
	// uninitialized is true if a Node has the taint that the controllers remove, and the pods do not tolerate it.
	uninitialized bool
	// missing are the ConfigMaps and Secrets that do not exist although the pods need them.
	missing []string
	sets    []appsv1.ReplicaSet
	pods    []corev1.Pod
	// events has the last warning about each object.
	events map[types.UID]*corev1.Event
}

// causes returns each cause once, beginning with those that prevent most.
func (s *evidence) causes() []cause {
	var all []cause
	add := func(c cause) {
		if c.found != "" && !slices.ContainsFunc(all, func(other cause) bool { return other.found == c.found }) {
			all = append(all, c)
		}
	}
	for _, object := range s.missing {
		add(cause{object + " is missing, which the pods need", "create it in namespace " + s.namespace +
			", or restore it with helm upgrade"})
	}
	for i := range s.sets {
		if ptr.Deref(s.sets[i].Spec.Replicas, 1) == 0 {
			continue // of an earlier revision
		}
		for _, c := range s.sets[i].Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				add(s.uncreated(c.Message))
			}
		}
	}
	if event := s.events[s.role.UID]; event != nil && event.Reason == eventFailedCreate {
		add(s.uncreated(event.Message))
	}
	// A pod says more, but a DaemonSet creates none without Nodes.
	if !s.nodes && (len(s.pods) == 0 || slices.ContainsFunc(s.pods, unschedulable)) {
		add(s.noNodes())
	}
	for i := range s.pods {
		if s.nodes || !unschedulable(s.pods[i]) {
			add(s.pod(&s.pods[i]))
		}
	}
	if len(all) == 0 {
		add(s.idle())
	}
	return all
}

// values returns the key of the role's values in the chart.
func (s *evidence) values() string {
	switch {
	case s.role.Component == release.WebhookComponent:
		return "webhook"
	case s.role.WithoutCloud():
		return "policyController"
	}
	return "cloudController"
}

// uncreated returns the cause for the message of the API server about a pod that it rejected.
func (s *evidence) uncreated(message string) cause {
	remedy := "remove what rejects the pods; then they are created"
	switch {
	case strings.Contains(message, "violates PodSecurity"):
		remedy = "allow the pods in the namespace: kubectl label namespace " + s.namespace +
			" pod-security.kubernetes.io/enforce=privileged --overwrite"
	case strings.Contains(message, "exceeded quota"), strings.Contains(message, "insufficient quota"):
		remedy = "raise the ResourceQuota of namespace " + s.namespace +
			", or create one for the priority class; see docs/operations/install.md"
	case strings.Contains(message, "serviceaccount"):
		remedy = "restore the ServiceAccount with helm upgrade"
	}
	return cause{"pods cannot be created: " + plain(message), remedy}
}

// noNodes returns the cause for a selector that matches no Node.
func (s *evidence) noNodes() cause {
	return cause{
		"no Node has the labels " + labels.Set(s.role.Template.Spec.NodeSelector).String() + ", which " + s.values() +
			".nodeSelector requires",
		"set " + s.values() + ".nodeSelector to labels of the Nodes for these pods, or to null for any Node",
	}
}

// idle returns the cause if there is no sign of another one.
func (s *evidence) idle() cause {
	switch {
	case s.role.Wanted == 0:
		return cause{"it is scaled to 0 pods", "run helm upgrade, or scale it with kubectl scale"}
	case !s.role.Observed:
		return cause{"kube-controller-manager has not created the pods yet", "check that kube-controller-manager is running"}
	case len(s.pods) == 0:
		return cause{"there are no pods", "check that kube-controller-manager is running"}
	}
	return cause{}
}

func unschedulable(pod corev1.Pod) bool {
	c := podCondition(&pod, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionFalse
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// pod returns why a pod is not ready, without its name, so that pods with the same cause are reported once. It is empty
// if the pod is ready or about to end.
func (s *evidence) pod(pod *corev1.Pod) cause {
	ready := podCondition(pod, corev1.PodReady)
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded ||
		ready != nil && ready.Status == corev1.ConditionTrue {
		return cause{}
	}
	scheduled := podCondition(pod, corev1.PodScheduled)
	switch {
	case scheduled == nil && pod.Spec.NodeName == "":
		return cause{"no scheduler has looked at the pods", "check that kube-scheduler is running"}
	case unschedulable(*pod):
		return s.unplaced(scheduled.Message)
	case pod.Status.Reason != "": // the kubelet rejected the pod or evicted it
		return cause{joined(pod.Status.Reason, pod.Status.Message), "see the Node of the pod: kubectl describe node " +
			pod.Spec.NodeName}
	}
	for i := range pod.Status.ContainerStatuses {
		if c := s.container(pod, &pod.Status.ContainerStatuses[i]); c.found != "" {
			return c
		}
	}
	event := s.events[pod.UID]
	if event != nil && event.Reason == "FailedMount" {
		return cause{plain(event.Message), "create what the message names, or correct the chart's values"}
	}
	if event != nil {
		return cause{joined(event.Reason, event.Message), ""}
	}
	if ready != nil {
		return cause{joined(ready.Reason, ready.Message), ""}
	}
	return cause{"the kubelet of Node " + pod.Spec.NodeName + " has not started the pod yet", ""}
}

// unplaced returns the cause for a message of the scheduler.
func (s *evidence) unplaced(message string) cause {
	values := s.values()
	taint := "tolerate the taint with " + values + ".tolerations"
	// Recent schedulers do not name the taint.
	if s.uninitialized {
		taint = "first let the controllers initialize the Nodes; see the checks controllers and nodes"
	}
	var remedies []string
	for _, r := range []struct{ text, remedy string }{
		{"untolerated taint", taint},
		{"node affinity/selector", "set " + values + ".nodeSelector and " + values + ".affinity to labels of the Nodes"},
		{"free ports", "free the port on the Nodes, lower " + values + ".replicas, or set " + values + ".port"},
		{"Insufficient", "lower " + values + ".resources, or add Nodes"},
		{"were unschedulable", "make cordoned Nodes available with kubectl uncordon"},
	} {
		if strings.Contains(message, r.text) {
			remedies = append(remedies, r.remedy)
		}
	}
	if len(remedies) == 0 {
		remedies = append(remedies, "see "+values+" in the chart's values, and kubectl describe nodes")
	}
	return cause{"no Node is suitable: " + plain(message), strings.Join(remedies, "; ")}
}

// container returns why a container does not run; empty if it runs.
func (s *evidence) container(pod *corev1.Pod, c *corev1.ContainerStatus) cause {
	logs := "kubectl --namespace " + s.namespace + " logs --previous " + pod.Name
	ended := c.State.Terminated
	if ended == nil && !c.Ready {
		ended = c.LastTerminationState.Terminated
	}
	w := c.State.Waiting
	switch {
	case ended != nil && ended.Reason == "OOMKilled":
		return cause{"a container needed more memory than allowed and was killed", "raise " + s.values() +
			".resources.limits.memory"}
	case ended != nil && ended.Message != "":
		return cause{fmt.Sprintf("a container ended with code %d: %s", ended.ExitCode, plain(ended.Message)),
			"correct what the message names; the container is restarted by itself"}
	case ended != nil:
		return cause{fmt.Sprintf("a container ended with code %d", ended.ExitCode), "see its last log lines: " + logs}
	case w == nil:
		return cause{}
	case strings.Contains(w.Reason, "Image"), strings.Contains(w.Reason, "Registry"):
		return cause{
			fmt.Sprintf("image %s: %s", c.Image, joined(w.Reason, w.Message)),
			"set image.repository, image.tag or image.digest to an image that the Nodes can pull, and imagePullSecrets if " +
				"the registry requires them",
		}
	case w.Reason == "CreateContainerConfigError", w.Reason == "CreateContainerError", w.Reason == "RunContainerError":
		return cause{joined(w.Reason, w.Message), "correct what the message names with helm upgrade"}
	case w.Message != "":
		return cause{joined(w.Reason, w.Message), ""}
	}
	return cause{}
}

func joined(reason, message string) string {
	return strings.TrimSuffix(strings.TrimPrefix(reason+": "+plain(message), ": "), ": ")
}

// longest is the most of a message that is shown.
const longest = 500

// header is the beginning of a line in klog's format.
var header = regexp.MustCompile(`^[IWEF]\d{4} \S+\s+\d+ \S+\] `)

// plain returns the last line of a text. Of a line in JSON, such as a log line or the API server's description of an
// error, it returns only what is meant for people.
func plain(text string) string {
	text = strings.TrimSpace(text)
	if at := strings.Index(text, "panic: "); at >= 0 {
		text, _, _ = strings.Cut(text[at:], "\n")
	}
	if last := strings.LastIndexByte(text, '\n'); last >= 0 {
		text = text[last+1:]
	}
	text = header.ReplaceAllString(text, "")
	var line struct {
		Msg string `json:"msg"`
		// Err and Error are the error of a log line, by the format of the log.
		Err     string `json:"err"`
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &line) == nil {
		parts := []string{line.Msg, line.Message, line.Err, line.Error}
		text = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
	}
	return visible.Shorten(text, longest)
}
