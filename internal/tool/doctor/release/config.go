package release

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/tool/doctor"
)

// Configured reads the cloud config from the ConfigMap that is mounted into the pods of the controllers.
func (r *Release) Configured(ctx context.Context) doctor.Result {
	role := r.Controllers
	file, given := role.Argument("--cloud-config")
	switch {
	case role == nil:
		r.NoConfig = "the release does not include controllers"
	case role.WithoutCloud():
		r.NoConfig = "the controllers run without a cloud"
	case role.Template == nil:
		r.NoConfig = "the chart does not deploy the controllers" + r.hint()
	case !given:
		r.NoConfig = "the controllers run without --cloud-config"
	}
	if r.NoConfig != "" {
		return doctor.Skipped("%s", r.NoConfig)
	}
	result := r.readConfig(ctx, file)
	if result.Level != doctor.OK {
		r.NoConfig = result.Found
	}
	return result
}

// hint is the end of a message without the cloud config of the release.
func (r *Release) hint() string {
	if r.OwnConfig {
		return ""
	}
	return "; set --cloud-config to check the cloud"
}

func (r *Release) readConfig(ctx context.Context, file string) doctor.Result {
	name, key := r.Controllers.mounted(file)
	if name == "" {
		if r.OwnConfig {
			return doctor.Skipped("the file %s of the controllers is not from a ConfigMap", file)
		}
		return doctor.Warned("set --cloud-config to check the cloud", "the file %s of the controllers is not from a ConfigMap",
			file)
	}
	cm, err := r.API.CoreV1().ConfigMaps(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return doctor.Failed("restore it with helm upgrade",
			"ConfigMap %s is missing, so the pods of the controllers cannot start", name)
	}
	if err != nil {
		return doctor.Unread("ConfigMap "+name, err)
	}
	parsed, err := config.Parse([]byte(cm.Data[key]))
	if err != nil {
		return doctor.Failed("correct the chart's value cloud, and run helm upgrade", "%s in ConfigMap %s: %v", key, name, err)
	}
	r.Config = &parsed
	if other, key := r.Controllers.mounted(parsed.CAFile); other == name {
		r.CA = []byte(cm.Data[key])
	}
	return doctor.Passed("clusterID %s, endpoint %s", parsed.ClusterID, parsed.Endpoint)
}
