package stored

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/test/harness/installation"
)

func TestFailedOpen(t *testing.T) {
	const metrics = `# TYPE apiserver_admission_webhook_fail_open_count counter
apiserver_admission_webhook_fail_open_count{name="mutate.service.quaymaster.dev",type="admit"} 2
apiserver_admission_webhook_fail_open_count{name="validate.service.quaymaster.dev",type="validating"} 3
apiserver_admission_webhook_fail_open_count{name="validate.example.com",type="validating"} 7
apiserver_admission_webhook_rejection_count{name="validate.service.quaymaster.dev",type="validating"} 9
`
	if n, err := failedOpen(strings.NewReader(metrics)); n != 5 || err != nil {
		t.Errorf("got %d, %v, want 5", n, err)
	}
}

// of returns the checks of a release whose pods run with the arguments.
func of(args ...string) Checks {
	return Checks{Release: installation.New(fake.NewClientset(), args...)}
}

// Stored Services are reviewed by the flags of the webhooks.
func TestAuditOptions(t *testing.T) {
	c := of("--catalogs=mycloud,hcloud", "--unknown-keys=ignore,hcloud=error",
		"--load-balancer-class=example.com/lb", "--default-class=false", "--namespace-selector=team=edge")
	names, _ := c.flag("--catalogs")
	o, err := c.auditOptions(strings.Split(names, ","))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.Catalogs, []string{"mycloud", "hcloud"}) || o.Class != "example.com/lb" || o.DefaultClass ||
		o.UnknownKeys[""] != catalog.UnknownIgnore || o.UnknownKeys["hcloud"] != catalog.UnknownError ||
		!o.Selector.Matches(labels.Set{"team": "edge"}) || o.Selector.Matches(labels.Set{}) {
		t.Errorf("got %+v", o)
	}
	if r := of().Services(t.Context()); r.Level != doctor.Skip {
		t.Errorf("without flags: %+v", r)
	}
	if r := of("--catalogs=mycloud", "--unknown-keys=never").Services(t.Context()); r.Level != doctor.Skip {
		t.Errorf("with invalid flags: %+v", r)
	}
}
