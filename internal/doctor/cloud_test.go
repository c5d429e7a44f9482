package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/clusterca"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/contact"
)

// Asked with a cloud config, from this machine alone.
func TestCloudOfThisMachine(t *testing.T) {
	meta := cloudv1.Meta{APIVersion: "1.0.0", Status: "ok", ServerTime: noon}
	degraded, late := meta, meta
	degraded.Status, late.ServerTime = "degraded", noon.Add(-time.Minute)
	for name, tc := range map[string]struct {
		cloud Cloud
		level Level
		found string
	}{
		"healthy":      {answer{meta: meta}, OK, "API 1.0.0 responds"},
		"held by this": {answer{meta: meta, holder: "own"}, OK, "API 1.0.0 responds"},
		"held by another": {
			answer{meta: meta, holder: "other"}, Warn,
			`API 1.0.0 responds; another cluster holds the cluster UID: "prod" with the fingerprint other, not own`,
		},
		"degraded":    {answer{meta: degraded}, Warn, "API 1.0.0 is degraded"},
		"other clock": {answer{meta: late}, Warn, "API 1.0.0; its clock is 1m0s behind this machine's"},
		"unreachable": {answer{err: errors.New("connection refused")}, Fail, "no response: connection refused"},
		"wrong token": {
			answer{err: &cloudapi.Error{Status: 401, Problem: &cloudv1.Problem{Code: cloudv1.CodeUnauthenticated}}},
			Fail, "the cloud rejects the token",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := installation(fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid"}}))
			e.Cloud = tc.cloud
			e.Identity = func() (clusterca.Identity, error) { return clusterca.Identity{Proven: "own"}, nil }
			got := e.outside(t.Context())
			if got.Level != tc.level || got.Found != tc.found ||
				(got.Remedy != "") != (tc.level == Fail || tc.level == Warn) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
}

// Both sides are named, and what the controllers say decides.
func TestCloudFromBothSides(t *testing.T) {
	const endpoint = "https://cloud"
	var current, former int64 = 7, 6
	answers := &contact.Record{Epoch: &current, Endpoint: endpoint, State: contact.Answers, Since: noon.Add(-time.Hour)}
	silent := &contact.Record{
		Epoch: &current, Endpoint: endpoint, State: contact.Silent, Since: noon.Add(-time.Minute), Message: "timeout",
	}
	rejects := &contact.Record{
		Epoch: &current, Endpoint: endpoint, State: contact.RejectsToken, Since: noon.Add(-time.Minute), Message: "401",
	}
	old := &contact.Record{Epoch: &former, Endpoint: endpoint, State: contact.Answers, Since: noon.Add(-time.Hour)}
	refused := errors.New("connection refused")
	const unasked = "asked from this machine: no response of https://cloud: connection refused"
	for name, tc := range map[string]struct {
		record *contact.Record
		noLead bool
		reach  error
		level  Level
		found  string
		remedy string
	}{
		"answers both": {answers, false, nil, OK, "https://cloud answers; it also answers the controllers", ""},
		"answers the controllers only": {
			answers, false, refused, OK, "https://cloud has answered the controllers for 1h0m0s; " + unasked, "",
		},
		"answers this machine only": {
			silent, false, nil, Fail,
			"https://cloud has not answered the controllers for 1m0s: timeout; asked from this machine: https://cloud answers",
			"firewalls and proxies between the Nodes of the controllers and https://cloud",
		},
		"dead": {
			silent, false, refused, Fail, "https://cloud has not answered the controllers for 1m0s: timeout; " + unasked,
			"check that the API of the cloud runs at https://cloud",
		},
		"wrong token": {
			rejects, false, nil, Fail, "https://cloud has rejected the token of the controllers for 1m0s: 401", "cloud.tokenSecret",
		},
		"dead, and no leader to ask": {
			answers, true, refused, Fail,
			"no response of https://cloud: connection refused; whether it answers the controllers is unknown: none of them " +
				"is the leader", "check that the API of the cloud runs",
		},
		"dead, and another leader": {
			old, false, refused, Fail,
			"no response of https://cloud: connection refused; whether it answers the controllers is unknown: the leader has " +
				"not recorded it yet", "check that the API of the cloud runs",
		},
		"no record": {
			nil, false, nil, OK,
			"https://cloud answers; whether it answers the controllers is unknown: they have not recorded it yet", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fake.NewClientset()
			if tc.record != nil {
				raw, err := json.Marshal(tc.record)
				if err != nil {
					t.Fatal(err)
				}
				cluster = fake.NewClientset(&corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: contact.ConfigMap},
					Data:       map[string]string{"cloud-controller-manager": string(raw)},
				})
			}
			e := installation(cluster)
			e.config.config = &config.Config{Endpoint: endpoint}
			if !tc.noLead {
				e.release.lease = &held{epoch: current}
			}
			e.Reach = func(_ context.Context, at string, _ []byte) error {
				if at != endpoint {
					t.Errorf("asked %s", at)
				}
				return tc.reach
			}
			got := e.cloud(t.Context())
			if got.Level != tc.level || got.Found != tc.found || !strings.Contains(got.Remedy, tc.remedy) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
}

// The endpoint and the authorities of the installed release come from the ConfigMap that its pods mount.
func TestInstalledCloudConfig(t *testing.T) {
	const text = "clusterID: dev\nendpoint: https://cloud\ntokenFile: /t\ncaFile: /etc/quaymaster/ca.crt\n"
	mounted := func(e *examination) {
		spec := &e.release.controllers.template.Spec
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/quaymaster"}}
		spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "quay-cloud"}},
		}}}
	}
	stored := func(text string) *fake.Clientset {
		return fake.NewClientset(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "quay", Name: "quay-cloud"},
			Data:       map[string]string{"cloud.yaml": text, "ca.crt": "PEM"},
		})
	}
	for name, tc := range map[string]struct {
		cluster *fake.Clientset
		args    []string
		change  func(*examination)
		level   Level
		found   string
	}{
		"installed":     {stored(text), nil, mounted, OK, "clusterID dev, endpoint https://cloud"},
		"missing":       {fake.NewClientset(), nil, mounted, Fail, "ConfigMap quay-cloud is missing"},
		"invalid":       {stored("clusterID: dev"), nil, mounted, Fail, "cloud.yaml in ConfigMap quay-cloud: "},
		"no ConfigMap":  {stored(text), nil, func(*examination) {}, Warn, "the file /etc/quaymaster/cloud.yaml of the"},
		"without cloud": {stored(text), []string{"--without-cloud"}, mounted, Skip, "the controllers run without a cloud"},
		"no controllers": {
			stored(text), nil, func(e *examination) { e.release.controllers = nil }, Skip, "the release does not include",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := installation(tc.cluster, append(tc.args, "--cloud-config=/etc/quaymaster/cloud.yaml")...)
			tc.change(e)
			got := e.configured(t.Context())
			if got.Level != tc.level || !strings.HasPrefix(got.Found, tc.found) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
			if installed := e.config.config != nil && string(e.config.ca) == "PEM"; installed != (tc.level == OK) {
				t.Errorf("the config is %+v", e.config)
			}
			if e.config.config == nil && e.config.missing == "" {
				t.Error("no reason why there is no config")
			}
		})
	}
}
