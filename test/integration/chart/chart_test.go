// Package chart tests what the chart renders: complete outputs against snapshots, and properties that hold for all
// values.
package chart

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/env"
)

var update = flag.Bool("update", false, "update snapshots and README")

// cases returns the values of the tested installations.
func cases() map[string]env.Values {
	return map[string]env.Values{
		"default": {},
		"development": {
			"certs": map[string]any{"mode": "self-signed"},
			"webhook": map[string]any{
				"url": "https://127.0.0.1:9443", "failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"},
			},
		},
		"self-signed": {
			"certs":      map[string]any{"mode": "self-signed", "selfSignedValidity": "48h"},
			"webhook":    map[string]any{"hostNetwork": true, "port": 10250, "healthPort": 10251, "metricsPort": 10252, "secureMetrics": true},
			"monitoring": map[string]any{"serviceMonitor": map[string]any{"enabled": true}},
		},
		"files": {
			"certs": map[string]any{"mode": "files", "secretName": "quaymaster-webhook", "injectCAFrom": "quaymaster-system/quaymaster-webhook"},
		},
		"issuer": {
			"certs":     map[string]any{"issuerRef": map[string]any{"group": "issuers.example.com", "kind": "ClusterIssuer", "name": "internal"}},
			"apiServer": map[string]any{"host": "10.0.0.2"},
		},
		"monitored": {
			"certs":         map[string]any{"certManager": map[string]any{"managed": false}},
			"networkPolicy": map[string]any{"apiServerCIDRs": []any{"10.0.0.0/24"}},
			"webhook": map[string]any{"clientAuthentication": map[string]any{
				"configMap": "api-server-clients", "allowedNames": []any{"kube-apiserver", "apiserver.example.com"},
			}},
			"monitoring": map[string]any{
				"serviceMonitor": map[string]any{"enabled": true, "labels": map[string]any{"prometheus": "main"}},
				"prometheusRule": map[string]any{"enabled": true, "labels": map[string]any{"prometheus": "main"}},
				"dashboard":      map[string]any{"enabled": true},
			},
		},
		"controllers-only": {
			"webhook":         map[string]any{"enabled": false},
			"cloudController": map[string]any{"kind": "DaemonSet", "useServiceAccountCredentials": true, "clusterCIDR": "10.244.0.0/16"},
			"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
		},
		"webhooks-only": {
			"fullnameOverride": "admission",
			"catalogs":         []any{"hcloud", "metallb"},
			"cloudController":  map[string]any{"enabled": false},
			"crds":             map[string]any{"enabled": false},
			"networkPolicy":    map[string]any{"enabled": true},
			"webhook":          map[string]any{"replicas": 1, "unknownKeys": map[string]any{"of": map[string]any{"hcloud": "error"}}, "namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "edge"}}},
		},
		"webhooks-with-cloud": {
			"cloudController": map[string]any{"enabled": false},
			"crds":            map[string]any{"keep": false},
			"certs":           map[string]any{"mode": "files", "secretName": "quaymaster-webhook"},
			"webhook": map[string]any{"cloud": map[string]any{
				"enabled": true, "tokenSecret": map[string]any{"name": "read-only", "key": "reader"},
			}},
		},
		"audited": {
			"catalogs":         []any{"mycloud", "hcloud"},
			"catalogFiles":     map[string]any{"example.yaml": "name: example\n"},
			"cloudController":  map[string]any{"enabled": false},
			"policyController": map[string]any{"replicas": 0},
			"audit":            map[string]any{"enabled": true, "podLabels": map[string]any{"role": "audit"}, "nodeSelector": map[string]any{"pool": "system"}},
			"webhook": map[string]any{"namespaceSelector": map[string]any{
				"matchLabels": map[string]any{"cloud": "eu"},
				"matchExpressions": []any{
					map[string]any{"key": "team", "operator": "NotIn", "values": []any{"a", "b"}},
					map[string]any{"key": "tenant", "operator": "Exists"}, map[string]any{"key": "system", "operator": "DoesNotExist"},
				},
			}},
			"monitoring": map[string]any{"prometheusRule": map[string]any{"enabled": true}},
		},
		"customized": {
			"commonLabels": map[string]any{"team": "network"},
			"env":          []any{map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}},
			"apiServer":    map[string]any{"host": "10.0.0.2"},
			"webhook": merged(customized("webhook"), map[string]any{
				"service": map[string]any{"labels": map[string]any{"zone": "a"}, "annotations": map[string]any{"example.com/owner": "network"}},
			}),
			"cloudController": customized("controllers"),
		},
		"customized-policies": {
			"cloudController":  map[string]any{"enabled": false},
			"policyController": merged(customized("policies"), map[string]any{"replicas": 2}),
		},
		"certificate": {"cloud": map[string]any{
			"otherEndpoints":    []any{"https://api-2.mycloud.internal"},
			"clientCertificate": map[string]any{"secretName": "cloud-client", "replacesToken": true},
		}},
		"routes": {
			"cloudController": map[string]any{"clusterCIDR": "10.244.0.0/16", "extraArgs": []any{"--v=2"}},
			"cloud": map[string]any{
				"clusterID": "prod", "token": "secret", "caBundle": "-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----\n",
				"clientCertificate": map[string]any{"secretName": "cloud-client"}, "quotaPercent": 80, "kubeProxyHealthCheckPort": 9999,
				"network": map[string]any{"routeTableID": "rt-main", "subnetIDs": []any{"subnet-a"}},
			},
		},
	}
}

// customized returns values of a role that set everything that users may add to its pods.
func customized(role string) map[string]any {
	return map[string]any{
		"podLabels":           map[string]any{"role": role},
		"podAnnotations":      map[string]any{"example.com/role": role},
		"serviceAccount":      map[string]any{"annotations": map[string]any{"example.com/identity": role}},
		"podDisruptionBudget": map[string]any{"enabled": true, "maxUnavailable": "50%"},
		"extraArgs":           []any{"--v=1"},
		"extraVolumes":        []any{map[string]any{"name": "extra", "configMap": map[string]any{"name": role}}},
		"extraVolumeMounts":   []any{map[string]any{"name": "extra", "mountPath": "/extra"}},
		"topologySpreadConstraints": []any{map[string]any{
			"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
			"labelSelector": map[string]any{"matchLabels": map[string]any{"role": role}},
		}},
	}
}

func merged(values, more map[string]any) map[string]any {
	maps.Copy(values, more)
	return values
}

func render(t *testing.T, values env.Values) []*unstructured.Unstructured {
	t.Helper()
	objects, err := env.RenderChart(values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find returns the object with the kind and name.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return typed
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

func encode(t *testing.T, object *unstructured.Unstructured) []byte {
	t.Helper()
	raw, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Snapshots have the objects of a case. Those that are the same by default are only named, so that a change shows once.
func TestSnapshots(t *testing.T) {
	byDefault := map[string]bool{}
	for _, object := range render(t, cases()["default"]) {
		byDefault[string(encode(t, object))] = true
	}
	for name, values := range cases() {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			for _, object := range render(t, values) {
				raw := encode(t, object)
				switch {
				case object.GetKind() == definition:
					// long, and compared with the generated ones in TestDefinitions
				case name != "default" && byDefault[string(raw)]:
					fmt.Fprintf(&text, "--- # as by default: %s %s\n", object.GetKind(), object.GetName())
				default:
					fmt.Fprintf(&text, "---\n%s", raw)
				}
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Errorf("differs from %s; if this is intended, run go test ./test/integration/chart -update (-want +got):\n%s", file, diff)
			}
		})
	}
}

func TestInvalidValues(t *testing.T) {
	tests := map[string]struct {
		values env.Values
		want   string
	}{
		"no image":              {env.Values{"image": map[string]any{}}, "image.repository is required: name the image with its registry"},
		"label of a selector":   {env.Values{"commonLabels": map[string]any{"app.kubernetes.io/name": "x"}}, "app.kubernetes.io/name"},
		"no eviction":           {env.Values{"webhook": map[string]any{"podDisruptionBudget": map[string]any{"maxUnavailable": 0}}}, "/webhook/podDisruptionBudget/maxUnavailable"},
		"unknown value":         {env.Values{"webhook": map[string]any{"replica": 2}}, "additional properties 'replica' not allowed"},
		"unknown policy":        {env.Values{"webhook": map[string]any{"failurePolicy": map[string]any{"validateService": "Deny"}}}, "must be one of 'Ignore', 'Fail'"},
		"cloud of the webhooks": {env.Values{"webhook": map[string]any{"cloud": map[string]any{"enabled": "yes"}}}, "/webhook/cloud/enabled"},
		"timeout":               {env.Values{"webhook": map[string]any{"timeoutSeconds": 31}}, "/webhook/timeoutSeconds"},
		"URL without TLS":       {env.Values{"webhook": map[string]any{"url": "http://127.0.0.1"}}, "/webhook/url"},
		"no cluster":            {env.Values{"cloud": map[string]any{"clusterID": ""}}, "/cloud/clusterID"},
		"files without Secret":  {env.Values{"certs": map[string]any{"mode": "files"}}, "certs.secretName is required when certs.mode is \"files\""},
		"self-signed with CA":   {env.Values{"certs": map[string]any{"mode": "self-signed", "injectCAFrom": "a/b"}}, "must be empty when certs.mode is \"self-signed\""},
		"unknown mode":          {env.Values{"certs": map[string]any{"mode": "magic"}}, "/certs/mode"},
		"issuer for files": {
			env.Values{"certs": map[string]any{"mode": "files", "secretName": "x", "issuerRef": map[string]any{"name": "x"}}},
			"certs.issuerRef.name requires certs.mode \"cert-manager\" and certs.certManager.managed true",
		},
		"issuer without Certificate": {
			env.Values{"certs": map[string]any{"certManager": map[string]any{"managed": false}, "issuerRef": map[string]any{"name": "x"}}},
			"certs.issuerRef.name requires certs.mode \"cert-manager\" and certs.certManager.managed true",
		},
		"nothing": {
			env.Values{"webhook": map[string]any{"enabled": false}, "cloudController": map[string]any{"enabled": false}},
			"webhook.enabled or cloudController.enabled must be true",
		},
		"URL without webhooks": {
			env.Values{"webhook": map[string]any{"enabled": false, "url": "https://127.0.0.1"}}, "webhook.url must be empty when webhook.enabled is false",
		},
		"query in the URL":    {env.Values{"webhook": map[string]any{"url": "https://a.example?b=c"}}, "/webhook/url"},
		"fragment in the URL": {env.Values{"webhook": map[string]any{"url": "https://a.example/#b"}}, "/webhook/url"},
		"user in the URL":     {env.Values{"webhook": map[string]any{"url": "https://a:b@a.example"}}, "/webhook/url"},
		"class with a space":  {env.Values{"loadBalancerClass": "a b"}, "/loadBalancerClass"},
		"label with a space":  {env.Values{"webhook": map[string]any{"podLabels": map[string]any{"a": "b c"}}}, "/webhook/podLabels/a"},
		"name of a label":     {env.Values{"commonLabels": map[string]any{"a b": "c"}}, "/commonLabels"},
		"unknown keys of our own catalog": {
			env.Values{"webhook": map[string]any{"unknownKeys": map[string]any{"of": map[string]any{"mycloud": "error"}}}}, "/webhook/unknownKeys/of",
		},
		"unknown keys of a catalog that is not used": {
			env.Values{"webhook": map[string]any{"unknownKeys": map[string]any{"of": map[string]any{"hcloud": "error"}}}},
			"webhook.unknownKeys.of must only name catalogs that are also in catalogs: add \"hcloud\" there, or remove it here",
		},
		"Secret of the CA":   {env.Values{"certs": map[string]any{"secretName": "quaymaster-webhook-ca"}}, "certs.secretName must not be \"quaymaster-webhook-ca\""},
		"token in the clear": {env.Values{"cloud": map[string]any{"endpoint": "http://api.example"}}, "cloud.endpoint must be an https URL"},
		"token in the clear to another server": {
			env.Values{"cloud": map[string]any{"otherEndpoints": []any{"http://api.example"}}}, "cloud.otherEndpoints must be an https URL",
		},
		"the same server twice": {
			env.Values{"cloud": map[string]any{"otherEndpoints": []any{"https://api.mycloud.internal"}}},
			"cloud.otherEndpoints must not have cloud.endpoint",
		},
		"no certificate instead of the token": {
			env.Values{"cloud": map[string]any{"clientCertificate": map[string]any{"replacesToken": true}}},
			"cloud.clientCertificate.replacesToken requires cloud.clientCertificate.secretName",
		},
		"tag in the repository": {env.Values{"image": map[string]any{"repository": "registry.example.com:5000/quaymaster:1.0"}}, "set image.repository to \"registry.example.com:5000/quaymaster\""},
		"short lease": {
			env.Values{"cloudController": map[string]any{"leaderElection": map[string]any{"leaseDuration": "10s"}}},
			"leaseDuration must be longer than renewDeadline",
		},
		"privileged port of the Node": {env.Values{"cloudController": map[string]any{"port": 443}}, "cloudController.port must be at least 1024"},
		"one port of the Node for both": {
			env.Values{"webhook": map[string]any{"hostNetwork": true, "port": 10258}}, "webhook.port must differ from cloudController.port",
		},
		"many connections": {env.Values{"webhook": map[string]any{"maxConnections": 1000000}}, "/webhook/maxConnections"},
		"duplicate port":   {env.Values{"webhook": map[string]any{"metricsPort": 8081}}, "must be different"},
		"unknown kind":     {env.Values{"cloudController": map[string]any{"kind": "StatefulSet"}}, "/cloudController/kind"},
		"no port":          {env.Values{"webhook": map[string]any{"port": 0}}, "/webhook/port"},
		"too little grace": {
			env.Values{"webhook": map[string]any{"terminationGracePeriodSeconds": 14}}, "/webhook/terminationGracePeriodSeconds",
		},
		"two CAs": {
			env.Values{
				"certs":   map[string]any{"mode": "files", "secretName": "x", "injectCAFrom": "a/b"},
				"webhook": map[string]any{"caBundle": "-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----\n"},
			}, "certs.injectCAFrom must not be combined with webhook.caBundle",
		},
		"routes without table": {env.Values{"cloudController": map[string]any{"clusterCIDR": "10.0.0.0/8"}}, "cloud.network.routeTableID is required when cloudController.clusterCIDR is set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := env.RenderChart(test.values)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
