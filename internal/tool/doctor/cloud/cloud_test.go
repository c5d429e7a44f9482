package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/test/harness/installation"
)

// checks returns the checks of a release in a cluster.
func checks(cluster kubernetes.Interface) *Checks { return &Checks{Release: installation.New(cluster)} }

// answer is a cloud with a fixed response.
type answer struct {
	meta cloudv1.Meta
	// holder is the fingerprint of the holder of the cluster's UID, or empty.
	holder string
	err    error
}

func (a answer) Meta(context.Context) (*cloudv1.Meta, error) { return &a.meta, a.err }

func (a answer) Holder(_ context.Context, uid string) (*cloudv1.ClusterHolder, error) {
	if a.holder == "" || uid != "uid" {
		return nil, &cloudapi.Error{Status: 404, Problem: &cloudv1.Problem{Code: cloudv1.CodeResourceNotFound}}
	}
	return &cloudv1.ClusterHolder{Object: cloudv1.Object{Name: "prod"}, Fingerprints: []string{a.holder}}, nil
}

// Asked with a cloud config, from this machine alone.
func TestCloudOfThisMachine(t *testing.T) {
	meta := cloudv1.Meta{APIVersion: "1.0.0", Status: "ok", ServerTime: installation.Noon}
	degraded, late := meta, meta
	degraded.Status, late.ServerTime = "degraded", installation.Noon.Add(-time.Minute)
	for name, tc := range map[string]struct {
		client Client
		level  doctor.Level
		found  string
	}{
		"healthy":      {answer{meta: meta}, doctor.OK, "API 1.0.0 responds"},
		"held by this": {answer{meta: meta, holder: "own"}, doctor.OK, "API 1.0.0 responds"},
		"held by another": {
			answer{meta: meta, holder: "other"}, doctor.Warn,
			`API 1.0.0 responds; another cluster holds the cluster UID: "prod" with the fingerprint other, not own`,
		},
		"degraded":    {answer{meta: degraded}, doctor.Warn, "API 1.0.0 is degraded"},
		"other clock": {answer{meta: late}, doctor.Warn, "API 1.0.0; its clock is 1m0s behind this machine's"},
		"unreachable": {answer{err: errors.New("connection refused")}, doctor.Fail, "no response: connection refused"},
		"wrong token": {
			answer{err: &cloudapi.Error{Status: 401, Problem: &cloudv1.Problem{Code: cloudv1.CodeUnauthenticated}}},
			doctor.Fail, "the cloud rejects the token",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid"}}))
			c.Client = tc.client
			c.Identity = func() (clusterca.Identity, error) { return clusterca.Identity{Proven: "own"}, nil }
			got := c.outside(t.Context())
			if got.Level != tc.level || got.Found != tc.found ||
				(got.Remedy != "") != (tc.level == doctor.Fail || tc.level == doctor.Warn) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
}

// Both sides are named, and what the controllers say decides.
func TestCloudFromBothSides(t *testing.T) {
	const endpoint = "https://cloud"
	var current, former int64 = 7, 6
	answers := &contact.Record{Epoch: &current, Endpoint: endpoint, State: contact.Answers, Since: installation.Noon.Add(-time.Hour)}
	silent := &contact.Record{
		Epoch: &current, Endpoint: endpoint, State: contact.Silent, Since: installation.Noon.Add(-time.Minute), Message: "timeout",
	}
	rejects := &contact.Record{
		Epoch: &current, Endpoint: endpoint, State: contact.RejectsToken, Since: installation.Noon.Add(-time.Minute), Message: "401",
	}
	unidentified := &contact.Record{
		Epoch: &current, Endpoint: endpoint, State: contact.Unidentified, Since: installation.Noon.Add(-time.Minute), Message: "a different cloud",
	}
	old := &contact.Record{Epoch: &former, Endpoint: endpoint, State: contact.Answers, Since: installation.Noon.Add(-time.Hour)}
	refused := errors.New("connection refused")
	const unasked = "asked from this machine: no response of https://cloud: connection refused"
	for name, tc := range map[string]struct {
		record *contact.Record
		noLead bool
		reach  error
		level  doctor.Level
		found  string
		remedy string
	}{
		"answers both": {answers, false, nil, doctor.OK, "https://cloud answers; it also answers the controllers", ""},
		"answers the controllers only": {
			answers, false, refused, doctor.OK, "https://cloud has answered the controllers for 1h0m0s; " + unasked, "",
		},
		"answers this machine only": {
			silent, false, nil, doctor.Fail,
			"https://cloud has not answered the controllers for 1m0s: timeout; asked from this machine: https://cloud answers",
			"firewalls and proxies between the Nodes of the controllers and https://cloud",
		},
		"dead": {
			silent, false, refused, doctor.Fail, "https://cloud has not answered the controllers for 1m0s: timeout; " + unasked,
			"check that the API of the cloud runs at https://cloud",
		},
		"wrong token": {
			rejects, false, nil, doctor.Fail, "https://cloud has rejected the token of the controllers for 1m0s: 401", "cloud.tokenSecret",
		},
		"a different cloud": {
			unidentified, false, nil, doctor.Fail,
			"the controllers have asked nothing of https://cloud for 1m0s, except which cloud it is: a different cloud", "message",
		},
		"dead, and no leader to ask": {
			answers, true, refused, doctor.Fail,
			"no response of https://cloud: connection refused; whether it answers the controllers is unknown: none of them " +
				"is the leader", "check that the API of the cloud runs",
		},
		"dead, and another leader": {
			old, false, refused, doctor.Fail,
			"no response of https://cloud: connection refused; whether it answers the controllers is unknown: the leader has " +
				"not recorded it yet", "check that the API of the cloud runs",
		},
		"no record": {
			nil, false, nil, doctor.OK,
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
			c := checks(cluster)
			c.Config = &config.Config{Endpoint: endpoint}
			if !tc.noLead {
				c.Epoch = &current
			}
			c.Reach = func(_ context.Context, at string, _ []byte) error {
				if at != endpoint {
					t.Errorf("asked %s", at)
				}
				return tc.reach
			}
			got := c.Answers(t.Context())
			if got.Level != tc.level || got.Found != tc.found || !strings.Contains(got.Remedy, tc.remedy) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
		})
	}
}
