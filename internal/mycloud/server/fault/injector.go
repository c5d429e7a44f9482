package fault

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Injector applies a plan, which can be replaced at any time. The zero plan injects nothing.
type Injector struct {
	clock clock.Clock

	mu    sync.Mutex
	plan  Plan
	rules []*rule
	rand  *rand.Rand
}

// rule is a rule of the current plan and what has happened to it.
type rule struct {
	Rule
	route *regexp.Regexp

	// selected and fired are the numbers of requests or jobs that were selected and that got the fault.
	selected, fired int

	// The recordings have the first responses by URL, for stale ones.
	mu         sync.Mutex
	recordings map[string]*recording
}

// New returns an injector without a plan.
func New(c clock.Clock) *Injector {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Injector{clock: c}
}

// Set replaces the plan. All counts start again.
func (i *Injector) Set(p Plan) error {
	if err := p.Validate(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.plan, i.rules = p, make([]*rule, 0, len(p.Rules))
	i.rand = rand.New(rand.NewPCG(p.Seed, 0)) //nolint:gosec // it must be repeatable
	for _, r := range p.Rules {
		i.rules = append(i.rules, &rule{Rule: r, route: pattern(r.Route), recordings: map[string]*recording{}})
	}
	return nil
}

// Report is the state of a rule.
type Report struct {
	Rule
	// Selected is the number of requests or jobs that the rule has selected, Fired that of its faults.
	Selected int `json:"selected"`
	Fired    int `json:"fired"`
}

// Reports returns the state of each rule of the plan.
func (i *Injector) Reports() []Report {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := make([]Report, 0, len(i.rules))
	for _, r := range i.rules {
		all = append(all, Report{r.Rule, r.selected, r.fired})
	}
	return all
}

var placeholder = regexp.MustCompile(`\\\{[^}]*\\\}`)

// pattern returns the expression for a route.
func pattern(route string) *regexp.Regexp {
	if route == "" {
		route = "/v1/*"
	}
	rest, open := strings.CutSuffix(route, "*")
	expression := "^" + placeholder.ReplaceAllString(regexp.QuoteMeta(rest), `[^/:]+`)
	if !open {
		expression += "$"
	}
	return regexp.MustCompile(expression)
}

// Work fails the jobs that the plan selects.
func (i *Injector) Work(_ context.Context, j *cloudv1.Job) *cloudv1.Problem {
	r, _ := i.choose(func(r *rule) bool { return r.Job == j.Name || r.Job == "*" })
	if r == nil {
		return nil
	}
	p := problem(cmp.Or(r.Status, http.StatusInternalServerError), cmp.Or(r.Code, cloudv1.CodeInternal))
	p.Resource = &j.Target
	return &p
}

// request returns the rule that applies to a request, and whether it fires or only selects the request.
func (i *Injector) request(req *http.Request) (*rule, bool) {
	return i.choose(func(r *rule) bool {
		return r.Job == "" && (r.Method == "" || r.Method == req.Method) && r.route.MatchString(req.URL.Path) &&
			(r.Fault != Stale || req.Method == http.MethodGet)
	})
}

// choose returns the first rule that fires or, if none does, the first one for stale responses that lets something pass
// and must see it.
func (i *Injector) choose(selects func(*rule) bool) (*rule, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var sees *rule
	for _, r := range i.rules {
		if !selects(r) || r.Count > 0 && r.fired == r.Count {
			continue
		}
		r.selected++
		if r.selected > r.Skip && (r.Probability == nil || i.rand.Float64() < *r.Probability) {
			r.fired++
			return r, true
		}
		if sees == nil && r.Fault == Stale {
			sees = r
		}
	}
	return sees, false
}

func problem(status int, code string) cloudv1.Problem {
	return cloudv1.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: "injected fault",
		Retryable: status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable,
	}
}
