package doctor

import (
	"context"
	"fmt"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/config"
)

// installedConfig is the cloud config of the installed release.
type installedConfig struct {
	// config is nil if there is none, or if it cannot be read; missing says why.
	config  *config.Config
	missing string
	// ca has the authorities of the cloud's certificate in PEM; if empty, those of the system are trusted.
	ca []byte
}

// configured reads the cloud config from the ConfigMap that is mounted into the pods of the controllers.
func (e *examination) configured(ctx context.Context) Result {
	role := e.release.controllers
	file, given := role.argument("--cloud-config")
	switch {
	case role == nil:
		e.config.missing = "the release does not include controllers"
	case role.withoutCloud():
		e.config.missing = "the controllers run without a cloud"
	case role.template == nil:
		e.config.missing = "the chart does not deploy the controllers; set --cloud-config to check the cloud"
	case !given:
		e.config.missing = "the controllers run without --cloud-config"
	}
	if e.config.missing != "" {
		return skip("%s", e.config.missing)
	}
	r := e.readConfig(ctx, file)
	if r.Level != OK {
		e.config.missing = r.Found
	}
	return r
}

func (e *examination) readConfig(ctx context.Context, file string) Result {
	name, key := e.release.controllers.mounted(file)
	if name == "" {
		return warn("set --cloud-config to check the cloud", "the file %s of the controllers is not from a ConfigMap", file)
	}
	cm, err := e.API.CoreV1().ConfigMaps(e.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fail("restore it with helm upgrade", "ConfigMap %s is missing, so the pods of the controllers cannot start",
			name)
	}
	if err != nil {
		return unread("ConfigMap "+name, err)
	}
	parsed, err := config.Parse([]byte(cm.Data[key]))
	if err != nil {
		return fail("correct the chart's value cloud, and run helm upgrade", "%s in ConfigMap %s: %v", key, name, err)
	}
	e.config.config = &parsed
	if other, key := e.release.controllers.mounted(parsed.CAFile); other == name {
		e.config.ca = []byte(cm.Data[key])
	}
	return ok("clusterID %s, endpoint %s", parsed.ClusterID, parsed.Endpoint)
}

// mounted returns the ConfigMap and the key of a file in the pods of the role; empty if the file is not from a
// ConfigMap.
func (r *role) mounted(file string) (configMap, key string) {
	for _, container := range r.template.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			rest, below := strings.CutPrefix(path.Clean(file), path.Clean(mount.MountPath)+"/")
			if !below {
				continue
			}
			for _, volume := range r.template.Spec.Volumes {
				if volume.Name == mount.Name && volume.ConfigMap != nil {
					return volume.ConfigMap.Name, rest
				}
			}
		}
	}
	return "", ""
}

// provided returns the ConfigMaps and Secrets that the pods of the role need to start, as kind and name.
func (r *role) provided() [][2]string {
	var all [][2]string
	for _, volume := range r.template.Spec.Volumes {
		switch {
		case volume.ConfigMap != nil && !isTrue(volume.ConfigMap.Optional):
			all = append(all, [2]string{"ConfigMap", volume.ConfigMap.Name})
		case volume.Secret != nil && !isTrue(volume.Secret.Optional):
			all = append(all, [2]string{"Secret", volume.Secret.SecretName})
		}
	}
	return all
}

func isTrue(b *bool) bool { return b != nil && *b }

// missingObjects returns the ConfigMaps and Secrets that do not exist although the pods of a role need them. What cannot
// be read does not count as missing.
func (e *examination) missingObjects(ctx context.Context, r *role) []string {
	var missing []string
	for _, object := range r.provided() {
		var err error
		if object[0] == "Secret" {
			_, err = e.API.CoreV1().Secrets(e.Namespace).Get(ctx, object[1], metav1.GetOptions{})
		} else {
			_, err = e.API.CoreV1().ConfigMaps(e.Namespace).Get(ctx, object[1], metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			missing = append(missing, fmt.Sprintf("%s %s", object[0], object[1]))
		}
	}
	return missing
}
