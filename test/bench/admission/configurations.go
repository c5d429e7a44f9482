package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/harness/env"
)

// Names of configurations.
const (
	none         = "none"
	cel          = "policies"
	floor        = "floor"
	stock        = "controller-runtime"
	quaymaster   = "quaymaster"
	before       = "quaymaster-before"
	onePolicy    = "quaymaster-1-policy"
	tenPolicies  = "quaymaster-10-policies"
	manyCatalogs = "quaymaster-all-catalogs"
)

// names are the names of all configurations, in the order of the report.
var names = []string{none, cel, floor, stock, before, quaymaster, onePolicy, tenPolicies, manyCatalogs}

// account is the webhooks' ServiceAccount.
const account = "quaymaster-webhook"

// configuration is a kind of admission for Services.
type configuration struct {
	name string
	// objects put it into force while they exist.
	objects []client.Object
	// server is the webhook that the objects name; nil for none.
	server *server
	// namespace is where Services are created.
	namespace string
	// denied lists annotations each of which must be denied, and maxQPS is the value that must be added.
	denied []map[string]string
	maxQPS string
	// profiled is set if CPU profiles of the webhook are wanted.
	profiled bool
	// workloads are measured in addition to creates of LoadBalancer Services.
	workloads []workload
}

// bad is denied by every check of the scheduler.
var bad = map[string]string{scheduler: "fastest"}

// configure returns the selected configurations and installs what they share.
func (b *bench) configure(ctx context.Context) ([]*configuration, error) {
	if err := b.InstallChart(ctx, values()); err != nil {
		return nil, err
	}
	// Each configuration has its own.
	for _, kind := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		if err := b.Client.DeleteAllOf(ctx, kind); err != nil {
			return nil, err
		}
	}
	all := []*configuration{{name: none, workloads: []workload{clusterIPs, statusWrites}}}
	for _, add := range []func(context.Context) ([]*configuration, error){
		b.exported, b.floor, b.controllerRuntime, b.quaymaster,
	} {
		more, err := add(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	var selected []*configuration
	for _, c := range all {
		if c.namespace == "" {
			c.namespace = "bench"
		}
		if len(b.options.only) == 0 || c.name == none || c.name == floor || slices.Contains(b.options.only, c.name) {
			selected = append(selected, c)
		}
	}
	return selected, nil
}

// exported returns the policies that the API server itself enforces.
func (b *bench) exported(ctx context.Context) ([]*configuration, error) {
	quayctl, err := env.Program("quayctl")
	if err != nil {
		return nil, err
	}
	c := &configuration{name: cel, denied: []map[string]string{bad}, maxQPS: "10000"}
	for _, kind := range []string{"vap", "map"} {
		output, err := env.Run(ctx, "", quayctl, "export", kind)
		if err != nil || output.Code != 0 {
			return nil, errors.Join(err, fmt.Errorf("quayctl export %s: exit code %d: %s", kind, output.Code, output.Stderr))
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(output.Stdout), 4<<10)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read the policies of quayctl export %s: %w", kind, err)
			}
			if len(object.Object) > 0 {
				c.objects = append(c.objects, object)
			}
		}
	}
	return []*configuration{c}, nil
}

func (b *bench) floor(ctx context.Context) ([]*configuration, error) {
	s, err := b.newServer(ctx, floor, "bench/floor", "/mutate", func(e endpoint, cert, key string) []string {
		return []string{"-address=" + e.address(), "-cert=" + cert, "-key=" + key}
	})
	if err != nil {
		return nil, err
	}
	return []*configuration{{
		name: floor, objects: b.webhooks(s, "/mutate", "/validate"), server: s,
		denied: []map[string]string{{deniedBy: "/mutate"}, {deniedBy: "/validate"}},
	}}, nil
}

func (b *bench) controllerRuntime(ctx context.Context) ([]*configuration, error) {
	const mutate, validate = "/mutate--v1-service", "/validate--v1-service"
	s, err := b.newServer(ctx, stock, "bench/controllerruntime", mutate, func(e endpoint, cert, key string) []string {
		return []string{
			"-host=" + e.host.String(), "-port=" + strconv.Itoa(int(port)), "-cert=" + cert, "-key=" + key,
			"-kubeconfig=" + b.AdminKubeconfig,
		}
	})
	if err != nil {
		return nil, err
	}
	return []*configuration{{
		name: stock, objects: b.webhooks(s, mutate, validate), server: s, denied: []map[string]string{bad}, maxQPS: "10000",
	}}, nil
}

// webhooks returns configurations that call a server for every create and update of Services.
func (b *bench) webhooks(s *server, mutate, validate string) []client.Object {
	var (
		policy  = admissionregistrationv1.Fail
		effects = admissionregistrationv1.SideEffectClassNone
		timeout = int32(3)
		meta    = metav1.ObjectMeta{Name: s.name}
		name    = s.name + ".example.com"
		rules   = []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
		}}
	)
	return []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: name, ClientConfig: s.clientConfig(mutate, b.ca), Rules: rules, FailurePolicy: &policy,
			SideEffects: &effects, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
		}}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: name, ClientConfig: s.clientConfig(validate, b.ca), Rules: rules, FailurePolicy: &policy,
			SideEffects: &effects, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
		}}},
	}
}

// values returns the values of the chart: its defaults, except that a failed call fails the request and is noticed.
func values() env.Values {
	return env.Values{
		"certs":   map[string]any{"mode": "files", "secretName": "webhook-certificate"},
		"webhook": map[string]any{"failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"}},
	}
}

// quaymaster returns Quaymaster as installed by the chart: this build with one catalog and with all of them, and another
// build, such as that of the last release, with the configurations of this chart.
func (b *bench) quaymaster(ctx context.Context) ([]*configuration, error) {
	var all []*configuration
	for _, kind := range []struct{ name, catalogs string }{
		{before, loadbalancer.Catalog},
		{quaymaster, loadbalancer.Catalog},
		{manyCatalogs, strings.Join(library.BuiltIn().Services(), ",")},
	} {
		if kind.name == before && b.options.before == "" {
			continue
		}
		s, objects, err := b.installed(ctx, kind.name, kind.catalogs)
		if err != nil {
			return nil, err
		}
		if kind.name == before {
			s.program = b.options.before
		}
		c := &configuration{name: kind.name, objects: objects, server: s, denied: []map[string]string{bad}, maxQPS: "10000"}
		if kind.name != manyCatalogs {
			c.workloads, c.profiled = []workload{clusterIPs, statusWrites}, true
		}
		all = append(all, c)
		if kind.name == quaymaster {
			more, err := b.policies(ctx, c)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}

// policies returns Quaymaster in namespaces with LoadBalancerPolicies.
func (b *bench) policies(ctx context.Context, plain *configuration) ([]*configuration, error) {
	var all []*configuration
	for name, count := range map[string]int{onePolicy: 1, tenPolicies: 10} {
		if err := b.makePolicies(ctx, name, count); err != nil {
			return nil, err
		}
		all = append(all, &configuration{
			name: name, namespace: name, objects: plain.objects, server: plain.server,
			denied: []map[string]string{bad, {maxQPS: "30000"}}, maxQPS: "5000",
		})
	}
	return all, nil
}

// Ports of Quaymaster's webhooks on loopback, which serves profiles.
const (
	healthPort  = 8081
	metricsPort = 8080
)

// installed prepares Quaymaster's webhooks and returns the chart's configurations for them.
func (b *bench) installed(ctx context.Context, name, catalogs string) (*server, []client.Object, error) {
	kubeconfig, err := b.ServiceAccountKubeconfig(ctx, env.Namespace, account)
	if err != nil {
		return nil, nil, err
	}
	s, err := b.newServer(ctx, name, "quaymaster", "/mutate-service", func(e endpoint, cert, key string) []string {
		args := []string{
			"webhook", "--kubeconfig=" + kubeconfig, "--catalogs=" + catalogs,
			"--bind-address=" + e.host.String(), "--secure-port=" + strconv.Itoa(int(port)),
			"--cert-mode=files", "--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
			"--health-probe-bind-address=" + e.loopback(healthPort), "--metrics-bind-address=" + e.loopback(metricsPort),
		}
		if b.options.profiles != "" {
			args = append(args, "--profiling")
		}
		return args
	})
	if err != nil {
		return nil, nil, err
	}
	rendered, err := env.RenderChart(values())
	if err != nil {
		return nil, nil, err
	}
	var objects []client.Object
	for _, object := range rendered {
		switch object.GetKind() {
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			if err := b.direct(object, s.endpoint); err != nil {
				return nil, nil, err
			}
			objects = append(objects, object)
		}
	}
	return s, objects, nil
}

// direct changes the address that a configuration of the chart calls, but no path.
func (b *bench) direct(object *unstructured.Unstructured, e endpoint) error {
	webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, item := range webhooks {
		webhook, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("%s %s: unexpected webhook %v", object.GetKind(), object.GetName(), item)
		}
		path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		config := e.clientConfig(path, b.ca)
		if webhook["clientConfig"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&config); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
}

// makePolicies creates policies that all apply to the Services of a new namespace. The first has a default.
func (b *bench) makePolicies(ctx context.Context, namespace string, count int) error {
	if err := b.makeNamespace(ctx, namespace); err != nil {
		return err
	}
	for i := range count {
		policy := &v1alpha1.LoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("policy-%d", i)}}
		policy.Spec.Rules = []v1alpha1.Rule{{Annotation: maxQPS, Max: new(intstr.FromInt(20000 + i))}}
		if i == 0 {
			policy.Spec.Defaults = map[string]string{maxQPS: "5000"}
		}
		if err := b.Client.Create(ctx, policy); err != nil {
			return fmt.Errorf("create a policy: %w", err)
		}
	}
	return nil
}
