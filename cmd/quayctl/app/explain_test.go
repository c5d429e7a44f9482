package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/reference"
)

func TestExplain(t *testing.T) {
	for file, args := range map[string][]string{
		"explain-dlb.txt":      {"service.beta.kubernetes.io/dlb-listener-maxqps.443"},
		"explain-clouds.txt":   {"service.beta.kubernetes.io/aws-load-balancer-type"},
		"explain-finding.txt":  {"hcloud-unknown-key"},
		"explain-words.txt":    {"--catalog=hcloud,metallb", "network", "ZONE"},
		"explain-word.txt":     {"--catalog=metallb", "shared"},
		"explain-catalogs.txt": {"--catalog=metallb,mycloud"},
	} {
		t.Run(file, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"explain"}, args...)...)
			if code != 0 || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			golden(t, file, stdout)
		})
	}
}

// Every explanation has all of its parts, even those that only state that there is nothing.
func TestExplainShowsEveryPart(t *testing.T) {
	for _, key := range []string{
		"service.beta.kubernetes.io/dlb-network-type", "service.beta.kubernetes.io/dlb-listener-maxqps",
		"load-balancer.hetzner.cloud/location",
		"service.beta.kubernetes.io/port_443_no_lb_rule", "metallb.universe.tf/address-pool",
	} {
		_, stdout, _ := run(t, "explain", key)
		for _, label := range []string{"type", "must be", "default", "per port", "change", "example", "source"} {
			if !strings.Contains(stdout, "\n  "+label+" ") {
				t.Errorf("%s has no %s:\n%s", key, label, stdout)
			}
		}
	}
}

func TestExplainErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"a typo in a key": {
			[]string{"load-balancer.hetzner.cloud/lokation"}, 1,
			`no annotation or finding matches "load-balancer.hetzner.cloud/lokation"; did you mean ` +
				`"load-balancer.hetzner.cloud/location"?`,
		},
		"a typo in a finding": {
			[]string{"dlb-unknow-key"}, 1,
			`no annotation or finding matches "dlb-unknow-key"; did you mean "dlb-unknown-key"?`,
		},
		"no close match": {[]string{"submarine"}, 1, `no annotation or finding matches "submarine"`},
		"words": {
			[]string{"health", "submarine"}, 1, `no annotation or finding matches "health submarine"`,
		},
		"not in the selected catalog": {
			[]string{"--catalog=metallb", "load-balancer.hetzner.cloud/location"}, 1,
			`no annotation or finding matches "load-balancer.hetzner.cloud/location"`,
		},
		"bad flags": {
			[]string{"--catalog=x", "-o", "yaml"}, 2,
			`--output must be text or json; got "yaml"; --catalog must be one or more of ` +
				strings.Join(library.BuiltIn().Names(), ", ") + `; got "x"; see "quayctl explain --help"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"explain"}, tc.args...)...)
			if code != tc.code || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", code, tc.code, stdout)
			}
			if diff := cmp.Diff("quayctl explain: "+tc.stderr+"\n", stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainJSON(t *testing.T) {
	type explanation struct {
		Annotations []reference.Entry   `json:"annotations"`
		Findings    []reference.Finding `json:"findings"`
		Catalogs    []reference.Summary `json:"catalogs"`
	}
	finding, _ := reference.FindFinding("hcloud-changed")
	for name, tc := range map[string]struct {
		args []string
		want explanation
	}{
		"a key": {
			[]string{"metallb.universe.tf/address-pool"},
			explanation{Annotations: reference.Find(library.BuiltIn(), []string{"metallb"}, "metallb.io/address-pool")},
		},
		"words": {
			[]string{"--catalog=hcloud", "health", "timeout"},
			explanation{Annotations: reference.Search(library.BuiltIn(), []string{"hcloud"}, []string{"health", "timeout"})},
		},
		"a finding":  {[]string{"hcloud-changed"}, explanation{Findings: []reference.Finding{finding}}},
		"no catalog": {nil, explanation{Catalogs: reference.Catalogs(library.BuiltIn(), library.BuiltIn().Names())}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"explain", "-o", "json"}, tc.args...)...)
			if code != 0 || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			var got explanation
			decoder := json.NewDecoder(strings.NewReader(stdout))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainCompletion(t *testing.T) {
	for name, tc := range map[string]struct{ args, want []string }{
		"keys": {
			[]string{"load-balancer.hetzner.cloud/health-check-t"},
			[]string{"load-balancer.hetzner.cloud/health-check-timeout"},
		},
		"findings": {[]string{"metallb-unk"}, []string{"metallb-unknown-key", "metallb-unknown-port"}},
		"each once": {
			[]string{"service.beta.kubernetes.io/aws-load-balancer-ty"},
			[]string{"service.beta.kubernetes.io/aws-load-balancer-type"},
		},
		"one word":   {[]string{"metallb-changed", "m"}, nil},
		"by catalog": {[]string{"--catalog=metallb", "load-balancer."}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, stdout, _ := run(t, append([]string{"__complete", "explain"}, tc.args...)...)
			want := strings.Join(slices.Concat(tc.want, []string{":4", ""}), "\n")
			if diff := cmp.Diff(want, stdout); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
