package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/config"
)

const minimal = `
clusterID: dev
endpoint: http://127.0.0.1:8090
tokenFile: /etc/quaymaster/token
`

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want config.Config
	}{
		"minimal": {
			text: minimal,
			want: config.Config{
				ClusterID: "dev", Endpoint: "http://127.0.0.1:8090", TokenFile: "/etc/quaymaster/token",
				LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true,
				IngressNodes:             config.IngressNodes{Fallback: "all", MaxRemovedPercentPerMinute: 10, MaxGroups: 50},
				KubeProxyHealthCheckPort: 10256, QuotaPercent: 50,
			},
		},
		"certificate instead of a token": {
			text: "clusterID: dev\nendpoint: https://a\nclientCertFile: /c\nclientKeyFile: /k\n",
			want: config.Config{
				ClusterID: "dev", Endpoint: "https://a", ClientCertFile: "/c", ClientKeyFile: "/k",
				LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true,
				IngressNodes:             config.IngressNodes{Fallback: "all", MaxRemovedPercentPerMinute: 10, MaxGroups: 50},
				KubeProxyHealthCheckPort: 10256, QuotaPercent: 50,
			},
		},
		"several servers": {
			text: minimal + "otherEndpoints: [http://127.0.0.1:8091]\n",
			want: config.Config{
				ClusterID: "dev", Endpoint: "http://127.0.0.1:8090", OtherEndpoints: []string{"http://127.0.0.1:8091"},
				TokenFile: "/etc/quaymaster/token", LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true,
				IngressNodes:             config.IngressNodes{Fallback: "all", MaxRemovedPercentPerMinute: 10, MaxGroups: 50},
				KubeProxyHealthCheckPort: 10256, QuotaPercent: 50,
			},
		},
		"everything": {
			text: minimal + `
loadBalancerClass: example.com/lb
defaultClass: false
network: {vpcID: vpc-main, routeTableID: rt-main, subnetIDs: [subnet-a, subnet-b]}
ingressNodes: {fallback: none, maxRemovedPercentPerMinute: 25, drainCordoned: true, maxGroups: 5}
kubeProxyHealthCheckPort: 9876
caFile: /ca.crt
clientCertFile: /tls.crt
clientKeyFile: /tls.key
quotaPercent: 80
allowInsecureHTTP: true
`,
			want: config.Config{
				ClusterID: "dev", Endpoint: "http://127.0.0.1:8090", TokenFile: "/etc/quaymaster/token",
				LoadBalancerClass: "example.com/lb",
				Network: config.Network{
					VPCID: "vpc-main", RouteTableID: "rt-main", SubnetIDs: []string{"subnet-a", "subnet-b"},
				},
				IngressNodes: config.IngressNodes{
					Fallback: "none", MaxRemovedPercentPerMinute: 25, DrainCordoned: true, MaxGroups: 5,
				},
				KubeProxyHealthCheckPort: 9876,
				CAFile:                   "/ca.crt", ClientCertFile: "/tls.crt", ClientKeyFile: "/tls.key", QuotaPercent: 80,
				AllowInsecureHTTP: true,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Parse([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInsecureEndpoints(t *testing.T) {
	for _, allowed := range []string{
		"http://localhost:8090", "http://127.8.0.1", "http://[::1]:8090", "https://10.0.0.1", "https://cloud",
	} {
		if _, err := config.Parse([]byte(strings.Replace(minimal, "http://127.0.0.1:8090", allowed, 1))); err != nil {
			t.Error(err)
		}
	}
	insecure := strings.Replace(minimal, "127.0.0.1", "10.0.0.1", 1) + "allowInsecureHTTP: true\n"
	if _, err := config.Parse([]byte(insecure)); err != nil {
		t.Error(err)
	}
}

func TestParseErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"empty": {
			want: []string{
				"clusterID: Required value: must be a DNS label that names the cluster in the cloud",
				"endpoint: Required value: must be the address of the cloud's API, such as http://127.0.0.1:8090",
				"tokenFile: Required value: must be the path of the file with the bearer token for the cloud, unless clientCertFile is set",
			},
		},
		"unknown fields, all of them": {
			text: minimal + "clusterName: dev\nnetwork: {vpc: main, subnetIDs: []}\n",
			want: []string{
				"clusterName: Forbidden: unknown field; remove it or correct its name",
				"network.vpc: Forbidden: unknown field; remove it or correct its name",
			},
		},
		"unknown field, wrong types and bad values together": {
			text: "clusterID: 5\nendpoint: ftp://cloud\ntokenFile: [a]\nnetwork: {subnetIDs: eu}\nextra: 1\n",
			want: []string{
				`clusterID: Invalid value: "number": must be a string`,
				`network.subnetIDs: Invalid value: "string": must be a list`,
				`tokenFile: Invalid value: "array": must be a string`,
				"extra: Forbidden: unknown field; remove it or correct its name",
				`endpoint: Invalid value: "ftp://cloud": must be an HTTP or HTTPS URL, such as http://127.0.0.1:8090`,
			},
		},
		"bad addresses of other servers": {
			text: minimal + "otherEndpoints: [http://cloud, http://127.0.0.1:8090]\n",
			want: []string{
				`otherEndpoints[0]: Invalid value: "http://cloud": must not send the token in the clear to a remote machine; ` +
					"use https, or set allowInsecureHTTP to true",
				`otherEndpoints[1]: Duplicate value: "http://127.0.0.1:8090"`,
			},
		},
		"case matters": {
			text: minimal + "ClusterID: dev\n",
			want: []string{"ClusterID: Forbidden: unknown field; remove it or correct its name"},
		},
		"field twice": {
			text: minimal + "clusterID: prod\n",
			want: []string{`key "clusterID" already set in map`},
		},
		"no YAML": {text: "clusterID: [", want: []string{"did not find expected node content"}},
		"no map":  {text: "- clusterID", want: []string{"must be a map of fields"}},
		"no label": {
			text: strings.Replace(minimal, "dev", "Dev_1", 1),
			want: []string{`clusterID: Invalid value: "Dev_1": a lowercase RFC 1123 label`},
		},
		"endpoint with the API's path": {
			text: strings.Replace(minimal, ":8090", ":8090/v1", 1),
			want: []string{`endpoint: Invalid value: "http://127.0.0.1:8090/v1": must not contain anything after ` +
				`host and port`},
		},
		"the token would be sent in the clear": {
			text: strings.Replace(minimal, "127.0.0.1", "10.0.0.1", 1),
			want: []string{`endpoint: Invalid value: "http://10.0.0.1:8090": must not send the token in the clear ` +
				`to a remote machine; use https, or set allowInsecureHTTP to true`},
		},
		"half a client certificate, and no quota": {
			text: minimal + "clientKeyFile: /tls.key\nquotaPercent: 0\n",
			want: []string{
				"clientCertFile: Required value: clientCertFile and clientKeyFile must be set together",
				"quotaPercent: Invalid value: 0: must be between 1 and 100",
			},
		},
		"credentials are not repeated": {
			text: strings.Replace(minimal, "http://", "http://me:secret@", 1),
			want: []string{`endpoint: Invalid value: "http://me:xxxxx@127.0.0.1:8090": must not contain credentials`},
		},
		"bad class, ids and fallback": {
			text: minimal + "loadBalancerClass: a/b/c\nnetwork: {vpcID: a/b, subnetIDs: [s, s, '']}\n" +
				"ingressNodes: {fallback: some, maxRemovedPercentPerMinute: 0, maxGroups: 501}\nkubeProxyHealthCheckPort: 65536\n",
			want: []string{
				`loadBalancerClass: Invalid value: "a/b/c"`,
				`network.vpcID: Invalid value: "a/b"`,
				`network.subnetIDs[1]: Duplicate value: "s"`,
				`network.subnetIDs[2]: Required value`,
				`ingressNodes.fallback: Unsupported value: "some": supported values: "all", "none"`,
				`ingressNodes.maxRemovedPercentPerMinute: Invalid value: 0: must be between 1 and 100`,
				`ingressNodes.maxGroups: Invalid value: 501: must be between 1 and 500`,
				`kubeProxyHealthCheckPort: Invalid value: 65536: must be a port, 1 to 65535`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Parse([]byte(tc.text))
			if err == nil {
				t.Fatalf("accepted: %+v", cfg)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("want one line without a secret; got %q", err)
			}
			problems := strings.Count(err.Error(), ": Required") + strings.Count(err.Error(), ": Forbidden")
			if name == "empty" && problems != 3 {
				t.Errorf("%d problems, want 3: %v", problems, err)
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.yaml")
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: error %v; want %s in it", err, path)
	}
	if err := os.WriteFile(path, []byte("clusterID: dev"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("bad file: error %v; want %s in it", err, path)
	}
}

func TestTokenFile(t *testing.T) {
	for name, tc := range map[string]struct {
		content *string
		want    string
		err     string
	}{
		"token with a newline": {content: new("s3cret\n"), want: "s3cret"},
		"missing":              {err: "no such file"},
		"empty":                {content: new(" \n"), err: "is empty"},
		"two lines":            {content: new("s3cret\nother"), err: "must contain only one token"},
		"not ASCII":            {content: new("s3crét"), err: "must contain only one token"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if tc.content != nil {
				if err := os.WriteFile(path, []byte(*tc.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := config.TokenFile(path).Read()
			if got != tc.want || (err == nil) != (tc.err == "") {
				t.Fatalf("Read() = %q, %v; want %q, error %q", got, err, tc.want, tc.err)
			}
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), path) ||
				strings.Contains(err.Error(), "s3c") {
				t.Errorf("error %q; want the path and %q in it, and not the token", err, tc.err)
			}
		})
	}
}
