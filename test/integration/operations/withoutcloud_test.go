package operations_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/harness/env"
)

// Next to another cloud's controllers, policies get their status with the rights that the chart then grants, and
// nothing else is changed.
func TestControllersWithoutACloud(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := env.Start(t, env.Options{})
	v := env.Values{"cloudController": map[string]any{"enabled": false}, "webhook": map[string]any{"url": "https://127.0.0.1:1"}}
	if err := e.InstallChart(ctx, v); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, env.Namespace, "quaymaster-controllers")
	if err != nil {
		t.Fatal(err)
	}
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	path, err := env.Program("quaymaster")
	if err != nil {
		t.Fatal(err)
	}
	usage := []string{"controllers", "--without-cloud", "--kubeconfig=" + kubeconfig, "--cloud-config=c", "--controllers=*", "--load-balancer-class=a b"}
	run(t, "quaymaster", usage, 2, "--cloud-config must not be combined with --without-cloud", "--controllers must not be combined with --without-cloud",
		`--load-balancer-class must be a qualified name such as mycloud.io/dlb; got "a b"`)
	run(t, "quaymaster", []string{"controllers", "--load-balancer-class=a/b", "--kubeconfig=" + kubeconfig}, 2,
		"--load-balancer-class requires --without-cloud; set loadBalancerClass in the cloud config instead")

	server, err := e.Start("without-cloud", path, "controllers", "--without-cloud", "--kubeconfig="+kubeconfig,
		// Inside a cluster, the ServiceAccount of the pod is used for these.
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir="+t.TempDir(),
		"--leader-elect-resource-name=quaymaster-policy-controller", "--leader-elect-resource-namespace="+env.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.LoadBalancerPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "limits"},
		Spec: v1alpha1.LoadBalancerPolicySpec{
			Rules:    []v1alpha1.Rule{{Annotation: maxQPS, Max: new(intstr.FromInt32(100))}, {Annotation: flavor, Required: true}},
			Defaults: map[string]string{flavor: "large"},
		},
	}
	// No webhook has written the default, and no controller applies it.
	bare := service("bare")
	bare.Annotations = map[string]string{maxQPS: "50"}
	svc := service("greedy")
	svc.Annotations = map[string]string{maxQPS: "200", flavor: "small"}
	for _, object := range []client.Object{policy, svc, bare} {
		if err := e.Client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	env.Eventually(t, soon, "the policy's status", func(ctx context.Context) error {
		if exit := server.Exit(); exit != nil {
			return exit
		}
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if policy.Status.Violating != 2 {
			return fmt.Errorf("it is %+v", policy.Status)
		}
		return nil
	})

	lease := &coordinationv1.Lease{}
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: env.Namespace, Name: "quaymaster-policy-controller"}, lease); err != nil {
		t.Error(err)
	}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(svc), svc); err != nil || len(svc.Finalizers)+len(svc.Status.Conditions) > 0 {
		t.Errorf("the Service is %+v, %v; want it untouched", svc, err)
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/metrics": "quaymaster_policy_violating_services", "/configz": `"quaymaster-policy-controller"`,
	} {
		if got, err := get(ctx, e, port, path); err != nil || !strings.Contains(got, want) {
			t.Errorf("GET %s: %v, without %q: %.200s", path, err, want, got)
		}
	}
	log, err := os.ReadFile(e.LogDir() + "/without-cloud.log")
	if err != nil {
		t.Fatal(err)
	}
	if unstamped := "v0.0.0-master"; strings.Contains(string(log), unstamped) {
		t.Errorf("it logs the version %s", unstamped)
	}
	if err := server.Stop(soon); err != nil {
		t.Error(err)
	}
}

const (
	maxQPS = "service.beta.kubernetes.io/dlb-listener-maxqps"
	flavor = "service.beta.kubernetes.io/dlb-flavor"
)

// get sends a request to the controllers with the administrator's certificate.
func get(ctx context.Context, e *env.Env, port int, path string) (string, error) {
	pair, err := tls.X509KeyPair(e.Admin.CertData, e.Admin.KeyData)
	if err != nil {
		return "", err
	}
	// The server has a self-signed certificate.
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}
