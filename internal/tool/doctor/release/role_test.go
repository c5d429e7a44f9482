package release

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// deployed returns a role whose pods run with the arguments.
func deployed(args ...string) *Role {
	return &Role{Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: args}}}}}
}

func TestArguments(t *testing.T) {
	role := deployed("webhook", "--cert-secret=first", "--cert-secret=last", "--without-cloud", "--cert-secretary=x")
	for flag, want := range map[string]string{"--cert-secret": "last", "--without-cloud": "", "--cert": "default"} {
		if got := role.ArgumentOr(flag, "default"); got != want {
			t.Errorf("%s is %q, want %q", flag, got, want)
		}
	}
	if !role.WithoutCloud() {
		t.Error("a flag without a value is not recognized")
	}
	var none *Role
	if got := none.ArgumentOr("--cert", "default"); got != "default" {
		t.Errorf("without a role: %q", got)
	}
}

func TestCertificate(t *testing.T) {
	fromFiles := deployed("--cert-mode=files")
	fromFiles.Template.Spec.Volumes = []corev1.Volume{{
		Name: certVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}},
	}}
	for name, tc := range map[string]struct {
		role *Role
		want string
	}{
		"files":     {fromFiles, "mine"},
		"named":     {deployed("--cert-mode=self-signed", "--cert-secret=shared"), "shared"},
		"default":   {deployed("--cert-mode=cert-manager"), "quaymaster-webhook-tls"},
		"in memory": {deployed("--cert-mode=self-signed", "--cert-secret="), ""},
		"unknown":   {&Role{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.role.Certificate().Secret; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
