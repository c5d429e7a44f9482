package templates_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// What kubectl apply refuses, the linter finds in the line of the annotation, by the same path and with the same words.
func TestRefused(t *testing.T) {
	for _, bad := range mistakes {
		t.Run(bad.kind, func(t *testing.T) {
			file, line := manifest(t, bad.object("new"), bad.wrong)
			out, err := env.Kubectl(t.Context(), shared.AdminKubeconfig, "", "apply", "-f", file)
			if err != nil {
				t.Fatal(err)
			}
			kind := bad.kind[strings.Index(bad.kind, " ")+1:]
			want := fmt.Sprintf("The %s \"new\" is invalid: %s[%s]: ", kind, bad.path, bad.wrong)
			if out.Code != 1 || !strings.HasPrefix(out.Stderr, want) || !strings.Contains(out.Stderr, bad.words) {
				t.Errorf("kubectl apply: %+v; want %s… %s", out, want, bad.words)
			}
			if bad.kind == shop {
				return // the linter knows it by its own settings
			}
			quayctl, err := env.Program("quayctl")
			if err != nil {
				t.Fatal(err)
			}
			out, err = env.Run(t.Context(), "", quayctl, "lint", "--output=json", file)
			if err != nil {
				t.Fatal(err)
			}
			if out.Code == 0 || !strings.Contains(out.Stdout, fmt.Sprintf(`"line": %d`, line)) || !strings.Contains(out.Stdout, bad.path+"["+bad.wrong+"]") {
				t.Errorf("quayctl lint: %+v; want line %d", out, line)
			}
		})
	}
}

// An object that was invalid before can still be updated, with a warning, but not with another mistake.
func TestRatchet(t *testing.T) {
	for _, bad := range mistakes {
		t.Run(bad.kind, func(t *testing.T) {
			warnings := &recorder{}
			config := *shared.Admin
			config.WarningHandler = warnings
			c, err := client.New(&config, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			object := bad.object("old")
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			object.SetLabels(map[string]string{"tier": "front"})
			if err := c.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			want := "allowed because it was already set: " + bad.path + "[" + bad.wrong + "]"
			if len(warnings.texts) != 1 || !strings.HasPrefix(warnings.texts[0], want) {
				t.Errorf("warnings %q, want %s", warnings.texts, want)
			}
			worse := bad
			worse.annotations = map[string]string{bad.wrong: "other"}
			changed := worse.object("old")
			changed.SetResourceVersion(object.GetResourceVersion())
			if err := c.Update(t.Context(), changed); !apierrors.IsInvalid(err) {
				t.Errorf("another mistake: %v", err)
			}
		})
	}
}

type recorder struct{ texts []string }

func (r *recorder) HandleWarningHeader(_ int, _, text string) { r.texts = append(r.texts, text) }

// Only objects with annotations of a cloud cause a call, and Services no more than before.
func TestCalls(t *testing.T) {
	with := func(m mistake, annotations map[string]string) *unstructured.Unstructured {
		m.annotations = annotations
		return m.object("calls")
	}
	svc := builder.Service()
	svc.Namespace, svc.Name, svc.UID = namespace, "calls", ""
	svc.Spec.Ports[0].NodePort = 0
	plain := svc.DeepCopy()
	plain.Spec.Type, plain.Spec.LoadBalancerClass, plain.Spec.AllocateLoadBalancerNodePorts = "ClusterIP", nil, nil
	foreign := map[string]string{"example.com/x": "y", "networking.istio.io/x": "y", "plain": ""}
	valid := map[string]string{"load-balancer.hetzner.cloud/location": "fsn1"}
	upper := map[string]string{"Load-Balancer.Hetzner.cloud/location": "fsn1"}
	for name, tc := range map[string]struct {
		object client.Object
		want   int
	}{
		"Gateway":                        {with(mistakes[0], valid), 1},
		"Gateway, domain in upper case":  {with(mistakes[0], upper), 1}, // a misspelling
		"Gateway without annotations":    {with(mistakes[0], nil), 0},
		"Gateway with other annotations": {with(mistakes[0], foreign), 0},
		"Ingress":                        {with(mistakes[1], map[string]string{"alb.ingress.kubernetes.io/scheme": "internal"}), 1},
		"Ingress of nginx":               {with(mistakes[1], map[string]string{"kubernetes.io/ingress.class": "nginx"}), 0},
		"Ingress with keys of Services":  {with(mistakes[1], valid), 0},
		"Kafka":                          {with(mistakes[2], valid), 1},
		"Kafka with other annotations":   {with(mistakes[2], foreign), 0},
		"Service":                        {svc, 2},
		"Service without load balancer":  {plain, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := shared.webhook.Calls(t)
			if err := shared.Client.Create(t.Context(), tc.object, client.DryRunAll); err != nil && !apierrors.IsInvalid(err) {
				t.Error(err)
			}
			if got := shared.webhook.Calls(t) - before; got != tc.want {
				t.Errorf("%d calls, want %d", got, tc.want)
			}
		})
	}
}

// Most of the kinds do not exist in this cluster: nothing watches them, and nothing complains.
func TestMissingKinds(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(shared.LogDir(), "quaymaster-webhook.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"level":"error"`) || strings.HasPrefix(line, "E") {
			t.Errorf("%s", line)
		}
	}
	var list unstructured.UnstructuredList
	list.SetAPIVersion("gateway.envoyproxy.io/v1alpha1")
	list.SetKind("EnvoyProxyList")
	if err := shared.Client.List(t.Context(), &list); err == nil {
		t.Error("the cluster has EnvoyProxies")
	}
}
