package chart

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// TestMetrics runs both roles with the arguments and rights from the chart, the controllers with separate accounts, and
// checks that they work and serve every documented metric once, with the documented labels, and whom their ports answer.
func TestMetrics(t *testing.T) {
	t.Parallel()
	e := env.Start(t, env.Options{})
	ctx := t.Context()
	ports := freePorts(t, 4)
	values := env.Values{
		"certs":           map[string]any{"mode": "self-signed"},
		"cloudController": map[string]any{"clusterCIDR": env.ClusterCIDR, "useServiceAccountCredentials": true},
		"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
		"webhook":         map[string]any{"secureMetrics": true},
	}
	args := map[string][]string{}
	for role, template := range pods(t, render(t, values)) {
		args[role] = template.Spec.Containers[0].Args
	}
	// The webhooks that would complete it do not run yet, so the controllers must do it.
	if err := e.Client.Create(ctx, persistentVolume("early")); err != nil {
		t.Fatal(err)
	}
	values["webhook"] = map[string]any{
		"url": env.WebhookURL(ports[0]), "failurePolicy": map[string]any{"validateService": "Fail"}, "secureMetrics": true,
	}
	if err := e.InstallChart(ctx, values); err != nil {
		t.Fatal(err)
	}
	cloud, err := e.StartMycloud(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	config, err := e.CloudConfigArg("chart", env.CloudConfigFor("dev", cloud))
	if err != nil {
		t.Fatal(err)
	}
	start := func(role string, more func(kubeconfig string) []string) {
		t.Helper()
		kubeconfig, err := e.ServiceAccountKubeconfig(ctx, env.Namespace, release+"-"+role)
		if err != nil {
			t.Fatal(err)
		}
		path, err := env.Program("quaymaster")
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Concat(args[role], []string{"--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", config}, more(kubeconfig))
		if _, err := e.Start(role, path, all...); err != nil {
			t.Fatal(err)
		}
	}
	address := func(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
	start("webhook", func(string) []string {
		return []string{
			"--secure-port=" + strconv.Itoa(ports[0]), "--cert-hosts=127.0.0.1", "--cert-secret=",
			"--health-probe-bind-address=" + address(ports[1]), "--metrics-bind-address=" + address(ports[2]),
		}
	})
	start("controllers", func(kubeconfig string) []string {
		return []string{
			"--secure-port=" + strconv.Itoa(ports[3]), "--cert-dir=" + filepath.Join(e.Dir, "pki"),
			// In a pod these are found automatically.
			"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		}
	})
	work(t, e.Client)

	t.Run("clients without a token", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/livez", "/readyz"} {
			for _, url := range []string{"http://" + address(ports[1]), "https://" + address(ports[3])} {
				if _, err := scrape(ctx, url+path, ""); err != nil {
					t.Errorf("a probe: %v", err)
				}
			}
		}
		if _, err := scrape(ctx, "https://"+address(ports[0])+"/validate-service", ""); err == nil || !strings.Contains(err.Error(), "must be POST") {
			t.Errorf("the webhooks respond: %v", err)
		}
		if _, err := scrape(ctx, "https://"+address(ports[3])+"/configz", ""); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("the controllers respond: %v", err)
		}
	})
	prometheus := scraper(t, e)
	for role, url := range map[string]string{
		"webhook": "https://" + address(ports[2]) + "/metrics", "controllers": "https://" + address(ports[3]) + "/metrics",
	} {
		t.Run(role, func(t *testing.T) {
			for what, test := range map[string]struct{ token, want string }{
				"no token": {"", "401|403"}, "unknown token": {"x", "401"}, "token without the right": {token(t, e, "guest"), "403"},
			} {
				_, err := scrape(ctx, url, test.token)
				if err == nil || !regexp.MustCompile("metrics: ("+test.want+") ").MatchString(err.Error()) {
					t.Errorf("%s: %v, want %s", what, err, test.want)
				}
			}
			env.Eventually(t, 2*soon, "all metrics", func(ctx context.Context) error {
				served, err := scrape(ctx, url, prometheus)
				if err != nil {
					return err
				}
				want := map[string]string{}
				for metric, documented := range documentedMetrics(t) {
					if strings.Contains(documented.roles, role) {
						want[metric] = documented.labels
					}
				}
				maps.DeleteFunc(served, func(metric, _ string) bool { _, documented := want[metric]; return !documented })
				if diff := cmp.Diff(want, served); diff != "" {
					return fmt.Errorf("labels by metric (-documented +served):\n%s", diff)
				}
				return nil
			})
		})
	}
}

// work gives both roles something to do: a Node, a policy, a volume, a valid and an invalid Service, and violations of
// the policy.
func work(t *testing.T, kube client.Client) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelHostname: "node-1"}}}
	node.Spec.PodCIDR, node.Spec.PodCIDRs = "10.244.1.0/24", []string{"10.244.1.0/24"}
	node.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	object := policy(t, v1alpha1.KindClusterLoadBalancerPolicy,
		`{namespaceSelector: {}, enforcement: Audit, rules: [{annotation: example.com/team, required: true}]}`)
	service := func(name string, options ...builder.ServiceOption) *corev1.Service {
		svc := withoutUID(builder.Service(options...))
		svc.Namespace, svc.Name = metav1.NamespaceDefault, name
		return svc
	}
	env.Eventually(t, soon, "objects", func(ctx context.Context) error {
		for _, o := range []client.Object{node, object, service("good"), persistentVolume("late")} {
			if err := client.IgnoreAlreadyExists(kube.Create(ctx, o)); err != nil {
				return err
			}
			o.SetResourceVersion("")
		}
		if err := kube.Create(ctx, service("bad", builder.DLB("scheduler", "fastest")), client.DryRunAll); err == nil {
			return errors.New("an invalid Service is not rejected yet")
		}
		return nil
	})
	env.Eventually(t, soon, "a Node with a route, and an address", func(ctx context.Context) error {
		var svc corev1.Service
		if err := kube.Get(ctx, client.ObjectKeyFromObject(service("good")), &svc); err != nil {
			return err
		}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		routed := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
		})
		if node.Spec.ProviderID == "" || !routed || len(svc.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("provider ID is %q, conditions %v, addresses %v", node.Spec.ProviderID, node.Status.Conditions, svc.Status.LoadBalancer.Ingress)
		}
		return nil
	})
}

func persistentVolume(name string) *corev1.PersistentVolume {
	pv := builder.PersistentVolume()
	pv.Name, pv.UID = name, ""
	return pv
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		port, err := env.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	return ports
}

// scraper returns the token of a ServiceAccount that may read metrics.
func scraper(t *testing.T, e *env.Env) string {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:monitoring"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.Namespace, Name: "prometheus"}},
	}
	if err := e.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	return token(t, e, "prometheus")
}

// token creates a ServiceAccount and returns a token for it.
func token(t *testing.T, e *env.Env, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}}
	if err := client.IgnoreAlreadyExists(e.Client.Create(t.Context(), account)); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := e.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// scrape returns the served metrics with their labels, histograms by their name without suffix. No metric may occur
// twice.
func scrape(ctx context.Context, url, token string) (map[string]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// Both processes generated their certificates.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	found, name := map[string]string{}, ""
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if head, ok := strings.CutPrefix(lines.Text(), "# TYPE "); ok {
			name, _, _ = strings.Cut(head, " ")
			if _, already := found[name]; already {
				return nil, fmt.Errorf("%s is served twice", name)
			}
			found[name] = ""
		} else if !strings.HasPrefix(lines.Text(), "#") {
			found[name] = labelsOf(lines.Text())
		}
	}
	return found, nil
}

// labelsOf returns the labels of a line with a value, except for the label le of histograms.
func labelsOf(line string) string {
	var names []string
	for _, match := range regexp.MustCompile(`[{,](\w+)="`).FindAllStringSubmatch(line, -1) {
		if match[1] != "le" {
			names = append(names, match[1])
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
