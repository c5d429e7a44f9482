// Package stored checks what users have stored: the policies and their CRDs, and Services that admission would deny.
package stored

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/selection"
	"quaymaster.dev/internal/tool/audit"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
	"quaymaster.dev/internal/visible"
)

// Checks are the checks of stored objects.
type Checks struct{ *release.Release }

// longestProblem is how many bytes of the errors of a Service are shown.
const longestProblem = 300

// Services reviews the stored Services as the webhooks of the release do, and explains why some may be invalid.
func (c Checks) Services(ctx context.Context) doctor.Result {
	names, given := c.flag("--catalogs")
	if !given {
		return doctor.Skipped("the release does not say which catalogs it checks")
	}
	o, err := c.auditOptions(strings.Split(names, ","))
	if err != nil {
		return doctor.Skipped("the flags of the release cannot be read: %v", err)
	}
	var lines []string
	o.OnInvalid = func(of corev1.ObjectReference, errs []finding.Finding) {
		lines = append(lines, of.Namespace+"/"+of.Name+" "+visible.Shorten(finding.Summary(errs), longestProblem))
	}
	found, err := audit.Run(ctx, o)
	if err != nil {
		return doctor.Unread("the stored Services", err)
	}
	unanswered, checked := c.unanswered(ctx), found.Counts.Checked["Service"]
	if checked == 0 {
		return doctor.Passed("there are no stored load balancers%s; %s", c.Scope(), unanswered)
	}
	if len(lines) == 0 {
		return doctor.Passed("%s valid by catalogs %s%s; %s", doctor.All(checked, "stored load balancer", "stored load balancers"), names, c.Scope(), unanswered)
	}
	return doctor.Warned("correct them; those that are older than a catalog, a policy or a release that finds their errors were "+
		"valid when they were stored, and the others were stored without an answer: docs/operations/alerts.md, "+
		"QuaymasterInvalidObjectsStored, shows how to tell",
		"admission would deny %d of %d stored load balancers by catalogs %s%s; %s", len(lines), checked, names,
		c.Scope(), unanswered).With(lines)
}

// flag returns the value of a flag of the webhooks or else of the controllers.
func (c Checks) flag(name string) (value string, given bool) {
	if value, given = c.Webhook.Argument(name); given {
		return value, true
	}
	return c.Controllers.Argument(name)
}

func (c Checks) auditOptions(catalogs []string) (audit.Options, error) {
	o := audit.Options{
		API: c.API, Objects: c.Objects, Namespace: c.Within, Catalogs: catalogs, Class: config.DefaultLoadBalancerClass,
		DefaultClass: true, ServicesOnly: true,
	}
	if c.Config != nil {
		o.Class, o.DefaultClass = c.Config.LoadBalancerClass, c.Config.DefaultClass
	}
	if class, given := c.flag("--load-balancer-class"); given {
		o.Class = class
	}
	if value, given := c.flag("--default-class"); given {
		o.DefaultClass = value != "false"
	}
	unknownKeys, given := c.flag("--unknown-keys")
	if !given {
		unknownKeys = string(catalog.UnknownTypos)
	}
	var errs []error
	if o.UnknownKeys, errs = selection.UnknownKeys(strings.Split(unknownKeys, ","), catalogs); len(errs) > 0 {
		return o, errs[0]
	}
	var err error
	o.Selector, err = labels.Parse(c.Controllers.ArgumentOr("--namespace-selector", ""))
	return o, err
}

// unanswered says how many requests the API server admitted because a webhook did not answer.
func (c Checks) unanswered(ctx context.Context) string {
	const unknown = "whether API servers admitted requests without an answer is unknown: "
	metrics, err := c.API.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if apierrors.IsForbidden(err) {
		return unknown + "you may not read the path /metrics"
	}
	if err != nil {
		return unknown + err.Error()
	}
	defer metrics.Close()
	n, err := failedOpen(metrics)
	if err != nil {
		return unknown + err.Error()
	}
	return fmt.Sprintf("requests that the API server has admitted without an answer since it started: %d", n)
}

// failOpen matches the counters of our webhooks.
var failOpen = regexp.MustCompile(
	`^apiserver_admission_webhook_fail_open_count\{name="(?:mutate|validate)\.[a-z]+\.quaymaster\.dev",.*\} (\S+)$`)

// failedOpen returns the sum of the counters among the metrics of an API server.
func failedOpen(metrics io.Reader) (int, error) {
	sum := 0
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		if match := failOpen.FindStringSubmatch(lines.Text()); match != nil {
			n, err := strconv.ParseFloat(match[1], 64)
			if err != nil {
				return 0, err
			}
			sum += int(n)
		}
	}
	return sum, lines.Err()
}
