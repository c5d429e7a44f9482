package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/env"
)

// page returns docs/operations/security.md.
func page(t *testing.T) (text, folder string) {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(root, "docs", "operations")
	raw, err := os.ReadFile(filepath.Join(folder, "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), folder
}

// rows returns the rows of the first table of a section, without its header.
func rows(t *testing.T, page, section string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+section+"\n")
	if !found {
		t.Fatalf("security.md has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var all [][]string
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			if len(all) > 0 {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	if len(all) < 3 {
		t.Fatalf("section %q has no table", section)
	}
	return all[2:]
}

var quoted = regexp.MustCompile("`([^`]*)`")

// words returns the words in backticks.
func words(text string) []string {
	var all []string
	for _, match := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

// holds reports whether the condition of a row holds for values: a, !a and a=b, all of a list, or one of two lists.
func holds(condition string, values map[string]any) bool {
	if condition == "always" {
		return true
	}
	return slices.ContainsFunc(strings.Split(condition, " or "), func(list string) bool {
		return !slices.ContainsFunc(words(list), func(word string) bool {
			negated := strings.HasPrefix(word, "!")
			path, want, compared := strings.Cut(strings.TrimPrefix(word, "!"), "=")
			value := any(values)
			for name := range strings.SplitSeq(path, ".") {
				value = value.(map[string]any)[name]
			}
			if m, ok := value.(map[string]any); ok && len(m) == 0 {
				value = ""
			}
			if compared {
				return fmt.Sprint(value) != want
			}
			return (value != nil && value != "" && value != false) == negated
		})
	})
}

// documented returns the rights in the table of accounts that a set of values grants, as lines.
func documented(t *testing.T, table [][]string, values map[string]any) []string {
	t.Helper()
	var all []string
	for _, row := range table {
		if !holds(row[3], values) {
			continue
		}
		for right := range strings.SplitSeq(row[2], "; ") {
			verbs, _, _ := strings.Cut(right, "`")
			resources, names, _ := strings.Cut(right, " named ")
			for verb := range strings.SplitSeq(strings.TrimSpace(verbs), ", ") {
				for _, resource := range words(resources) {
					for _, name := range append(words(names), "")[:max(1, len(words(names)))] {
						all = append(all, line(words(row[0])[0], strings.Trim(row[1], "`"), verb, resource, name))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func line(account, in, verb, resource, name string) string {
	return strings.TrimSpace(fmt.Sprintf("%s in %s may %s %s %s", account, in, verb, resource, name))
}

// granted returns the rights of all accounts in rendered objects, as lines.
func granted(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	var all []string
	for _, object := range objects {
		kind := object.GetKind()
		if kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		binding := find[rbacv1.RoleBinding](t, []*unstructured.Unstructured{object}, kind, object.GetName())
		in := "cluster"
		if kind == "RoleBinding" {
			in = binding.Namespace
		}
		for _, subject := range binding.Subjects {
			for _, right := range rightsOf(t, objects, binding.RoleRef, binding.Namespace) {
				all = append(all, line(subject.Name, in, right[0], right[1], right[2]))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// rightsOf returns verb, resource and name of each right of a role. A role that the chart does not contain is used.
func rightsOf(t *testing.T, objects []*unstructured.Unstructured, ref rbacv1.RoleRef, namespace string) [][3]string {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == ref.Kind && o.GetName() == ref.Name && (ref.Kind == "ClusterRole" || o.GetNamespace() == namespace)
	})
	if i < 0 {
		return [][3]string{{"use role", ref.Name, ""}}
	}
	var all [][3]string
	for _, rule := range find[rbacv1.Role](t, objects[i:i+1], ref.Kind, ref.Name).Rules {
		for _, verb := range rule.Verbs {
			for _, resource := range rule.Resources {
				for _, name := range append(slices.Clone(rule.ResourceNames), "")[:max(1, len(rule.ResourceNames))] {
					all = append(all, [3]string{verb, resource, name})
				}
			}
		}
	}
	return all
}

// defaults returns the values of the chart with others on top.
func defaults(t *testing.T, values env.Values) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "quaymaster", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := yaml.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var merge func(into, from map[string]any)
	merge = func(into, from map[string]any) {
		for key, value := range from {
			below, isMap := value.(map[string]any)
			target, isTarget := into[key].(map[string]any)
			if isMap && isTarget {
				merge(target, below)
			} else {
				into[key] = value
			}
		}
	}
	merge(all, values)
	return all
}

// TestSecurityOfAccounts checks that docs/operations/security.md lists exactly the rights of every account, for all
// installations that differ in them.
func TestSecurityOfAccounts(t *testing.T) {
	text, _ := page(t)
	table := rows(t, text, "Accounts")
	installations := cases()
	installations["without cloud"] = env.Values{"cloudController": map[string]any{"enabled": false}}
	installations["separate accounts"] = env.Values{"cloudController": map[string]any{"useServiceAccountCredentials": true}}
	installations["secure metrics"] = env.Values{"webhook": map[string]any{"secureMetrics": true}}
	applied := map[int]bool{}
	for name, values := range installations {
		if values["fullnameOverride"] != nil {
			continue // other names
		}
		t.Run(name, func(t *testing.T) {
			all := defaults(t, values)
			objects := render(t, values)
			want := granted(t, objects)
			got := documented(t, table, all)
			if all["webhook"].(map[string]any)["enabled"] == false {
				got = slices.DeleteFunc(got, func(right string) bool { return strings.HasPrefix(right, webhooks+" ") })
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("security.md (-chart +page):\n%s", diff)
			}
			for i, row := range table {
				applied[i] = applied[i] || holds(row[3], all)
			}
		})
	}
	for i, row := range table {
		if !applied[i] {
			t.Errorf("no installation has the right %v", row)
		}
	}
}

// TestSecurityOfPorts checks that the page lists every port of the pods, and whom NetworkPolicies admit to each.
func TestSecurityOfPorts(t *testing.T) {
	text, _ := page(t)
	peers := map[string][]any{
		"networkPolicy.apiServerCIDRs": {"10.1.0.0/24"}, "networkPolicy.nodeCIDRs": {"10.2.0.0/24"},
		"networkPolicy.metricsFrom": {map[string]any{"ipBlock": map[string]any{"cidr": "10.3.0.0/24"}}},
	}
	policies := map[string]any{"enabled": true}
	for path, value := range peers {
		policies[strings.TrimPrefix(path, "networkPolicy.")] = value
	}
	ports := map[string]string{}
	admitted := map[string][]string{}
	for _, row := range rows(t, text, "Ports") {
		at := words(row[0])[0] + "/" + words(row[1])[0]
		ports[at] = row[2]
		for _, path := range words(row[4]) {
			cidr := peers[path][0]
			if peer, ok := cidr.(map[string]any); ok {
				cidr = peer["ipBlock"].(map[string]any)["cidr"]
			}
			admitted[at] = append(admitted[at], cidr.(string))
		}
	}
	rendered := map[string]string{}
	for role, template := range pods(t, render(t, env.Values{})) {
		for _, p := range template.Spec.Containers[0].Ports {
			rendered[role+"/"+p.Name] = strconv.Itoa(int(p.ContainerPort))
		}
	}
	if diff := cmp.Diff(rendered, ports); diff != "" {
		t.Errorf("ports (-chart +page):\n%s", diff)
	}
	objects := render(t, env.Values{"networkPolicy": policies, "cloudController": map[string]any{"enabled": false}})
	if diff := cmp.Diff(ingress(t, objects), admitted); diff != "" {
		t.Errorf("admitted by NetworkPolicies (-chart +page):\n%s", diff)
	}
}

// ingress returns whom NetworkPolicies admit to each port: address ranges, or "pods" for all pods of the cluster.
func ingress(t *testing.T, objects []*unstructured.Unstructured) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, object := range objects {
		if object.GetKind() != "NetworkPolicy" {
			continue
		}
		policy := find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", object.GetName())
		role := policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"]
		for _, rule := range policy.Spec.Ingress {
			at := role + "/" + rule.Ports[0].Port.StrVal
			if len(rule.From) == 0 {
				all[at] = append(all[at], "everyone")
			}
			for _, peer := range rule.From {
				if peer.IPBlock != nil {
					all[at] = append(all[at], peer.IPBlock.CIDR)
				} else {
					all[at] = append(all[at], "pods")
				}
			}
		}
	}
	return all
}

// TestNetworkPolicies checks the defaults: without addresses of API servers there are no policies, health is only for
// the Node of a pod, and metrics for pods if they are scraped.
func TestNetworkPolicies(t *testing.T) {
	known := map[string]any{"apiServerCIDRs": []any{"10.0.0.0/28"}}
	scraped := map[string]any{"serviceMonitor": map[string]any{"enabled": true}}
	for name, test := range map[string]struct {
		values env.Values
		want   map[string][]string
	}{
		"default":              {env.Values{}, map[string][]string{}},
		"API servers":          {env.Values{"networkPolicy": known}, map[string][]string{"webhook/webhook": {"10.0.0.0/28"}}},
		"API servers, scraped": {env.Values{"networkPolicy": known, "monitoring": scraped}, map[string][]string{"webhook/webhook": {"10.0.0.0/28"}, "webhook/metrics": {"pods"}}},
		"API servers unknown":  {env.Values{"networkPolicy": map[string]any{"enabled": true}}, map[string][]string{"webhook/webhook": {"everyone"}}},
		"host network":         {env.Values{"networkPolicy": known, "webhook": map[string]any{"hostNetwork": true}}, map[string][]string{}},
		"policy controller, scraped": {env.Values{"networkPolicy": known, "monitoring": scraped, "cloudController": map[string]any{"enabled": false}},
			map[string][]string{"webhook/webhook": {"10.0.0.0/28"}, "webhook/metrics": {"pods"}, "controllers/secure": {"pods"}}},
	} {
		if diff := cmp.Diff(test.want, ingress(t, render(t, test.values))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

var testLink = regexp.MustCompile(`\[(Test\w+)\]\((\.\./\.\./[\w./-]+_test\.go)\)`)

// TestSecurityOfTenants checks that the page names a test for each statement about tenants, and that the tests it names
// exist.
func TestSecurityOfTenants(t *testing.T) {
	text, folder := page(t)
	for _, row := range rows(t, text, "Tenants") {
		if len(row) != 4 || !testLink.MatchString(row[3]) {
			t.Errorf("no test holds %v", row)
		}
	}
	links := testLink.FindAllStringSubmatch(text, -1)
	if len(links) < 15 {
		t.Errorf("%d tests are named", len(links))
	}
	files := map[string]string{}
	for _, link := range links {
		name, file := link[1], filepath.Join(folder, filepath.FromSlash(link[2]))
		if _, read := files[file]; !read {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			files[file] = string(raw)
		}
		if !strings.Contains(files[file], "\nfunc "+name+"(t *testing.T)") {
			t.Errorf("%s does not contain %s", link[2], name)
		}
	}
	if t.Failed() {
		t.Logf("files: %v", slices.Sorted(maps.Keys(files)))
	}
}
