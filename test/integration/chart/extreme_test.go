package chart

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// valuesSchema is the part of a JSON schema that says where values are and of which type.
type valuesSchema struct {
	Type              any                     `json:"type"`
	Enum              []any                   `json:"enum"`
	Ref               string                  `json:"$ref"`
	Properties        map[string]valuesSchema `json:"properties"`
	PatternProperties map[string]valuesSchema `json:"patternProperties"`
	Items             *valuesSchema           `json:"items"`
	AllOf             []valuesSchema          `json:"allOf"`
	AnyOf             []valuesSchema          `json:"anyOf"`
	Minimum, Maximum  *float64
	Definitions       map[string]valuesSchema `json:"definitions"`
}

// texts are values of strings that some program or API refuses.
var texts = []string{
	"a", "A", "1a", "a b", "a.b", "a..b", "a/b", "a/b/c", "A.b/c_d", "-", "a_", "é", "a,b", "a: b", "a #b", strings.Repeat("a", 64), strings.Repeat("a.", 150) + "a",
	"https://a.example", "https://a.example:99999", "https://a.example?b", "https://a.example/b#c", "https://a:b@a.example", "http://a.example", "https://a b",
	"0s", "1s", "15s", "100000h", "10.0.0.0/8", "10.0.0.0/33", "300.0.0.0/8", "010.0.0.0/8", "fd00::/8", "10.0.0.0/8,fd00::/8", "10.0.0.0/8,11.0.0.0/8", ":::/8",
	"0%", "100%", "-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
}

// candidates returns extreme values for a place in the schema.
func (s valuesSchema) candidates(root valuesSchema) []any {
	s = s.resolve(root)
	var all []any
	for _, one := range slices.Concat(s.AllOf, s.AnyOf) {
		all = append(all, one.candidates(root)...)
	}
	all = append(all, s.Enum...)
	types := fmt.Sprint(s.Type)
	if strings.Contains(types, "string") && len(s.Enum) == 0 {
		for _, text := range texts {
			all = append(all, text)
		}
	}
	if strings.Contains(types, "integer") {
		all = append(all, 0, 1, 80, 1023, 8081, 10258, 65535, 999_999, 1_000_000, int64(1)<<31, int64(1)<<62)
		for _, bound := range []*float64{s.Minimum, s.Maximum} {
			if bound != nil {
				all = append(all, *bound)
			}
		}
	}
	if strings.Contains(types, "boolean") {
		all = append(all, true, false)
	}
	if strings.Contains(types, "array") && s.Items != nil {
		for _, one := range s.Items.candidates(root) {
			all = append(all, []any{one}, []any{one, one})
		}
	}
	for _, of := range s.PatternProperties {
		for _, value := range of.candidates(root) {
			all = append(all, map[string]any{"a": value})
		}
		for _, key := range texts {
			all = append(all, map[string]any{key: "a"})
		}
	}
	return all
}

func (s valuesSchema) resolve(root valuesSchema) valuesSchema {
	if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
		return root.Definitions[name].resolve(root)
	}
	return s
}

// all makes the test try every extreme value, which takes minutes.
var all = flag.Bool("extremes", false, "try all extreme values of the chart, instead of every fifth")

// extremes calls f with extreme values for each place in the schema: without the flag, with some of them. A definition
// gets all of them only at the first place that refers to it, and every seventh at others: templates may treat places
// differently. used counts references.
func (s valuesSchema) extremes(root valuesSchema, path []string, used map[string]int, f func(path []string, value any)) {
	step := 5
	if *all {
		step = 1
	}
	if used[s.Ref]++; s.Ref != "" && used[s.Ref] > 1 {
		step = max(step, 7)
	}
	offset := (len(path) + used[s.Ref]) % step
	s = s.resolve(root)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		s.Properties[name].extremes(root, append(slices.Clip(path), name), used, f)
	}
	if len(s.Properties) > 0 {
		return
	}
	for i, value := range s.candidates(root) {
		if i%step == offset {
			f(path, value)
		}
	}
}

// required returns values without which a value has no effect or is refused.
func required(path string) env.Values {
	values := env.Values{}
	for prefix, needs := range map[string]string{
		"certs.secretName":              `{"certs": {"mode": "files"}}`,
		"cloudController.clusterCIDR":   `{"cloud": {"network": {"routeTableID": "rt-main"}}}`,
		"cloudController.podDisruption": `{"cloudController": {"podDisruptionBudget": {"enabled": true}}}`,
		"policyController.":             `{"cloudController": {"enabled": false}, "policyController": {"replicas": 2, "podDisruptionBudget": {"enabled": true}}}`,
		"webhook.clientAuthentication":  `{"webhook": {"clientAuthentication": {"configMap": "clients"}}}`,
		"webhook.podDisruptionBudget":   `{"webhook": {"podDisruptionBudget": {"enabled": true}}}`,
		"webhook.unknownKeys.of":        `{"catalogs": ["mycloud", "hcloud"]}`,
		"networkPolicy.":                `{"networkPolicy": {"enabled": true}}`,
		"monitoring.dashboard":          `{"monitoring": {"dashboard": {"enabled": true}}}`,
		"webhook.caBundle":              `{"webhook": {"url": "https://a.example"}, "certs": {"mode": "files"}}`,
		"webhook.url":                   `{"certs": {"mode": "files"}}`,
		"cloud.clientCertificate.":      `{"cloud": {"clientCertificate": {"secretName": "client"}}}`,
	} {
		if strings.HasPrefix(path, prefix) {
			if err := json.Unmarshal([]byte(needs), &values); err != nil {
				panic(err)
			}
		}
	}
	return values
}

func set(values map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		next, ok := values[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			values[name] = next
		}
		values = next
	}
	values[path[len(path)-1]] = value
}

// opaque are places for which the schema accepts what only Kubernetes or the program can check.
var opaque = []string{"extraArgs", "extraVolumes", "extraVolumeMounts", "env", "resources", "tolerations", "affinity", "topologySpreadConstraints", "global"}

// checkExtremeValues checks that helm install refuses values with which an object is refused, or with which a program
// would exit at once: pods would restart forever.
func checkExtremeValues(t *testing.T, e *env.Env) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "quaymaster", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var root valuesSchema
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	programs := starter(t, e)
	known := map[string][]*unstructured.Unstructured{}
	accepted := 0
	root.extremes(root, nil, map[string]int{}, func(path []string, value any) {
		at := strings.Join(path, ".")
		if slices.ContainsFunc(path, func(name string) bool { return slices.Contains(opaque, name) }) {
			return
		}
		base, found := known[fmt.Sprint(required(at))]
		if !found {
			base, _ = env.RenderChart(required(at))
			known[fmt.Sprint(required(at))] = base
		}
		values := required(at)
		set(values, path, value)
		objects, err := env.RenderChart(values)
		if err != nil {
			return
		}
		accepted++
		for _, object := range objects {
			if !served(object) || slices.ContainsFunc(base, func(o *unstructured.Unstructured) bool { return reflect.DeepEqual(o.Object, object.Object) }) {
				continue
			}
			if problem := refusal(t, e, programs, objects, object); problem != nil {
				t.Errorf("%s: %.80q is accepted, but %s %s: %.300s", at, fmt.Sprint(value), object.GetKind(), object.GetName(), problem)
			}
		}
	})
	if accepted < 50 {
		t.Errorf("%d extreme values are accepted", accepted)
	}
}

// refusal returns why the API server or the program of a workload refuses an object.
func refusal(t *testing.T, e *env.Env, start func(args []string, config map[string]string) error, objects []*unstructured.Unstructured, object *unstructured.Unstructured) error {
	t.Helper()
	if object.GetKind() == "Pod" {
		unstructured.RemoveNestedField(object.Object, "spec", "serviceAccountName")
	}
	err := e.Client.Create(t.Context(), object.DeepCopy(), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if err = client.IgnoreAlreadyExists(err); err != nil && !strings.Contains(err.Error(), "namespaces \"") {
		return err
	}
	if kind := object.GetKind(); kind != "Deployment" && kind != "ConfigMap" && kind != "DaemonSet" {
		return nil
	}
	config := map[string]string{}
	for _, o := range objects {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		if data := find[corev1.ConfigMap](t, objects, "ConfigMap", o.GetName()).Data; data["cloud.yaml"] != "" {
			config = data
		}
	}
	for _, template := range pods(t, objects) {
		if c := template.Spec.Containers[0]; c.Name != "test" {
			if err := start(c.Args, config); err != nil {
				return err
			}
		}
	}
	return nil
}

// starter returns a function that starts the program of a container until it needs the API server.
func starter(t *testing.T, e *env.Env) func(args []string, config map[string]string) error {
	t.Helper()
	program, err := env.Program("quaymaster")
	if err != nil {
		t.Fatal(err)
	}
	certificate, keyFile, err := e.ServingCertificate("cloud-client", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	const missing = "/missing/kubeconfig"
	done := map[string]bool{}
	return func(args []string, config map[string]string) error {
		key := fmt.Sprint(args, config)
		if done[key] {
			return nil
		}
		dir := t.TempDir()
		files := map[string]string{"token": "token", "ca.crt": config["ca.crt"], "cloud.yaml": config["cloud.yaml"]}
		for name, from := range map[string]string{"tls.crt": certificate, "tls.key": keyFile} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = string(text)
		}
		for name, text := range files {
			text = strings.NewReplacer("/var/run/secrets/quaymaster/", dir+"/", "/var/run/secrets/quaymaster-client/", dir+"/", "/etc/quaymaster/", dir+"/").Replace(text)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var own []string
		for _, arg := range args {
			own = append(own, strings.Replace(arg, "=/etc/quaymaster/", "="+dir+"/", 1))
		}
		out, err := env.Run(t.Context(), "", program, append(own, "--kubeconfig="+missing)...)
		if err != nil || out.Code == 0 {
			return fmt.Errorf("ends with %d: %w", out.Code, err)
		}
		text := out.Stdout + out.Stderr
		const expected = "--kubeconfig " + missing + " must be a readable kubeconfig"
		other := strings.ReplaceAll(text, expected, "")
		if other == text || strings.Contains(other, "--") || strings.Contains(other, "must ") || strings.Contains(other, "cloud config") {
			return fmt.Errorf("the program exits: %s", other)
		}
		done[key] = true
		return nil
	}
}
