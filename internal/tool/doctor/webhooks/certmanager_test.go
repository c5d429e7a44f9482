package webhooks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
)

// issued returns an object of cert-manager with the condition Ready, if ready is not empty.
func issued(kind, name, ready string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"secretName": "mine"},
	}}
	if kind != "ClusterIssuer" {
		u.SetNamespace("quay")
	}
	if ready != "" {
		_ = unstructured.SetNestedSlice(u.Object, []any{
			map[string]any{"type": "Ready", "status": ready, "reason": "Pending", "message": "issuer is not there"},
		}, "status", "conditions")
	}
	return u
}

func TestCertManager(t *testing.T) {
	own := func(states ...string) []runtime.Object {
		var all []runtime.Object
		for i, o := range [][2]string{
			{"Issuer", "quaymaster-webhook-selfsigned"}, {"Certificate", "quaymaster-webhook-ca"},
			{"Issuer", "quaymaster-webhook-ca"}, {"Certificate", "quaymaster-webhook"},
		} {
			if states[i] != "absent" {
				all = append(all, issued(o[0], o[1], states[i]))
			}
		}
		return append(all, issued("Certificate", "other", "False"))
	}
	tried := issued("Certificate", "quaymaster-webhook", "False")
	_ = unstructured.SetNestedSlice(tried.Object, []any{
		map[string]any{"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": "no Secret"},
		map[string]any{"type": "Issuing", "status": "False", "reason": "Failed", "message": "the order was denied"},
	}, "status", "conditions")
	const object = `--cert-manager-object={"apiVersion":"cert-manager.io/v1","kind":%q,"metadata":{"name":%q},"spec":%s}`
	serving := func(kind, issuer string) string {
		return fmt.Sprintf(object, "Certificate", "quaymaster-webhook", fmt.Sprintf(
			`{"secretName":"quaymaster-webhook-tls","issuerRef":{"group":"cert-manager.io","kind":%q,"name":%q}}`, kind, issuer))
	}
	authority := []string{
		fmt.Sprintf(object, "Issuer", "quaymaster-webhook-selfsigned", "{}"),
		fmt.Sprintf(object, "Certificate", "quaymaster-webhook-ca",
			`{"issuerRef":{"group":"cert-manager.io","kind":"Issuer","name":"quaymaster-webhook-selfsigned"}}`),
		fmt.Sprintf(object, "Issuer", "quaymaster-webhook-ca", "{}"),
		serving("Issuer", "quaymaster-webhook-ca"),
	}
	corporate := []string{serving("ClusterIssuer", "corporate")}
	unmanaged := []string{"--cert-mode=cert-manager"}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		stopped bool
		absent  string
		args    []string
		level   doctor.Level
		found   string
		details []string
		remedy  string
	}{
		"another mode": {
			args: []string{"--cert-mode=self-signed"}, level: doctor.Skip, found: "cert-manager does not issue the serving certificate",
		},
		"ready": {
			objects: own("True", "True", "True", "True"), level: doctor.OK, found: "ready: Issuer quaymaster-webhook-selfsigned, Certificate " +
				"quaymaster-webhook-ca, Issuer quaymaster-webhook-ca, Certificate quaymaster-webhook",
		},
		"not ready": {
			objects: own("True", "True", "", "False"), level: doctor.Fail, found: "2 of 4 objects of cert-manager are not ready",
			details: []string{
				"Issuer quaymaster-webhook-ca is not Ready yet", "Certificate quaymaster-webhook is not Ready: Pending: issuer is not there",
			},
			remedy: "describe certificates,issuers",
		},
		"deleted": {
			objects: own("True", "absent", "True", "True"), level: doctor.Fail, found: "1 of 4 objects of cert-manager are not ready",
			details: []string{"Certificate quaymaster-webhook-ca is missing"}, remedy: "the webhook's pods create missing objects",
		},
		"no CRD of issuers": {
			absent: "issuers", level: doctor.Fail, found: "the API server does not serve issuers.cert-manager.io/v1", remedy: "install cert-manager",
		},
		"no CRD of certificates": {
			absent: "certificates", level: doctor.Fail, found: "the API server does not serve certificates.cert-manager.io/v1",
			remedy: "install cert-manager",
		},
		"stopped": {
			objects: own("True", "True", "True", "True"), stopped: true, level: doctor.Warn, found: "what is issued is ready",
			details: []string{"Deployment cert-manager/cainjector has no ready pod"}, remedy: "let the pods run",
		},
		"user's issuer": {
			objects: []runtime.Object{issued("ClusterIssuer", "corporate", "True"), issued("Certificate", "quaymaster-webhook", "True")},
			args:    corporate, level: doctor.OK, found: "ready: ClusterIssuer corporate, Certificate quaymaster-webhook",
		},
		"user's issuer is missing": {
			objects: []runtime.Object{tried}, args: corporate, level: doctor.Fail, found: "2 of 2 objects of cert-manager are not ready",
			details: []string{
				"ClusterIssuer corporate is missing",
				"Certificate quaymaster-webhook is not Ready: DoesNotExist: no Secret; last attempt: the order was denied",
			},
			remedy: "describe certificates,issuers",
		},
		"user's Certificate": {
			objects: []runtime.Object{issued("Certificate", "any", "False")}, level: doctor.Fail,
			args: []string{"--cert-secret=mine"}, found: "1 of 1 objects of cert-manager are not ready",
			details: []string{"Certificate any is not Ready: Pending: issuer is not there"}, remedy: "describe certificates,issuers",
		},
		"not managed": {
			args: unmanaged, level: doctor.Skip,
			found: "certs.certManager.managed is false, and no Certificate writes Secret quaymaster-webhook-tls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fake.NewClientset()
			if tc.stopped {
				cluster = fake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
					Namespace: "cert-manager", Name: "cainjector", Labels: map[string]string{release.LabelName: "cainjector"},
				}})
			}
			args := tc.args
			if args == nil {
				args = authority
			}
			c := checks(cluster, append([]string{"--cert-mode=cert-manager"}, args...)...)
			objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{
					certManagerResource(issuers): "IssuerList", certManagerResource(certificates): "CertificateList",
					certManagerResource(clusterIssuers): "ClusterIssuerList",
				}, tc.objects...)
			if tc.absent != "" {
				objects.PrependReactor("list", tc.absent, func(clienttesting.Action) (bool, runtime.Object, error) {
					resource := certManagerResource(tc.absent).GroupResource()
					return true, nil, apierrors.NewNotFound(resource, "")
				})
			}
			c.Objects = objects
			got := c.CertManager(t.Context())
			if got.Level != tc.level || !strings.HasPrefix(got.Found, tc.found) || !strings.Contains(got.Remedy, tc.remedy) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
			if diff := cmp.Diff(tc.details, got.Details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
		})
	}
}
