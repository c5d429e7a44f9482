package app_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/export"
	"quaymaster.dev/internal/tool/reference"
)

// exported runs an export and returns its output.
func exported(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := run(t, append([]string{"export"}, args...)...)
	if code != 0 {
		t.Fatalf("%v: exit code %d, stderr %q", args, code, stderr)
	}
	return stdout, stderr
}

// names returns kind and name of each document in a stream.
func names(t *testing.T, stream string) []string {
	t.Helper()
	var all []string
	for document := range strings.SplitSeq(strings.TrimPrefix(stream, "---\n"), "\n---\n") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if want := admissionregistrationv1.GroupName + "/v1"; object.APIVersion != want {
			t.Errorf("%s has the version %s, want %s", object.Name, object.APIVersion, want)
		}
		all = append(all, object.Kind+" "+object.Name)
	}
	return all
}

func TestExportPolicies(t *testing.T) {
	const vap, mutating = "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"
	for name, tc := range map[string]struct{ args, want []string }{
		"validating": {[]string{"vap", "--catalog=hcloud,mycloud"}, []string{
			vap + " quaymaster-hcloud", vap + "Binding quaymaster-hcloud",
			vap + " quaymaster-hcloud-warnings", vap + "Binding quaymaster-hcloud-warnings",
			vap + " quaymaster-mycloud", vap + "Binding quaymaster-mycloud",
			vap + " quaymaster-mycloud-warnings", vap + "Binding quaymaster-mycloud-warnings",
		}},
		"of the cluster": {
			[]string{"vap", "--policy=../../../examples/policy-namespace.yaml", "--policy=../../../examples/policy-cluster.yaml"},
			[]string{vap + " quaymaster-clusterpolicy-shared", vap + "Binding quaymaster-clusterpolicy-shared"}, // the other has no rules
		},
		"mutating": {
			[]string{"map"}, []string{mutating + " quaymaster-mycloud", mutating + "Binding quaymaster-mycloud"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _ := exported(t, tc.args...)
			if diff := cmp.Diff(tc.want, names(t, stdout)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The flag sets the class.
func TestExportClass(t *testing.T) {
	for _, form := range []string{"vap", "map"} {
		const class = "example.com/ours"
		if stdout, _ := exported(t, form, "--load-balancer-class="+class); !strings.Contains(stdout, class) {
			t.Errorf("%s: the class is missing:\n%s", form, stdout)
		}
	}
}

// The export reports that checks are left out, and which.
func TestExportUnsaid(t *testing.T) {
	p, err := export.Validating([]string{"hcloud"}, export.Class{})
	if err != nil || len(p.Unsaid) == 0 {
		t.Fatalf("%v: %d findings are not covered", err, len(p.Unsaid))
	}
	list, _ := exported(t, "vap", "--catalog=hcloud", "--unsaid")
	lines := strings.Split(strings.TrimSpace(list), "\n")
	if got := strings.Fields(lines[0]); !cmp.Equal(got, []string{"CATALOG", "FINDING", "FIELD", "REASON"}) ||
		len(lines) != 1+len(p.Unsaid) {
		t.Fatalf("%d lines for %d findings:\n%s", len(lines), len(p.Unsaid), list)
	}
	for i, u := range p.Unsaid {
		got, want := strings.Fields(lines[1+i]), strings.Fields(u.Catalog+" "+u.Finding+" "+u.Field+" "+u.Why)
		if !cmp.Equal(got, want) {
			t.Errorf("line %d is %v, want %v", i, got, want)
		}
		if _, known := reference.FindFinding(u.Finding); !known {
			t.Errorf("unknown finding %s", u.Finding)
		}
	}
	if _, stderr := exported(t, "vap", "--catalog=hcloud"); !strings.Contains(stderr, "--unsaid lists them") {
		t.Errorf("stderr %q", stderr)
	}
}

func TestExportDocs(t *testing.T) {
	stdout, _ := exported(t, "docs", "--catalog=mycloud,metallb")
	for _, want := range []string{"# Annotations of mycloud\n", "\n\n# Annotations of MetalLB\n",
		"\n### metallb-unknown-key\n"} {
		if !strings.Contains("\n"+stdout, want) {
			t.Errorf("missing %q", want)
		}
	}
}

// service returns a Service with an annotation as decoded JSON.
func service(key string, value any) any {
	return map[string]any{"kind": "Service", "metadata": map[string]any{"annotations": map[string]any{key: value}}}
}

func TestExportSchema(t *testing.T) {
	schema := compile(t, library.BuiltIn().Services()...)
	for name, tc := range map[string]struct {
		key   string
		value any
		valid bool
	}{
		"a word":                       {"service.beta.kubernetes.io/dlb-network-type", "private", true},
		"invalid word":                 {"service.beta.kubernetes.io/dlb-network-type", "privat", false},
		"a number":                     {"service.beta.kubernetes.io/dlb-listener-maxqps", 5000, false},
		"a word for a port":            {"service.beta.kubernetes.io/dlb-listener-protocol.443", "https", true},
		"invalid word for a port":      {"service.beta.kubernetes.io/dlb-listener-protocol.443", "htpps", false},
		"another cloud's word":         {"load-balancer.hetzner.cloud/certificate-type", "managed", true},
		"another cloud's invalid word": {"load-balancer.hetzner.cloud/certificate-type", "Managed", false},
		"unrelated key":                {"example.com/key", "x", true},
		"not a string":                 {"example.com/key", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := schema.Validate(service(tc.key, tc.value)); (err == nil) != tc.valid {
				t.Errorf("%v", err)
			}
		})
	}
}

// The schema of each catalog accepts the catalog's examples.
func TestExportSchemaAcceptsExamples(t *testing.T) {
	for _, name := range library.BuiltIn().Services() {
		schema := compile(t, name)
		for _, e := range reference.Entries(library.BuiltIn(), name) {
			for _, key := range append([]string{e.Key}, e.Aliases...) {
				key = strings.NewReplacer("{port}", "80", "{any}", "TCP").Replace(key)
				if err := schema.Validate(service(key, e.Example)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// compile exports the schema of catalogs and compiles it.
func compile(t *testing.T, catalogs ...string) *jsonschema.Schema {
	t.Helper()
	stdout, _ := exported(t, "jsonschema", "--catalog="+strings.Join(catalogs, ","))
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(stdout))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("service.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("service.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// Policies and schemas of Services do not take the catalog of another kind.
func TestExportOfOtherKinds(t *testing.T) {
	for _, form := range []string{"vap", "jsonschema"} {
		code, stdout, stderr := run(t, "export", form, "--catalog=alb")
		if code == 0 || stdout != "" || !strings.Contains(stderr, "the catalog alb describes objects of kind Ingress") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", form, code, stdout, stderr)
		}
	}
}

func TestExportErrors(t *testing.T) {
	catalogs := strings.Join(library.BuiltIn().Names(), ", ")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a typo": {
			[]string{"vpa"}, `quayctl export: unknown command "vpa"; did you mean "vap"?; see "quayctl export --help"`,
		},
		"unknown format": {
			[]string{"sql"}, `quayctl export: unknown command "sql"; see "quayctl export --help"`,
		},
		"unknown catalog": {
			[]string{"vap", "--catalog=x"}, `quayctl export vap: --catalog must be one or more of ` + catalogs +
				`; got "x"; see "quayctl export vap --help"`,
		},
		"an argument": {
			[]string{"docs", "now"}, `quayctl export docs: unknown argument "now"; see "quayctl export docs --help"`,
		},
		"flag of another format": {
			[]string{"map", "--catalog=x"},
			`quayctl export map: unknown flag: --catalog; see "quayctl export map --help"`,
		},
		"flag of another format, 2": {
			[]string{"docs", "--unsaid"},
			`quayctl export docs: unknown flag: --unsaid; see "quayctl export docs --help"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"export"}, tc.args...)...)
			if code != 2 || stdout != "" || stderr != tc.want+"\n" {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}
