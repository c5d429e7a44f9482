package app_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/cmd/quaymaster/app"
)

// run runs the command and returns its exit code and output.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = app.Run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// pair writes a certificate and its key to files.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	der, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert = write(t, "tls.crt",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	return cert, write(t, "tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

func TestUsageMistakes(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown command": {[]string{"serve"}, `quaymaster: unknown command "serve"; see "quaymaster --help"`},
		"misspelt command": {
			[]string{"webhok"}, `quaymaster: unknown command "webhok"; did you mean "webhook"?; see "quaymaster ` +
				`--help"`,
		},
		"unknown flag": {
			[]string{"webhook", "--port=1"},
			`quaymaster webhook: unknown flag: --port; see "quaymaster webhook --help"`,
		},
		"argument": {
			[]string{"webhook", "now"}, `quaymaster webhook: unknown argument "now"; see "quaymaster webhook --help"`,
		},
		"argument of version": {
			[]string{"version", "now"}, `quaymaster version: unknown argument "now"; see "quaymaster version --help"`,
		},
		"value of a flag": {
			[]string{"webhook", "--secure-port=x"},
			`quaymaster webhook: invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": ` +
				`invalid syntax; see "quaymaster webhook --help"`,
		},
		"no certificate files": {
			[]string{"webhook", "--cert-mode=files"},
			`quaymaster webhook: --tls-cert-file is required with --cert-mode=files; --tls-private-key-file is ` +
				`required with --cert-mode=files; see "quaymaster webhook --help"`,
		},
		"several problems": {
			[]string{
				"webhook", "--bind-address=here", "--secure-port=70000", "--health-probe-bind-address=8081",
				"--max-concurrent-requests=0", "--max-connections=0", "--request-timeout=31s",
				"--client-allowed-names=apiserver", "--shutdown-delay=-1s",
				"--load-balancer-class=a b", "--cert-mode=magic", "--log-format=xml", "-v=-1",
			},
			`quaymaster webhook: --bind-address must be an IP address; got "here"; --secure-port must be between 1 ` +
				`and 65535; got 70000; ` +
				`--health-probe-bind-address must be 0 or an address with a port, such as :8081; got "8081"; ` +
				`--max-concurrent-requests must be at least 1; got 0; --max-connections must be at least 1; got 0; ` +
				`--request-timeout must be between 1s and 30s; got 31s; ` +
				`--client-allowed-names requires --client-ca-file; --shutdown-delay must not be negative; got ` +
				`-1s; --load-balancer-class must be a qualified name such as mycloud.io/dlb; got "a b"; ` +
				`--cert-mode must be cert-manager, self-signed or files; got "magic"; --log-format must be text or ` +
				`json; got "xml"; -v must not be negative; got -1; ` +
				`see "quaymaster webhook --help"`,
		},
		"profiling without metrics": {
			[]string{"webhook", "--cert-mode=self-signed", "--cert-hosts=::1", "--cert-secret=", "--profiling"},
			`quaymaster webhook: --profiling requires a loopback address in --metrics-bind-address, such as ` +
				`127.0.0.1:8080; got "0"; see "quaymaster webhook --help"`,
		},
		"profiling for everyone": {
			[]string{
				"webhook", "--cert-mode=self-signed", "--cert-hosts=::1", "--cert-secret=", "--profiling",
				"--metrics-bind-address=:8080",
			},
			`quaymaster webhook: --profiling requires a loopback address in --metrics-bind-address, such as ` +
				`127.0.0.1:8080; got ":8080"; see "quaymaster webhook --help"`,
		},
		"self-signed": {
			[]string{"webhook", "--cert-mode=self-signed", "--cert-hosts=a_b,::1", "--self-signed-validity=1s",
				"--cert-secret="},
			`quaymaster webhook: --cert-hosts must contain DNS names or IP addresses; got "a_b"; ` +
				`--self-signed-validity must be at least 30s; got 1s; ` +
				`see "quaymaster webhook --help"`,
		},
		"no hosts": {
			[]string{"webhook", "--cert-mode=self-signed", "--cert-secret="},
			`quaymaster webhook: --cert-hosts is required: name the hosts that API servers call, such as ` +
				`quaymaster-webhook.quaymaster-system.svc; ` +
				`see "quaymaster webhook --help"`,
		},
		"Secret of no namespace": {
			[]string{"webhook", "--cert-mode=self-signed", "--cert-hosts=::1"},
			`quaymaster webhook: --namespace is required outside a cluster: name the namespace of --cert-secret; see ` +
				`"quaymaster webhook --help"`,
		},
		"cert-manager": {
			[]string{"webhook", "--cert-secret=", "--namespace=a.b"},
			`quaymaster webhook: --cert-secret must be a valid Secret name; got ""; --namespace must be a valid namespace name; got ` +
				`"a.b"; ` +
				`see "quaymaster webhook --help"`,
		},
		"object of another kind": {
			[]string{"webhook", "--namespace=system", `--cert-manager-object={"apiVersion":"v1","kind":"Secret"}`},
			`quaymaster webhook: --cert-manager-object must be an Issuer or Certificate of cert-manager.io/v1; got /v1, ` +
				`Kind=Secret; see "quaymaster webhook --help"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, test.args...)
			if code != 2 || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			if diff := cmp.Diff(test.want+"\n", stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWebhookCannotStart(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	good := write(t, "kubeconfig", kubeconfig)
	malformed := write(t, "kubeconfig", "apiVersion: v1\nkind: [Config\n")
	empty := write(t, "kubeconfig", "")
	cert, key := pair(t)
	otherKey := write(t, "tls.key", "hello")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().String()
	port := taken[strings.LastIndex(taken, ":")+1:]
	inMemory := []string{"--cert-mode=self-signed", "--cert-hosts=127.0.0.1", "--cert-secret="}
	cloud := write(t, "cloud.yaml", "clusterID: dev\nendpoint: http://127.0.0.1:1\ntokenFile: /absent\ndefaultClass: false\n")
	tests := map[string]struct {
		args []string
		want string
	}{
		"outside a cluster": {inMemory, "--kubeconfig is required outside a cluster: "},
		"no kubeconfig": {
			append(inMemory, "--kubeconfig=/absent"),
			"--kubeconfig /absent must be a readable kubeconfig: stat /absent: no such file or directory",
		},
		"malformed": {
			append(inMemory, "--kubeconfig="+malformed),
			"--kubeconfig " + malformed + " must be a readable kubeconfig: error loading config file",
		},
		"empty": {
			append(inMemory, "--kubeconfig="+empty), "--kubeconfig " + empty + " must be a readable kubeconfig: ",
		},
		"no certificate": {
			[]string{"--cert-mode=files", "--kubeconfig=" + good, "--tls-cert-file=/absent.crt",
				"--tls-private-key-file=" + key},
			"--tls-cert-file=/absent.crt, --tls-private-key-file=" + key + ": open /absent.crt: no such file or " +
				"directory; provide a certificate and its key there, or use --cert-mode=self-signed",
		},
		"no key": {
			[]string{"--cert-mode=files", "--kubeconfig=" + good, "--tls-cert-file=" + cert,
				"--tls-private-key-file=" + otherKey},
			"--tls-cert-file=" + cert + ", --tls-private-key-file=" + otherKey +
				": tls: failed to find any PEM data in key input; provide",
		},
		"no client CA": {
			append(inMemory, "--kubeconfig="+good, "--client-ca-file=/absent.crt"),
			"--client-ca-file: open /absent.crt: no such file or directory",
		},
		"another default class than in the cloud config": {
			append(inMemory, "--kubeconfig="+good, "--cloud-config="+cloud),
			"--default-class must be false, the defaultClass of --cloud-config; got true",
		},
		"webhook port taken": {
			append(inMemory, "--kubeconfig="+good, "--bind-address=127.0.0.1", "--secure-port="+port),
			"--secure-port: listen tcp " + taken +
				": bind: address already in use; stop the process that listens there or choose a different port",
		},
		"health port taken": {
			append(inMemory, "--kubeconfig="+good, "--health-probe-bind-address="+taken),
			"--health-probe-bind-address: listen tcp " + taken +
				": bind: address already in use; stop the process that listens there or choose a different port",
		},
		"metrics port taken": {
			append(inMemory, "--kubeconfig="+good, "--health-probe-bind-address=0", "--metrics-bind-address="+taken),
			"--metrics-bind-address: listen tcp " + taken +
				": bind: address already in use; stop the process that listens there or choose a different port",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"webhook"}, test.args...)...)
			if code != 1 || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			line := strings.ReplaceAll(stderr, `\"`, `"`)
			if !strings.Contains(line, `level=error`) || !strings.Contains(line, test.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("stderr is\n%s\nwant one line of the log with\n%s", stderr, test.want)
			}
		})
	}
}

func TestVersionAndHelp(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"version":         {[]string{"version"}, "go1."},
		"help":            {nil, "quaymaster [command]"},
		"help of webhook": {[]string{"webhook", "--help"}, "--secure-port port"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, test.args...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, test.want) {
				t.Errorf("exit code %d, stderr %q, stdout %s", code, stderr, stdout)
			}
		})
	}
}
