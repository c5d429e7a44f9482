// Package doctor checks an installation from outside, step by step: which parts of it exist, whether the API server can
// call the webhooks, which permissions the accounts have, and how to fix each failure. It changes nothing.
package doctor

import (
	"context"
	"fmt"
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
	// Namespace and Release identify the Helm release to check; those that are empty are found.
	Namespace, Release string
	// Within limits the Services and policies that are looked at to a namespace; empty for all.
	Within string
	// Class is the loadBalancerClass of the Services that are created as a dry run; empty for none.
	Class string
	// Cloud is the cloud of the cloud config that was given; nil without one.
	Cloud Cloud
	// Orphans describes the load balancers of the cluster that no Service uses; nil without a cloud.
	Orphans func(ctx context.Context) ([]string, error)
	// Reach asks the cloud at an endpoint for an answer, without credentials. The authorities of its certificate are in
	// PEM; if empty, those of the system are trusted. Reach may be nil.
	Reach func(ctx context.Context, endpoint string, authorities []byte) error
	// InstanceID parses the provider ID of a Node. The error says why it is not one of the cloud.
	InstanceID func(providerID string) (string, error)
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
	config  installedConfig
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
	checkRights         = "rights"
	checkConfig         = "cloud-config"
	checkLeader         = "controllers"
	checkCloud          = "cloud"
	checkNodes          = "nodes"
	checkConfigurations = "webhook-configurations"
	checkCertManager    = "cert-manager"
	checkCertificate    = "certificate"
	checkAuthority      = "ca-bundle"
	checkService        = "webhook-service"
	checkDNS            = "dns"
	checkAdmission      = "admission"
	checkStored         = "stored-services"
	checkBalancers      = "load-balancers"
	checkOrphans        = "orphans"
	checkBrakes         = "brakes"
	checkPolicies       = "policies"
)

func checks() []check {
	return []check{
		{checkAPIServer, nil, (*examination).apiServer},
		{checkRelease, []string{checkAPIServer}, (*examination).installed},
		{checkCRDs, []string{checkAPIServer}, (*examination).crds},
		{checkRights, []string{checkRelease}, (*examination).rights},
		{checkConfig, []string{checkRelease}, (*examination).configured},
		{checkLeader, []string{checkRelease}, (*examination).leader},
		// It compares the lease that the check before has read.
		{checkCloud, nil, (*examination).cloud},
		{checkNodes, []string{checkRelease, checkConfig}, (*examination).nodes},
		{checkConfigurations, []string{checkRelease}, (*examination).configurations},
		{checkCertManager, []string{checkRelease}, (*examination).certManager},
		{checkCertificate, []string{checkRelease}, (*examination).certificate},
		{checkAuthority, []string{checkRelease, checkConfigurations}, (*examination).authority},
		{checkService, []string{checkRelease}, (*examination).service},
		{checkDNS, []string{checkRelease, checkService}, (*examination).dns},
		{checkAdmission, []string{checkRelease, checkConfigurations}, (*examination).admission},
		{checkStored, []string{checkRelease}, (*examination).stored},
		{checkBalancers, []string{checkRelease, checkConfig}, (*examination).balancers},
		{checkOrphans, []string{checkAPIServer, checkCloud}, (*examination).abandoned},
		{checkBrakes, []string{checkRelease, checkConfig}, (*examination).engagedBrakes},
		{checkPolicies, []string{checkCRDs}, (*examination).policies},
	}
}

// Run runs all checks, in the order of their dependencies.
func Run(ctx context.Context, o Options) []Result {
	e := &examination{Options: o}
	var results []Result
	blocked := map[string]string{}
	for _, c := range checks() {
		result := e.step(ctx, c, blocked)
		result.Check = c.name
		results = append(results, result)
	}
	return results
}

// step runs a check, or skips it because of another one. blocked has the check to blame for each that did not succeed,
// itself or one that it needs.
func (e *examination) step(ctx context.Context, c check, blocked map[string]string) Result {
	for _, name := range c.needs {
		if root := blocked[name]; root != "" {
			blocked[c.name] = root
			return skip("not run because of %s", root)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	result := c.run(e, ctx)
	if result.Level == Fail || result.blind {
		blocked[c.name] = c.name
	}
	return result
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
	// Details lists the objects or causes that Found sums up.
	Details []string `json:"details,omitempty"`

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

// with adds details to the result.
func (r Result) with(details []string) Result {
	r.Details = details
	return r
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
