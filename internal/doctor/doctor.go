// Package doctor examines an installation from outside, step by step: what of it is there, whether the API server gets answers
// from the webhooks, who may do what, and what each failure asks for. It writes nothing.
package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// checkLimit bounds one check, so that a part that hangs does not hide the others.
const checkLimit = 20 * time.Second

// Cloud is what the examination asks of the cloud.
type Cloud interface {
	// Meta describes the cloud; it is also the cheapest way to try the token.
	Meta(ctx context.Context) (*cloudv1.Meta, error)
}

// Options are what an examination depends on.
type Options struct {
	// API and Objects speak to the cluster.
	API     kubernetes.Interface
	Objects dynamic.Interface
	// Namespace and Release say what is examined, as Helm calls them.
	Namespace, Release string
	// Cloud is nil without a cloud config.
	Cloud Cloud
	// Resolve looks up the addresses of a host by the cluster's DNS; nil outside a cluster.
	Resolve func(ctx context.Context, host string) ([]string, error)
	// Clock is this machine's.
	Clock clock.PassiveClock
}

// examination is one run of all checks. Later ones build on what earlier ones have found.
type examination struct {
	Options
	release release
	// offset is how far the API server's clock is ahead of this machine's.
	offset time.Duration
}

// check is one step. It is skipped where one of those that it needs has failed or could not look, or was skipped for that.
type check struct {
	name  string
	needs []string
	run   func(*examination, context.Context) Result
}

// The names of the checks.
const (
	checkAPIServer      = "api-server"
	checkRelease        = "release"
	checkCRDs           = "crds"
	checkConfigurations = "webhook-configurations"
	checkService        = "webhook-service"
	checkDNS            = "dns"
	checkAdmission      = "admission"
	checkAuthority      = "ca-bundle"
	checkCertificate    = "certificate"
	checkCertManager    = "cert-manager"
	checkRights         = "rights"
	checkLeader         = "controllers"
	checkCloud          = "cloud"
	checkPolicies       = "policies"
)

func checks() []check {
	return []check{
		{checkAPIServer, nil, (*examination).apiServer},
		{checkRelease, []string{checkAPIServer}, (*examination).installed},
		{checkCRDs, []string{checkAPIServer}, (*examination).crds},
		{checkConfigurations, []string{checkRelease}, (*examination).configurations},
		{checkService, []string{checkRelease}, (*examination).service},
		{checkDNS, []string{checkRelease, checkService}, (*examination).dns},
		{checkAdmission, []string{checkRelease, checkConfigurations}, (*examination).admission},
		{checkAuthority, []string{checkRelease, checkConfigurations}, (*examination).authority},
		{checkCertificate, []string{checkRelease}, (*examination).certificate},
		{checkCertManager, []string{checkRelease}, (*examination).certManager},
		{checkRights, []string{checkRelease}, (*examination).rights},
		{checkLeader, []string{checkRelease}, (*examination).leader},
		{checkCloud, nil, (*examination).cloud},
		{checkPolicies, []string{checkCRDs}, (*examination).policies},
	}
}

// Run examines everything, in the order in which things depend on each other.
func Run(ctx context.Context, o Options) []Result {
	e := &examination{Options: o}
	var results []Result
	blocked := map[string]bool{}
	for _, c := range checks() {
		result := e.step(ctx, c, blocked)
		result.Check = c.name
		blocked[c.name] = blocked[c.name] || result.Level == Fail || result.blind
		results = append(results, result)
	}
	return results
}

// step runs a check, or skips it and whatever needs it.
func (e *examination) step(ctx context.Context, c check, blocked map[string]bool) Result {
	missing := slices.DeleteFunc(slices.Clone(c.needs), func(name string) bool { return !blocked[name] })
	if len(missing) > 0 {
		blocked[c.name] = true
		return skip("it needs %s", strings.Join(missing, ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	return c.run(e, ctx)
}
