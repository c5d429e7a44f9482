// Package corpus contains manifests with the verdict that every part of the project must reach on them: the engine, the
// webhooks on a real API server, the linter and the exported policies. To add a case, add a file.
//
// valid/ and invalid/ contain one Service per file, update/ the old and the new Service. limited/ contains policies
// followed by a Service, or by the old and the new one. policies/ contains policies of which the last is validated,
// preceded by its old version if it is an update. clouds/ contains one file per catalog of another cloud's annotations,
// with many Services, each of which is a case named after the Service. NAMESPACE stands for the namespace of the case,
// so that cluster policies can be distinguished. Comment lines at the top contain the verdict, one finding per line, in
// any order:
//
//	# cause: <finding id> <field path>     an error
//	# warning: <finding id> <field path>   a warning
//	# audit: <finding id> <field path>     a finding that is only counted
package corpus

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
)

//go:embed valid invalid update limited policies clouds
var files embed.FS

// Problem is an expected finding.
type Problem struct{ ID, Field string }

// Problems returns the findings of a severity, in the order of Sorted.
func Problems(findings []finding.Finding, severity finding.Severity) []Problem {
	var list []Problem
	for _, f := range findings {
		if f.Severity == severity {
			list = append(list, Problem{ID: f.ID, Field: f.Field})
		}
	}
	return Sorted(list)
}

// Sorted sorts problems by field and ID.
func Sorted(list []Problem) []Problem {
	slices.SortFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Verdict holds the expected findings.
type Verdict struct {
	// Causes deny the object, Warnings do not, and Audits are not shown.
	Causes, Warnings, Audits []Problem
}

// Policies holds policies of both kinds.
type Policies struct {
	Namespaced []*v1alpha1.LoadBalancerPolicy
	Cluster    []*v1alpha1.ClusterLoadBalancerPolicy
}

// Case is one case of the corpus.
type Case struct {
	// Name is the path without extension, such as invalid/maxqps-not-a-number.
	Name string
	// Namespace is the namespace of the case; empty if it does not need its own.
	Namespace string
	// Catalog is the only catalog to validate with if the case is about another cloud; otherwise empty.
	Catalog string
	// Old is nil unless the case is an update. New is nil if a policy is validated.
	Old, New *corev1.Service
	// Policies apply to the Service, or exist in addition to the policy that is validated.
	Policies Policies
	// OldPolicies contains the old version of an updated policy, NewPolicies the policy that is validated.
	OldPolicies, NewPolicies Policies
	Verdict
}

// Load reads the cases of the DLB and of policies.
func Load() ([]Case, error) {
	return load(func(folder string) bool { return folder != clouds }, func(stem, text string) ([]Case, error) {
		c, err := parse(stem, text)
		return []Case{c}, err
	})
}

// Clouds reads the cases of other clouds.
func Clouds() ([]Case, error) {
	return load(func(folder string) bool { return folder == clouds }, parseCloud)
}

// clouds is the folder of other clouds' cases.
const clouds = "clouds"

// load reads the files of the wanted folders.
func load(wanted func(folder string) bool, parse func(stem, text string) ([]Case, error)) ([]Case, error) {
	var cases []Case
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !wanted(path.Dir(name)) {
			return err
		}
		raw, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		parsed, err := parse(strings.TrimSuffix(name, path.Ext(name)), string(raw))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		cases = append(cases, parsed...)
		return nil
	})
	return cases, err
}

func parse(name, text string) (Case, error) {
	c := Case{Name: name, Verdict: verdict(text)}
	kind := path.Dir(name)
	if kind == "limited" || kind == "policies" {
		c.Namespace = "corpus-" + strings.ReplaceAll(name, "/", "-")
		text = strings.ReplaceAll(text, "NAMESPACE", c.Namespace)
	}
	var services []*corev1.Service
	var all []Policies
	for document := range strings.SplitSeq(text, "\n---\n") {
		svc, policies, err := decode([]byte(document), c.Namespace)
		if err != nil {
			return c, err
		}
		if svc != nil {
			services = append(services, svc)
		} else {
			all = append(all, policies)
		}
	}
	switch {
	case kind == "policies" && len(services) == 0 && len(all) > 0:
		last := len(all) - 1
		c.NewPolicies, all = all[last], all[:last]
		if last > 0 && all[last-1].name() == c.NewPolicies.name() {
			c.OldPolicies, all = all[last-1], all[:last-1]
		}
	case kind == "update" && len(services) == 2, kind == "limited" && len(services) == 2:
		c.Old, c.New = services[0], services[1]
	case len(services) == 1 && kind != "update" && kind != "policies":
		c.New = services[0]
	default:
		return c, fmt.Errorf("%d Services and %d policies", len(services), len(all))
	}
	if (kind == "invalid" || kind == "valid") && (kind == "invalid") != (len(c.Causes) > 0) {
		return c, fmt.Errorf("%d causes", len(c.Causes))
	}
	for _, p := range all {
		c.Policies.Namespaced = append(c.Policies.Namespaced, p.Namespaced...)
		c.Policies.Cluster = append(c.Policies.Cluster, p.Cluster...)
	}
	return c, nil
}

// parseCloud reads the cases of a catalog.
func parseCloud(stem, text string) ([]Case, error) {
	var cases []Case
	for document := range strings.SplitSeq(text, "\n---\n") {
		svc, _, err := decode([]byte(document), "")
		if err == nil && (svc == nil || svc.Name == "") {
			err = errors.New("document is not a Service with a name")
		}
		if err != nil {
			return nil, fmt.Errorf("case %d: %w", len(cases)+1, err)
		}
		cases = append(cases, Case{Name: stem + "/" + svc.Name, Catalog: path.Base(stem), New: svc,
			Verdict: verdict(document)})
	}
	return cases, nil
}

func verdict(text string) Verdict {
	var v Verdict
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 4 || words[0] != "#" {
			continue
		}
		switch problem := (Problem{ID: words[2], Field: words[3]}); words[1] {
		case "cause:":
			v.Causes = append(v.Causes, problem)
		case "warning:":
			v.Warnings = append(v.Warnings, problem)
		case "audit:":
			v.Audits = append(v.Audits, problem)
		}
	}
	return v
}

// decode decodes a Service or a policy, and sets its namespace.
func decode(document []byte, namespace string) (*corev1.Service, Policies, error) {
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(document, &is); err != nil {
		return nil, Policies{}, err
	}
	switch is.Kind {
	case v1alpha1.KindLoadBalancerPolicy:
		p := &v1alpha1.LoadBalancerPolicy{}
		err := yaml.UnmarshalStrict(document, p)
		p.Namespace = namespace
		return nil, Policies{Namespaced: []*v1alpha1.LoadBalancerPolicy{p}}, err
	case v1alpha1.KindClusterLoadBalancerPolicy:
		p := &v1alpha1.ClusterLoadBalancerPolicy{}
		return nil, Policies{Cluster: []*v1alpha1.ClusterLoadBalancerPolicy{p}}, yaml.UnmarshalStrict(document, p)
	}
	svc := &corev1.Service{}
	err := yaml.UnmarshalStrict(document, svc)
	svc.Namespace = namespace
	return svc, Policies{}, err
}

// name returns kind and name of the only policy.
func (p Policies) name() string {
	for _, one := range p.Namespaced {
		return one.Kind + one.Name
	}
	for _, one := range p.Cluster {
		return one.Kind + one.Name
	}
	return ""
}
