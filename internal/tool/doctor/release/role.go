package release

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/internal/kube/leadership"
)

// Role describes how a role runs.
type Role struct {
	Component string
	// Account is the name of its ServiceAccount.
	Account string
	// UID is that of its Deployment or DaemonSet, and Observed is true if kube-controller-manager has seen its current
	// state.
	UID      types.UID
	Observed bool
	// Template is the template of its pods; nil if the role is not deployed by the chart.
	Template *corev1.PodTemplateSpec
	// Ready and Wanted are the numbers of ready and desired pods.
	Ready, Wanted int32
}

func findRole(component string, accounts []corev1.ServiceAccount) *Role {
	at := slices.IndexFunc(accounts,
		func(a corev1.ServiceAccount) bool { return a.Labels[LabelComponent] == component })
	if at < 0 {
		return nil
	}
	return &Role{Component: component, Account: accounts[at].Name}
}

// Describe says how many pods are ready.
func (r *Role) Describe() string {
	if r.Template == nil {
		return "not deployed by the chart"
	}
	return fmt.Sprintf("%d of %d pods ready", r.Ready, r.Wanted)
}

// Arguments returns the values of a command-line flag of the role.
func (r *Role) Arguments(flag string) (values []string) {
	if r == nil || r.Template == nil {
		return nil
	}
	for _, container := range r.Template.Spec.Containers {
		for _, arg := range slices.Concat(container.Command, container.Args) {
			if name, value, _ := strings.Cut(arg, "="); name == flag {
				values = append(values, value)
			}
		}
	}
	return values
}

// Argument returns the value of a command-line flag of the role; the last one wins.
func (r *Role) Argument(flag string) (value string, given bool) {
	values := r.Arguments(flag)
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}

// ArgumentOr returns the value of a command-line flag, or its default.
func (r *Role) ArgumentOr(flag, defaultValue string) string {
	if value, given := r.Argument(flag); given {
		return value
	}
	return defaultValue
}

// Elects reports whether the controllers elect a leader.
func (r *Role) Elects() bool { return r.ArgumentOr("--leader-elect", "true") != "false" }

// LeaseName returns the namespace and name of the controllers' lease.
func (r *Role) LeaseName() (namespace, name string) {
	lease := leadership.CloudLease
	if r.WithoutCloud() {
		lease = leadership.PolicyLease
	}
	return r.ArgumentOr("--leader-elect-resource-namespace", leadership.Namespace),
		r.ArgumentOr("--leader-elect-resource-name", lease)
}

// WithoutCloud reports whether the controllers maintain only the status of policies.
func (r *Role) WithoutCloud() bool { return r.ArgumentOr("--without-cloud", "false") != "false" }

// mounted returns the ConfigMap and the key of a file in the pods of the role; empty if the file is not from a
// ConfigMap.
func (r *Role) mounted(file string) (configMap, key string) {
	for _, container := range r.Template.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			rest, below := strings.CutPrefix(path.Clean(file), path.Clean(mount.MountPath)+"/")
			if !below {
				continue
			}
			for _, volume := range r.Template.Spec.Volumes {
				if volume.Name == mount.Name && volume.ConfigMap != nil {
					return volume.ConfigMap.Name, rest
				}
			}
		}
	}
	return "", ""
}
