// Package doctor checks an installation from outside, step by step: which parts of it exist, whether the API server can
// call the webhooks, which permissions the accounts have, and how to fix each failure. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/clusterca"
)

// checkLimit limits the duration of one check, so that a part that hangs does not hide the others.
const checkLimit = 20 * time.Second

// Cloud is the part of the cloud's API that the examination uses.
type Cloud interface {
	// Meta describes the cloud; it is also the cheapest call that checks the token.
	Meta(ctx context.Context) (*cloudv1.Meta, error)
	// Holder reads which cluster may write in the name of a cluster UID.
	Holder(ctx context.Context, clusterUID string, o cloudapi.ReadOptions) (*cloudv1.ClusterHolder, error)
}

// Options holds the dependencies of an examination.
type Options struct {
	// API and Objects are the typed and the dynamic client of the cluster.
	API     kubernetes.Interface
	Objects dynamic.Interface
	// Namespace and Release identify the Helm release to check.
	Namespace, Release string
	// Class is the loadBalancerClass of the Services that are created as a dry run; empty for none.
	Class string
	// Cloud is nil without a cloud config.
	Cloud Cloud
	// Identity returns what distinguishes the cluster from others with its UID; it may be nil.
	Identity func() (clusterca.Identity, error)
	// Resolve looks up the addresses of a host in the cluster's DNS; nil outside a cluster.
	Resolve func(ctx context.Context, host string) ([]string, error)
	// Clock is the clock of this machine.
	Clock clock.PassiveClock
}

// examination is one run of all checks. Later checks use the results of earlier ones.
type examination struct {
	Options
	release release
	// offset is how far the API server's clock is ahead of this machine's.
	offset time.Duration
}

// check is one step. It is skipped if a check in needs has failed, lacked the permission to read, or was itself skipped
// for that reason.
type check struct {
	name  string
	needs []string
	run   func(*examination, context.Context) Result
}

// Names of the checks.
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

// Run runs all checks, in the order of their dependencies.
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

// step runs a check, or skips it and marks it as blocked, so that the checks that need it are skipped, too.
func (e *examination) step(ctx context.Context, c check, blocked map[string]bool) Result {
	missing := slices.DeleteFunc(slices.Clone(c.needs), func(name string) bool { return !blocked[name] })
	if len(missing) > 0 {
		blocked[c.name] = true
		return skip("not run because of %s", strings.Join(missing, ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	return c.run(e, ctx)
}

// Level is the severity of a result.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
	Skip Level = "skip"
)

// Result is the result of a check.
type Result struct {
	// Check is the name of the check.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Found says what the state is and what it means, Remedy how to fix it.
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`

	// blind is true if the check lacked the permission to read, so that the checks that need it cannot run.
	blind bool
}

func ok(found string, args ...any) Result {
	return Result{Level: OK, Found: fmt.Sprintf(found, args...)}
}

func skip(reason string, args ...any) Result {
	return Result{Level: Skip, Found: fmt.Sprintf(reason, args...)}
}

func warn(remedy, found string, args ...any) Result {
	return Result{Level: Warn, Found: fmt.Sprintf(found, args...), Remedy: remedy}
}

func fail(remedy, found string, args ...any) Result {
	return Result{Level: Fail, Found: fmt.Sprintf(found, args...), Remedy: remedy}
}

// unread returns the result of a failed read. A missing permission of this user is only a warning: the installation may
// be fine.
func unread(what string, err error) Result {
	if apierrors.IsForbidden(err) {
		r := warn("run the command as a user with permission to read this", "cannot read %s: %v", what, err)
		r.blind = true
		return r
	}
	return fail("check that the API server is healthy, then run the command again", "cannot read %s: %v", what, err)
}
