// Package fault injects faults into the reference cloud: slow, failing, lying and broken responses, and jobs that fail. It
// is for tests of the cloud's clients.
package fault

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/strictyaml"
)

// Kind is what goes wrong.
type Kind string

// The kinds of faults.
const (
	// None only delays.
	None Kind = ""
	// Status responds with a problem of the API.
	Status Kind = "status"
	// HTML responds with a page of a proxy.
	HTML Kind = "html"
	// NotFound responds that the object does not exist, although it may.
	NotFound Kind = "not-found"
	// Reset closes the connection without a response.
	Reset Kind = "reset"
	// Truncate breaks off in the middle of the body.
	Truncate Kind = "truncate"
	// Stale repeats the first response to the same read that passed the rule.
	Stale Kind = "stale"
)

// Plan is a list of faults. For each request and job, the first rule that selects it applies.
type Plan struct {
	// Seed makes the probabilities repeatable.
	Seed  uint64 `json:"seed"`
	Rules []Rule `json:"rules"`
}

// Rule selects requests or jobs and says what goes wrong.
type Rule struct {
	// Method is the method of requests; if empty, all.
	Method string `json:"method"`
	// Route is the path of requests, such as /v1/load-balancers/{id}:adopt; a part in braces stands for any text without
	// a slash or colon, and a final * for anything. If empty, all requests under /v1 are selected.
	Route string `json:"route"`
	// Job selects jobs instead of requests, by their names, such as load-balancer.update; * selects all.
	Job string `json:"job"`

	// Skip is the number of selected requests or jobs that pass first.
	Skip int `json:"skip"`
	// Count is the number of faults after which the rule ends; 0 means that it does not.
	Count int `json:"count"`
	// Probability is that of a fault, from 0 to 1; it defaults to 1.
	Probability *float64 `json:"probability"`

	// Fault is what goes wrong.
	Fault Kind `json:"fault"`
	// Delay is how long the request waits before it is handled.
	Delay metav1.Duration `json:"delay"`
	// Lag is how long the response waits after the request was handled, so that it is out of date.
	Lag metav1.Duration `json:"lag"`
	// Commit handles the request although the client gets the fault.
	Commit bool `json:"commit"`
	// Status is the status of the faults status and html; it defaults to 503 and 502.
	Status int `json:"status"`
	// Code is the code of the problem of the fault status and of failed jobs; it defaults to unavailable and internal.
	Code string `json:"code"`
	// RetryAfter is the header of the faults status and html; it defaults to 1s for the statuses 429 and 503.
	RetryAfter metav1.Duration `json:"retry_after"`
}

// Parse strictly decodes and validates a plan in YAML or JSON. The error has every problem.
func Parse(raw []byte) (Plan, error) {
	var p Plan
	errs, err := strictyaml.Decode(raw, &p)
	if err != nil {
		return p, fmt.Errorf("fault plan: %w", err)
	}
	if err := append(errs, p.validate()...).ToAggregate(); err != nil {
		return p, fmt.Errorf("fault plan: %w", err)
	}
	return p, nil
}

// Validate returns the problems of a plan.
func (p Plan) Validate() error { return p.validate().ToAggregate() }

func (p Plan) validate() field.ErrorList {
	var errs field.ErrorList
	for i, r := range p.Rules {
		errs = append(errs, r.validate(field.NewPath("rules").Index(i))...)
	}
	return errs
}

func (r Rule) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	kinds := []Kind{None, Status, HTML, NotFound, Reset, Truncate, Stale}
	if !slices.Contains(kinds, r.Fault) {
		errs = append(errs, field.NotSupported(at.Child("fault"), r.Fault, kinds[1:]))
	}
	if r.Job == "" && r.Fault == None && r.Delay.Duration == 0 && r.Lag.Duration == 0 {
		errs = append(errs, field.Required(at.Child("fault"), "must have a fault, a delay or a lag"))
	}
	if r.Job != "" && (r.Method != "" || r.Route != "" || r.Fault != None || r.Commit || r.Delay.Duration != 0 ||
		r.Lag.Duration != 0) {
		errs = append(errs, field.Invalid(
			at.Child("job"), r.Job, "must only be combined with skip, count, probability, status and code",
		))
	}
	if r.Route != "" && !strings.HasPrefix(r.Route, "/v1/") {
		errs = append(errs, field.Invalid(at.Child("route"), r.Route, "must begin with /v1/"))
	}
	if r.Skip < 0 || r.Count < 0 {
		errs = append(errs, field.Invalid(at, "skip, count", "must not be negative"))
	}
	if p := r.Probability; p != nil && (*p < 0 || *p > 1) {
		errs = append(errs, field.Invalid(at.Child("probability"), *p, "must be from 0 to 1"))
	}
	if r.Status != 0 && (r.Status < http.StatusBadRequest || r.Status > 599) {
		errs = append(errs, field.Invalid(at.Child("status"), r.Status, "must be from 400 to 599"))
	}
	for name, d := range map[string]time.Duration{
		"delay": r.Delay.Duration, "lag": r.Lag.Duration, "retry_after": r.RetryAfter.Duration,
	} {
		if d < 0 {
			errs = append(errs, field.Invalid(at.Child(name), d.String(), "must not be negative"))
		}
	}
	return errs
}
