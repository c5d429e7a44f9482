package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "quaymaster.dev"

// rule limits what the packages of a folder may import, except in tests. Folders include everything below them.
type rule struct {
	folders []string
	// only lists the allowed imports besides the folder itself and the standard library; nil allows all.
	only []string
	// never lists what must not be imported, directly or indirectly.
	never []string
	// direct lists what must not be imported directly, but may be imported indirectly.
	direct []string
}

// clients lists what pure packages must not import.
var clients = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/cloud-provider", "net/http"}

var rules = map[string]rule{
	"values know validation helpers only": {
		folders: []string{"internal/rules/annotation"},
		only: []string{
			"internal/visible", "k8s.io/apimachinery/pkg/labels", "k8s.io/apimachinery/pkg/util/validation", "k8s.io/utils/net",
			"github.com/go-playground/validator/v10", "github.com/agnivade/levenshtein",
		},
	},
	"findings know the API's error types only": {
		folders: []string{"internal/rules/finding"},
		only:    []string{"internal/visible", "k8s.io/apimachinery/pkg", "sigs.k8s.io/yaml"},
	},
	"catalogs are pure, and know neither policies nor what is built": {
		folders: []string{"internal/rules/catalog"},
		only: []string{
			"internal/rules/annotation", "internal/rules/finding", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg", "k8s.io/utils/net", "k8s.io/utils/ptr",
			"sigs.k8s.io/yaml",
		},
		never: clients[:3],
	},
	"checks know values and Services only": {
		folders: []string{"internal/rules/catalog/check", "internal/rules/catalog/spec"},
		only: []string{
			"internal/rules/annotation", "internal/rules/catalog/spec", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg", "k8s.io/utils/net", "k8s.io/utils/ptr",
		},
		never: clients[:3],
	},
	"the desired load balancer is built from parsed annotations": {
		folders: []string{"internal/rules/loadbalancer"},
		only:    []string{"internal/rules/annotation", "internal/rules/catalog", "k8s.io/api/core/v1"},
		never:   append([]string{"internal/rules/policy"}, clients[:3]...),
	},
	"the API depends on apimachinery alone": {
		folders: []string{"api"},
		only:    []string{"k8s.io/apimachinery/pkg"},
		never:   clients[:3],
	},
	"policies are exported without a cluster": {
		folders: []string{"internal/tool/export"},
		never:   clients[:3],
	},
	"policies know policies and values": {
		folders: []string{"internal/rules/policy"},
		only:    []string{"api", "internal/rules/annotation", "internal/rules/catalog", "internal/rules/finding", "internal/visible", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg"},
		never:   clients[:3],
	},
	"a review knows catalogs and policies, not what is built": {
		folders: []string{"internal/rules/review"},
		only:    []string{"internal/rules/annotation", "internal/rules/catalog", "internal/rules/finding", "internal/rules/policy", "internal/visible", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/util/validation/field"},
		never:   append([]string{"internal/rules/loadbalancer"}, clients[:3]...),
	},
	"templates know paths only": {
		folders: []string{"internal/rules/template"},
		only:    []string{"sigs.k8s.io/yaml"},
		never:   clients,
	},
	"decisions about trust are pure": {
		folders: []string{"internal/kube/trust"},
		only:    []string{"k8s.io/api"},
		never:   clients[:3],
	},
	"the record of brakes is pure": {
		folders: []string{"internal/kube/brakes"},
		only:    []string{"k8s.io/api"},
		never:   clients[:3],
	},
	"decisions about volumes are pure": {
		folders: []string{"internal/rules/volume"},
		only:    []string{"internal/rules/finding", "k8s.io/api", "k8s.io/apimachinery/pkg"},
		never:   clients[:3],
	},
	"manifests are validated without a cluster": {
		folders: []string{"internal/tool/lint", "internal/tool/manifest", "internal/tool/report", "internal/tool/suppress"},
		only: []string{
			"api", "internal/rules/annotation", "internal/rules/finding", "internal/rules/loadbalancer", "internal/rules/catalog", "internal/rules/policy", "internal/rules/review", "internal/rules/template",
			"internal/tool/manifest", "internal/tool/report", "internal/tool/suppress", "internal/look", "internal/visible", "internal/wrap", "github.com/bmatcuk/doublestar/v4",
			"k8s.io/api/core/v1", "k8s.io/apimachinery/pkg", "sigs.k8s.io/json", "sigs.k8s.io/yaml", "go.yaml.in/yaml/v3", "golang.org/x/sync/errgroup",
		},
		never: append([]string{"internal/tool/audit"}, clients[:3]...),
	},
	"manifests are read by commands that link no client": {
		folders: []string{"cmd/quayctl/app/manifests", "cmd/quayctl/app/flags", "cmd/quayctl/app/output"},
		never:   append([]string{"cmd/quayctl/app/access", "controllers", "provider"}, clients[:3]...),
	},
	"the cloud's API is standard library": {
		folders: []string{"api/mycloud"},
		only:    []string{},
		never:   []string{"net/http"},
	},
	"the cloud's client knows the API alone": {
		folders: []string{"internal/mycloud/cloudapi"},
		only:    []string{"api/mycloud", "internal/mycloud/cloudapi", "internal/reload", "github.com/dunglas/httpsfv", "golang.org/x/time/rate", "k8s.io/utils/clock"},
	},
	"the pace of requests is decided without a network": {
		folders: []string{"internal/mycloud/cloudapi/pace"},
		only:    []string{"api/mycloud", "github.com/dunglas/httpsfv", "golang.org/x/time/rate"},
		never:   clients[:3],
	},
	"provider IDs are standard library": {
		folders: []string{"provider/providerid"},
		only:    []string{},
	},
	"webhooks declare what they need of the cloud": {
		folders: []string{"webhook"},
		never:   []string{"provider", "controllers", "internal/mycloud/cloudapi", "internal/mycloud/server"},
	},
	"controllers declare what they need of the cloud": {
		folders: []string{"controllers"},
		never:   []string{"provider", "webhook", "internal/mycloud/cloudapi", "internal/mycloud/server"},
	},
	"the provider knows the cloud through its client": {
		folders: []string{"provider"},
		never:   []string{"webhook", "internal/mycloud/server", "sigs.k8s.io/controller-runtime"},
	},
	"the reference cloud knows nothing of Kubernetes' clients": {
		folders: []string{"internal/mycloud/server", "cmd/mycloud"},
		never:   []string{"k8s.io/client-go", "k8s.io/api", "webhook", "controllers", "internal/rules/loadbalancer"},
	},
	"the reference cloud does not know who uses it": {
		folders: []string{"internal/mycloud/server", "cmd/mycloud"},
		never:   []string{"provider"},
	},
	"edges know the cloud through its client": {
		folders: []string{"internal/mycloud/edge"},
		never:   []string{"internal/mycloud/server", "k8s.io/client-go", "k8s.io/api"},
	},
	"HAProxy's process does not know what it is for": {
		folders: []string{"internal/mycloud/edge/haproxy/process"},
		only:    []string{"golang.org/x/sys/unix", "k8s.io/utils/clock"},
	},
	"what HAProxy has to do is planned without HAProxy": {
		folders: []string{"internal/mycloud/edge/haproxy/plan"},
		only:    []string{"api/mycloud", "internal/mycloud/edge/config", "internal/visible"},
		never:   []string{"os/exec"},
	},
	"the cloud's server and its client share the API alone": {
		folders: []string{"internal/mycloud/server"},
		never:   []string{"internal/mycloud/cloudapi"},
	},
	"checks of an installation share the release and its pods, not each other": {
		folders: []string{
			"internal/tool/doctor/release", "internal/tool/doctor/pods", "internal/tool/doctor/rights", "internal/tool/doctor/webhooks",
			"internal/tool/doctor/cloud", "internal/tool/doctor/stored",
		},
		never: []string{
			"internal/tool/doctor/rights", "internal/tool/doctor/webhooks", "internal/tool/doctor/cloud", "internal/tool/doctor/stored", "provider",
			"controllers", "webhook",
		},
	},
	"only tests import tests": {
		folders: []string{"internal", "provider", "webhook", "controllers", "certs", "cmd"},
		never:   []string{"test"},
	},
	// Of the cloud, the webhooks contain its client and the API's types alone: admission has to ask in which zone a volume is.
	"the webhooks carry no API server, no cloud-controller-manager and no cloud but its client": {
		folders: []string{"cmd/quaymaster"},
		never: []string{
			"cmd/quaymaster-controllers", "controllers", "provider", "internal/kube/leadership", "internal/mycloud/server",
			"internal/mycloud/edge", "k8s.io/apiserver", "k8s.io/cloud-provider/app", "google.golang.org/grpc", "github.com/google/cel-go",
		},
	},
	"cached reads of the cloud know neither admission nor controllers": {
		folders: []string{"internal/lookup", "internal/cloudmetrics"},
		never:   []string{"provider", "webhook", "controllers"},
	},
	"only commands import commands": {
		folders: []string{"internal", "provider", "webhook", "controllers", "certs"},
		never:   []string{"cmd"},
		direct:  []string{"github.com/spf13/cobra"},
	},
}

func TestImports(t *testing.T) {
	packages := load(t)
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			for _, folder := range r.folders {
				checked := false
				for _, p := range packages {
					if !within(p.ImportPath, folder) {
						continue
					}
					checked = true
					for _, violation := range r.violations(p, folder, packages) {
						t.Errorf("%s imports %s", p.ImportPath, violation)
					}
				}
				if !checked {
					t.Errorf("no package in %s: the rule checks nothing", folder)
				}
			}
		})
	}
}

func TestRulesFindViolations(t *testing.T) {
	packages := map[string]goPackage{
		module + "/webhook":   {ImportPath: module + "/webhook", Imports: []string{"net/http", module + "/internal/x"}, Deps: []string{"net/http", module + "/internal/x", module + "/provider/y"}},
		"net/http":            {ImportPath: "net/http", Standard: true},
		"example.com/foreign": {ImportPath: "example.com/foreign"},
	}
	p := packages[module+"/webhook"]
	tests := map[string]struct {
		rule rule
		want []string
	}{
		"reached through others":               {rule{never: []string{"provider"}}, []string{module + "/provider/y"}},
		"not on the list":                      {rule{only: []string{}}, []string{module + "/internal/x"}},
		"imported, not reached":                {rule{direct: []string{"internal", "provider"}}, []string{module + "/internal/x"}},
		"on the list":                          {rule{only: []string{"internal"}}, nil},
		"a name that only begins the same way": {rule{never: []string{"prov", "internal/x/y"}}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.rule.violations(p, "webhook", packages); !slices.Equal(got, tt.want) {
				t.Errorf("violations() = %v, want %v", got, tt.want)
			}
		})
	}
}

func (r rule) violations(p goPackage, folder string, packages map[string]goPackage) []string {
	var found []string
	for _, path := range p.Imports {
		allowed := r.only == nil || packages[path].Standard || within(path, folder) ||
			slices.ContainsFunc(r.only, func(only string) bool { return within(path, only) })
		denied := slices.ContainsFunc(r.direct, func(direct string) bool { return within(path, direct) })
		if !allowed || denied {
			found = append(found, path)
		}
	}
	for _, path := range p.Deps {
		if slices.ContainsFunc(r.never, func(never string) bool { return within(path, never) }) {
			found = append(found, path)
		}
	}
	return found
}

// within reports whether an import path is a folder of this module, or another module's package, or below it.
func within(path, folder string) bool {
	for _, root := range []string{folder, module + "/" + folder} {
		if path == root || strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}

// goPackage is the output of go list for a package.
type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// load lists the packages of the module and everything they depend on, without tests.
func load(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", module+"/...")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	packages := map[string]goPackage{}
	for decoder := json.NewDecoder(out); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("go list: %v", err)
	}
	return packages
}
