package page

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/history"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/visible"
)

// pageSize is the number of objects on a page of a list.
const pageSize = 50

// pager leads through a list. The addresses are empty where there is nothing.
type pager struct {
	From, To, Total int
	Previous, Next  string
}

// pageOf returns the objects of the page that a request asks for.
func pageOf[T any](all []T, r *http.Request) ([]T, pager) {
	query := r.URL.Query()
	n, _ := strconv.Atoi(query.Get("page"))
	n = min(max(n, 1), max(1, (len(all)+pageSize-1)/pageSize))
	from, to := (n-1)*pageSize, min(n*pageSize, len(all))
	p := pager{From: from + 1, To: to, Total: len(all)}
	to1 := func(n int) string {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(n))
		return r.URL.EscapedPath() + "?" + query.Encode()
	}
	if n > 1 {
		p.Previous = to1(n - 1)
	}
	if to < len(all) {
		p.Next = to1(n + 1)
	}
	return all[from:to], p
}

// The filters of lists.
const (
	showAll      = "all"
	showProblems = "problems"
)

// balancerLine is a load balancer in a list.
type balancerLine struct {
	row

	// Operating is what edges see, and Problems why an operator should look.
	Operating string
	Problems  []string
	Traffic   history.Series
	Rates     history.Rates
}

// balancerList is the data of the list of load balancers.
type balancerList struct {
	Lines []balancerLine
	Pager pager
	// Query and Show are the search and the filter; Shows are all filters.
	Query, Show string
	Shows       []string
	// Problems is the number of load balancers with problems.
	Problems int
}

func (balancerList) title() string { return "Load balancers" }

func (p *Page) loadBalancers(tx *store.Tx, r *http.Request) (any, error) {
	rows, problems, err := p.rows(tx)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	l := balancerList{
		Query: query.Get("q"), Show: query.Get("show"), Problems: len(problems),
		Shows: []string{showAll, showProblems, "active", "pending", "error", cloudv1.SchemePublic, cloudv1.SchemeInternal},
	}
	if !slices.Contains(l.Shows, l.Show) {
		l.Show = showAll
	}
	search, err := words(l.Query)
	if err != nil {
		return nil, err
	}
	var found []row
	for _, row := range rows {
		if row.matches(search) && row.shows(l.Show, problems) {
			found = append(found, row)
		}
	}
	found, l.Pager = pageOf(found, r)
	l.Lines, err = p.lines(tx, found, problems)
	return l, err
}

// shows reports whether a filter lets a load balancer through.
func (r *row) shows(filter string, problems map[string][]string) bool {
	switch filter {
	case showProblems:
		return len(problems[r.ID]) > 0
	case "active", "error":
		return string(r.State) == filter
	case "pending":
		return r.pending()
	case cloudv1.SchemePublic, cloudv1.SchemeInternal:
		return r.Scheme == filter
	}
	return true
}

func (r *row) pending() bool {
	return r.State == cloudv1.ProvisioningPendingCreate || r.State == cloudv1.ProvisioningPendingUpdate || r.State == cloudv1.ProvisioningPendingDelete
}

// lines returns what a list shows of load balancers.
func (p *Page) lines(tx *store.Tx, rows []row, problems map[string][]string) ([]balancerLine, error) {
	show := p.LoadBalancerView.Show(tx)
	lines := make([]balancerLine, 0, len(rows))
	for _, r := range rows {
		lb, err := store.LoadBalancers.Get(tx, r.ID)
		if _, none := errors.AsType[*store.NotFoundError](err); none {
			continue // the row is of a later snapshot
		}
		if err != nil {
			return nil, err
		}
		if err := show(lb); err != nil {
			return nil, err
		}
		l := balancerLine{row: r, Operating: lb.OperatingState, Problems: problems[r.ID]}
		l.Traffic, _ = p.History.Of(r.ID, history.Ranges[0])
		l.Rates = l.Traffic.Last(6)
		lines = append(lines, l)
	}
	return lines, nil
}

// rows returns the short forms of all load balancers, and why an operator should look at some of them, by id. The latter is found
// at most every second while load balancers do not change, however many look.
func (p *Page) rows(tx *store.Tx) ([]row, map[string][]string, error) {
	rows, err := p.balancers.all(tx)
	if err != nil {
		return nil, nil, err
	}
	p.found.mu.Lock()
	defer p.found.mu.Unlock()
	age := tx.Now.Sub(p.found.at)
	same := before(tx, p.found.revision) || store.LoadBalancers.UnchangedSince(tx, p.found.revision)
	if p.found.problems == nil || age.Abs() >= time.Second || !same {
		if p.found.problems, err = p.problems(tx, rows); err != nil {
			return nil, nil, err
		}
		p.found.at, p.found.revision = tx.Now, tx.Revision()
	}
	return rows, p.found.problems, nil
}

// found has the problems of load balancers as of a time.
type found struct {
	mu       sync.Mutex
	at       time.Time
	revision string
	problems map[string][]string
}

// problems returns why an operator should look at load balancers, by id. It needs only what edges report and the rows, not the
// load balancers themselves, of which there may be very many.
func (p *Page) problems(tx *store.Tx, rows []row) (map[string][]string, error) {
	all := map[string][]string{}
	note := func(id, text string) {
		if !slices.Contains(all[id], text) {
			all[id] = append(all[id], text)
		}
	}
	live := p.Edges.Select((*edges.Edge).Online)
	empty, err := p.emptyGroups(tx)
	if err != nil {
		return nil, err
	}
	offline := map[string]int{}
	for id := range offlineMembers(live) {
		offline[id.loadBalancer]++
	}
	faulty := map[string]bool{}
	for _, e := range live {
		for _, f := range e.Faults {
			faulty[f.LoadBalancerID] = true
		}
	}
	for i := range rows {
		r := &rows[i]
		switch {
		case r.State == cloudv1.ProvisioningError:
			note(r.ID, "the last change failed")
		case r.pending() && tx.Now.Sub(r.Changed) > balancer.ApplyTime:
			note(r.ID, "the last change is not complete")
		}
		if r.Members == 0 && !slices.ContainsFunc(r.Groups, func(id string) bool { return !empty[id] }) {
			note(r.ID, "it has no members")
		}
		if n := offline[r.ID]; n > 0 {
			note(r.ID, plural(n, "member")+" offline")
		}
		if faulty[r.ID] {
			note(r.ID, "an edge cannot apply it")
		}
		if slices.ContainsFunc(live, func(e *edges.Edge) bool {
			return e.Live() && e.Applied < r.Revision && tx.Now.Sub(r.Changed) > balancer.ApplyTime && tx.Now.Sub(e.Since) > balancer.ApplyTime
		}) {
			note(r.ID, "an edge is behind")
		}
	}
	return all, nil
}

// emptyGroups returns the node groups without members.
func (p *Page) emptyGroups(tx *store.Tx) (map[string]bool, error) {
	empty := map[string]bool{}
	err := store.NodeGroups.Each(tx, func(g *cloudv1.NodeGroup) error {
		empty[g.ID] = len(g.Members) == 0
		return nil
	})
	return empty, err
}

// memberID identifies a member of a pool.
type memberID struct{ loadBalancer, pool, family, key string }

// offlineMembers returns the members that some edge says are offline, and none says are online.
func offlineMembers(live []*edges.Edge) map[memberID]bool {
	states := map[memberID]bool{}
	for _, e := range live {
		for m := range e.MemberHealth() {
			id := memberID{m.LoadBalancerID, m.PoolKey, m.Family, m.MemberKey}
			switch m.State {
			case cloudv1.OperatingOnline:
				states[id] = false
			case cloudv1.OperatingOffline:
				if _, known := states[id]; !known {
					states[id] = true
				}
			}
		}
	}
	for id, off := range states {
		if !off {
			delete(states, id)
		}
	}
	return states
}

// listenerLine is a listener with what it has counted since the engines of the edges started.
type listenerLine struct {
	cloudv1.Listener

	Accepted, Refused, BytesIn, BytesOut uint64
	// Unit is what is counted.
	Unit string
}

// edgeLine is what an edge does for a load balancer.
type edgeLine struct {
	*edges.Edge

	// Does is what the edge has done about the last change, and Announces are the addresses of the load balancer that it
	// announces.
	Does      string
	Faults    []cloudv1.EdgeFault
	Announces []string
}

// balancerDetails is the data of a load balancer.
type balancerDetails struct {
	*cloudv1.LoadBalancer

	Problems  []string
	Health    cloudv1.Health
	Groups    map[string]string
	Listeners []listenerLine
	Edges     []edgeLine
	Jobs      []cloudv1.Job
	// Certificates are those of its listeners.
	Certificates []certificateLine
	Plot         plot
}

func (d balancerDetails) title() string { return visible.Text(d.Name) }

// named returns the object that the address of a request names.
func named[T any](tx *store.Tx, r *http.Request, kind store.Kind[T], noun string) (*T, error) {
	v, err := kind.Get(tx, r.PathValue("id"))
	if _, none := errors.AsType[*store.NotFoundError](err); none {
		return nil, &refusal{http.StatusNotFound, "There is no such " + noun + ". It may have been deleted."}
	}
	return v, err
}

func (p *Page) loadBalancer(tx *store.Tx, r *http.Request) (any, error) {
	lb, err := named(tx, r, store.LoadBalancers, "load balancer")
	if err != nil {
		return nil, err
	}
	id := lb.ID
	short := rowOf(lb)
	_, problems, err := p.rows(tx)
	if err != nil {
		return nil, err
	}
	d := balancerDetails{LoadBalancer: lb, Problems: problems[id], Groups: map[string]string{}, Listeners: p.listeners(lb), Edges: p.edgesOf(lb)}
	if d.Health, err = balancer.Observe(lb, p.Facts(tx)); err != nil {
		return nil, err
	}
	lb.OperatingState = d.Health.OperatingState
	for _, group := range short.Groups {
		g, err := store.NodeGroups.Get(tx, group)
		if err == nil {
			d.Groups[group] = g.Name
		}
	}
	jobs, err := p.jobs.all(tx)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.Target.ID == id && len(d.Jobs) < 5 {
			d.Jobs = append(d.Jobs, j)
		}
	}
	all, err := p.allCertificates(tx)
	for _, c := range all {
		if slices.Contains(short.Certificates, c.ID) {
			d.Certificates = append(d.Certificates, c)
		}
	}
	d.Plot = p.plot(r, id)
	return d, err
}

// units are what listeners count.
var units = map[string]string{
	cloudv1.ProtocolHTTP: "requests", cloudv1.ProtocolHTTPS: "requests", cloudv1.ProtocolTCP: "connections", cloudv1.ProtocolUDP: "packets",
}

// listeners returns the listeners with their counters on all edges.
func (p *Page) listeners(lb *cloudv1.LoadBalancer) []listenerLine {
	lines := make([]listenerLine, 0, len(lb.Listeners))
	for _, l := range lb.Listeners {
		line := listenerLine{Listener: l, Unit: units[l.Protocol]}
		for _, e := range p.Edges.Select(func(*edges.Edge) bool { return true }) {
			for _, c := range e.CountersOf(lb.ID) {
				if c.ListenerKey == l.Key {
					line.Accepted += c.Accepted
					line.Refused += c.Refused
					line.BytesIn += c.BytesIn
					line.BytesOut += c.BytesOut
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// edgesOf returns what edges do for a load balancer.
func (p *Page) edgesOf(lb *cloudv1.LoadBalancer) []edgeLine {
	var lines []edgeLine
	revision := edges.Number(lb.Revision)
	for _, e := range p.Edges.Select(func(*edges.Edge) bool { return true }) {
		l := edgeLine{Edge: e, Faults: e.FaultsOf(lb.ID)}
		switch {
		case !e.Online():
			l.Does = e.State
		case e.Applied < revision:
			l.Does = "behind"
		case slices.ContainsFunc(l.Faults, func(f cloudv1.EdgeFault) bool { return !f.Pending }):
			l.Does = "fault"
		case len(l.Faults) > 0:
			l.Does = "waiting"
		default:
			l.Does = "applied"
		}
		announced, _ := e.Announced()
		for _, address := range lb.Addresses() {
			if e.Online() && slices.Contains(announced, address) {
				l.Announces = append(l.Announces, address)
			}
		}
		lines = append(lines, l)
	}
	return lines
}
