package review_test

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/corpus"
)

func TestCorpusOfPolicies(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, c := range cases {
		if c.Namespace == "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			namespaces := map[string]map[string]string{
				c.Namespace: {"kubernetes.io/metadata.name": c.Namespace}, "other": {"kubernetes.io/metadata.name": "other"},
			}
			findings := validatePolicy(c, namespaces)
			if c.New != nil {
				applicable := policy.Applicable(compiled(c.Policies), c.Namespace, namespaces[c.Namespace])
				findings = own.Review(c.Old, c.New, applicable)
			}
			got := corpus.Verdict{
				Causes:   corpus.Problems(findings, finding.Error),
				Warnings: corpus.Problems(findings, finding.Warning),
				Audits:   corpus.Problems(findings, finding.Audit),
			}
			want := corpus.Verdict{
				Causes: corpus.Sorted(c.Causes), Warnings: corpus.Sorted(c.Warnings), Audits: corpus.Sorted(c.Audits),
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s%v", diff, findings)
			}
			for _, f := range findings {
				shown[f.ID] = true
				if f.Message == "" || f.Remedy == "" {
					t.Errorf("%s of %s lacks message or remedy", f.ID, f.Field)
				}
			}
		})
	}
	about := finding.Docs().Chapters
	for _, doc := range slices.Concat(about[0].Findings, about[1].Findings) {
		// A manifest with policy-too-long would be as long as its name says; TestWorkOfRulesIsBounded has one. The API server
		// itself refuses sizes and duplicates that the schema forbids.
		if !shown[doc.ID] && !slices.Contains([]string{"policy-too-long", "policy-size", "policy-duplicate"}, doc.ID) {
			t.Errorf("no case has the finding %s", doc.ID)
		}
		delete(shown, doc.ID)
	}
	for id := range shown {
		if strings.HasPrefix(id, "policy-") {
			t.Errorf("the finding %s is not documented", id)
		}
	}
}

// validatePolicy validates a policy as admission does.
func validatePolicy(c corpus.Case, namespaces map[string]map[string]string) []finding.Finding {
	others := compiled(c.Policies)
	validate := func(p corpus.Policies) []finding.Finding {
		var findings []finding.Finding
		for _, one := range compiled(p) {
			findings = append(findings, policy.Against(one, others, namespaces)...)
		}
		for _, one := range p.Namespaced {
			_, alone := policy.Compile(one)
			findings = append(findings, alone...)
		}
		for _, one := range p.Cluster {
			_, alone := policy.Compile(one)
			findings = append(findings, alone...)
		}
		return findings
	}
	return finding.Ratchet(validate(c.OldPolicies), validate(c.NewPolicies))
}

func compiled(p corpus.Policies) []*policy.Policy {
	var all []*policy.Policy
	for _, one := range p.Namespaced {
		c, _ := policy.Compile(one)
		all = append(all, c)
	}
	for _, one := range p.Cluster {
		c, _ := policy.Compile(one)
		all = append(all, c)
	}
	return all
}
