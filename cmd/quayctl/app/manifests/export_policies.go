package manifests

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/export"
	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
)

// addPolicies adds the policies in the files of --policy, which must be valid.
func (o *exportOptions) addPolicies(to *export.Policies, own export.Class, stdin io.Reader) error {
	names, problems := manifest.Names(o.policies, true)
	files := manifest.Read(names, stdin, lint.Wanted)
	for _, f := range files {
		problems = append(problems, f.Problems...)
	}
	if len(problems) > 0 {
		return command.Usagef("--policy: %s", problems[0])
	}
	all := objects(files)
	_, results := (&lint.Linter{}).Policies(all, lint.Namespaces(all))
	for _, r := range results {
		wrong := func(f report.Finding) bool { return f.Severity == finding.Error }
		if i := slices.IndexFunc(r.Findings, wrong); i >= 0 {
			return fmt.Errorf("%s %s is invalid; run quayctl lint: %s: %s", r.Object.Kind, r.Object.Name, r.Findings[i].Path, r.Findings[i].Message)
		}
	}
	if len(results) == 0 {
		return command.Usagef("--policy: no LoadBalancerPolicy or ClusterLoadBalancerPolicy in %v", o.policies)
	}
	for _, object := range all {
		var err error
		switch object.Kind {
		case v1alpha1.KindLoadBalancerPolicy:
			p, _ := manifest.Decode[v1alpha1.LoadBalancerPolicy](object)
			p.Namespace = cmp.Or(p.Namespace, "default")
			err = to.OfNamespace(p, own)
		case v1alpha1.KindClusterLoadBalancerPolicy:
			p, _ := manifest.Decode[v1alpha1.ClusterLoadBalancerPolicy](object)
			err = to.OfCluster(p, own)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
