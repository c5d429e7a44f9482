// Package pods checks the pods of a role: whether all are ready, which of them leads and, if some are missing or not
// ready, why.
package pods

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
)

// Checks are the checks of pods.
type Checks struct{ *release.Release }

// Running returns the result about the pods of a role, which begins with found: doctor.OK if all are ready, or what prevents
// those that are not.
func (c Checks) Running(ctx context.Context, role *release.Role, found string) doctor.Result {
	if role.Template == nil {
		return doctor.Skipped("%s; the chart does not deploy them", found)
	}
	if role.Ready >= role.Wanted && role.Ready > 0 {
		return doctor.Passed("%s; %s", found, role.Describe())
	}
	var details, remedies []string
	for _, cause := range c.causes(ctx, role) {
		details = append(details, cause.found)
		if cause.remedy != "" && !slices.Contains(remedies, cause.remedy) {
			remedies = append(remedies, cause.remedy)
		}
	}
	if len(remedies) == 0 {
		remedies = []string{"run " + c.Kubectl("describe pods --selector "+release.LabelComponent+"="+role.Component) +
			", and " + c.LogCommand(role.Component)}
	}
	result := doctor.Warned(strings.Join(remedies, "; "), "%s; %s", found, role.Describe()).With(details)
	if role.Ready == 0 {
		result.Level = doctor.Fail
	}
	return result
}

// causes returns why pods of a role do not exist or are not ready, each cause once. What cannot be read is missing.
func (c Checks) causes(ctx context.Context, role *release.Role) []cause {
	s := evidence{
		role: role, namespace: c.Namespace, missing: c.missingObjects(ctx, role),
		events: doctor.LastEvents(ctx, c.API, c.Namespace, fields.Set{"type": corev1.EventTypeWarning}),
		nodes:  c.selects(ctx, role.Template.Spec.NodeSelector),
		// The controllers tolerate the taint.
		uninitialized: role.Component == release.WebhookComponent && c.uninitialized(ctx),
	}
	options := c.Selector(role.Component)
	if sets, err := c.API.AppsV1().ReplicaSets(c.Namespace).List(ctx, options); err == nil {
		s.sets = sets.Items
	}
	pods, err := c.API.CoreV1().Pods(c.Namespace).List(ctx, options)
	if err != nil {
		return []cause{{found: "cannot read the pods: " + err.Error()}}
	}
	s.pods = pods.Items
	return s.causes()
}

// missingObjects returns the ConfigMaps and Secrets that do not exist although the pods of a role need them to start.
// What cannot be read does not count as missing.
func (c Checks) missingObjects(ctx context.Context, role *release.Role) []string {
	var missing []string
	for _, volume := range role.Template.Spec.Volumes {
		var object string
		var err error
		switch {
		case volume.ConfigMap != nil && !ptr.Deref(volume.ConfigMap.Optional, false):
			object = "ConfigMap " + volume.ConfigMap.Name
			_, err = c.API.CoreV1().ConfigMaps(c.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		case volume.Secret != nil && !ptr.Deref(volume.Secret.Optional, false):
			object = "Secret " + volume.Secret.SecretName
			_, err = c.API.CoreV1().Secrets(c.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			missing = append(missing, object)
		}
	}
	return missing
}

// selects reports whether a Node has all labels of a selector; true without a selector, or if that cannot be found out.
func (c Checks) selects(ctx context.Context, selector map[string]string) bool {
	if len(selector) == 0 {
		return true
	}
	nodes, err := c.API.CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set(selector).String(), Limit: 1,
	})
	return err != nil || len(nodes.Items) > 0
}

// uninitialized reports whether a Node waits for the controllers.
func (c Checks) uninitialized(ctx context.Context) bool {
	found := false
	// It only adds to what pods say, so that it does not matter if the Nodes cannot be read.
	_ = doctor.Each(ctx, metav1.ListOptions{}, c.API.CoreV1().Nodes().List, func(node *corev1.Node) {
		found = found || slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == cloudproviderapi.TaintExternalCloudProvider
		})
	})
	return found
}
