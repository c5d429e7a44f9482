package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// running returns the result about the pods of a role, which begins with found: OK if all are ready, or what prevents
// those that are not.
func (e *examination) running(ctx context.Context, r *role, found string) Result {
	if r.template == nil {
		return skip("%s; the chart does not deploy them", found)
	}
	if r.ready >= r.wanted && r.ready > 0 {
		return ok("%s; %s", found, r.describe())
	}
	causes := e.causes(ctx, r)
	result := warn("", "%s; %s", found, r.describe())
	if r.ready == 0 {
		result.Level = Fail
	}
	var remedies []string
	for _, c := range causes {
		result.Details = append(result.Details, c.found)
		if c.remedy != "" && !slices.Contains(remedies, c.remedy) {
			remedies = append(remedies, c.remedy)
		}
	}
	if len(remedies) == 0 {
		remedies = []string{"run " + e.kubectl("describe pods --selector "+labelComponent+"="+r.component) + ", and " +
			e.logCommand(r.component)}
	}
	result.Details, result.Remedy = firstOf(result.Details), strings.Join(remedies, "; ")
	return result
}

// kubectl returns a kubectl command for the namespace of the release.
func (e *examination) kubectl(command string) string {
	return "kubectl --namespace " + e.Namespace + " " + command
}

// logCommand returns the command that shows the log of a role.
func (e *examination) logCommand(component string) string {
	return e.kubectl("logs --prefix --selector " + labelComponent + "=" + component)
}

// causes returns why pods of a role do not exist or are not ready, each cause once. What cannot be read is missing.
func (e *examination) causes(ctx context.Context, r *role) []cause {
	s := evidence{
		role: r, namespace: e.Namespace, missing: e.missingObjects(ctx, r), events: e.warnings(ctx),
		nodes: e.selects(ctx, r.template.Spec.NodeSelector),
		// The controllers tolerate the taint.
		uninitialized: r.component == webhookComponent && e.uninitialized(ctx),
	}
	options := e.selector(r.component)
	if sets, err := e.API.AppsV1().ReplicaSets(e.Namespace).List(ctx, options); err == nil {
		s.sets = sets.Items
	}
	if pods, err := e.API.CoreV1().Pods(e.Namespace).List(ctx, options); err == nil {
		s.pods = pods.Items
	} else {
		return []cause{{found: fmt.Sprintf("cannot read the pods: %v", err)}}
	}
	return s.causes()
}

// selects reports whether a Node has all labels of a selector; true without a selector, or if that cannot be found out.
func (e *examination) selects(ctx context.Context, selector map[string]string) bool {
	if len(selector) == 0 {
		return true
	}
	nodes, err := e.API.CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set(selector).String(), Limit: 1,
	})
	return err != nil || len(nodes.Items) > 0
}

// uninitialized reports whether a Node waits for the controllers.
func (e *examination) uninitialized(ctx context.Context) bool {
	found := false
	// It only adds to what pods say, so that it does not matter if the Nodes cannot be read.
	_ = each(ctx, metav1.ListOptions{}, e.API.CoreV1().Nodes().List, func(node *corev1.Node) {
		found = found || slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == cloudproviderapi.TaintExternalCloudProvider
		})
	})
	return found
}

// warnings returns the last warning about each object in the namespace of the release.
func (e *examination) warnings(ctx context.Context) map[types.UID]*corev1.Event {
	last := map[types.UID]*corev1.Event{}
	// Events only add to what objects say, so that it does not matter if they cannot be read.
	_ = each(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning},
		e.API.CoreV1().Events(e.Namespace).List, func(event *corev1.Event) {
			uid := event.InvolvedObject.UID
			if event.Type == corev1.EventTypeWarning && (last[uid] == nil || lastSeen(event).After(lastSeen(last[uid]))) {
				last[uid] = event
			}
		})
	return last
}

// evidence is what explains why pods of a role do not exist or are not ready.
type evidence struct {
	role      *role
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
		if s.sets[i].Spec.Replicas != nil && *s.sets[i].Spec.Replicas == 0 {
			continue // of an earlier revision
		}
		for _, c := range s.sets[i].Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				add(s.uncreated(c.Message))
			}
		}
	}
	if event := s.events[s.role.uid]; event != nil && event.Reason == eventFailedCreate {
		add(s.uncreated(event.Message))
	}
	// A pod says more, but a DaemonSet creates none without Nodes.
	if !s.nodes && (len(s.pods) == 0 || s.unscheduled()) {
		add(s.noNodes())
	}
	for i := range s.pods {
		if s.nodes || !unschedulable(&s.pods[i]) {
			add(s.pod(&s.pods[i]))
		}
	}
	if len(all) == 0 {
		add(s.idle())
	}
	return all
}

// unscheduled reports whether a pod waits for a Node.
func (s *evidence) unscheduled() bool {
	return slices.ContainsFunc(s.pods, func(p corev1.Pod) bool { return unschedulable(&p) })
}
