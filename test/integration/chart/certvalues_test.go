package chart

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"quaymaster.dev/test/harness/env"
)

// TestCertificateValues checks that the chart rejects the values of certificates that the program rejects: pods with
// them would never start.
func TestCertificateValues(t *testing.T) {
	selfSigned := func(validity string) map[string]any {
		return map[string]any{"mode": "self-signed", "selfSignedValidity": validity}
	}
	long := strings.Repeat("a.", 126) + "a" // 253 characters
	issuer := func(group, kind, name string) map[string]any {
		return map[string]any{"issuerRef": map[string]any{"group": group, "kind": kind, "name": name}}
	}
	tests := map[string]struct {
		certs    map[string]any
		accepted bool
	}{
		"shortest validity":           {selfSigned("30s"), true},
		"shortest in minutes":         {selfSigned("1m"), true},
		"shortest in hours":           {selfSigned("1h"), true},
		"hours, minutes and seconds":  {selfSigned("24h0m59s"), true},
		"longest validity":            {selfSigned("999999h59m59s"), true},
		"longest in seconds":          {selfSigned("999999s"), true},
		"too short":                   {selfSigned("29s"), false},
		"a second":                    {selfSigned("1s"), false},
		"nothing":                     {selfSigned("0s"), false},
		"no hours":                    {selfSigned("0h29s"), false},
		"beyond any duration":         {selfSigned("9999999h"), false},
		"empty":                       {selfSigned(""), false},
		"negative":                    {selfSigned("-720h"), false},
		"days":                        {selfSigned("30d"), false},
		"no unit":                     {selfSigned("720"), false},
		"longest name of a Secret":    {map[string]any{"secretName": long}, true},
		"dots in the name":            {map[string]any{"secretName": "a.b-c.d"}, true},
		"name too long":               {map[string]any{"secretName": long + "aa"}, false},
		"two dots":                    {map[string]any{"secretName": "a..b"}, false},
		"a dash before a dot":         {map[string]any{"secretName": "a-.b"}, false},
		"self-signed, two dots":       {map[string]any{"mode": "self-signed", "secretName": "a..b"}, false},
		"the Secret of the CA":        {map[string]any{"secretName": "quaymaster-webhook-ca"}, false},
		"the same, self-signed":       {map[string]any{"mode": "self-signed", "secretName": "quaymaster-webhook-ca"}, true},
		"issuer":                      {issuer("issuers.example.com", "ClusterIssuer", "a.b"), true},
		"issuer with a slash":         {issuer("", "Issuer", "a/b"), false},
		"kind with a slash":           {issuer("", "a/b", "internal"), false},
		"group with a slash":          {issuer("a/b", "Issuer", "internal"), false},
		"issuer without a kind":       {issuer("", "", "internal"), false},
		"files without a Secret":      {map[string]any{"mode": "files"}, false},
		"another mode than the three": {map[string]any{"mode": "magic"}, false},
	}
	path, err := env.Program("quaymaster")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := maps.Clone(cases()["default"])
			values["certs"] = test.certs
			objects, err := env.RenderChart(values)
			if (err == nil) != test.accepted {
				t.Fatalf("the chart accepts it: %t, want %t: %v", err == nil, test.accepted, err)
			}
			if err != nil {
				return
			}
			args := find[appsv1.Deployment](t, objects, "Deployment", webhooks).Spec.Template.Spec.Containers[0].Args
			// Without an API server, the program ends after the validation of its flags; its exit code is 2 if that fails.
			out, err := env.Run(t.Context(), "", path, append(args, "--kubeconfig=/absent")...)
			if err != nil || out.Code != 1 || !strings.Contains(out.Stderr, "/absent") {
				t.Errorf("the program rejects it: %v %+v", err, out)
			}
		})
	}
}
