package page

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// jobLine is a job with the name of its target.
type jobLine struct {
	cloudv1.Job

	// Target is the name of the load balancer that the job is about; empty if it is gone.
	TargetName string
}

// jobList is the data of the list of jobs.
type jobList struct {
	Jobs  []jobLine
	Pager pager
	State string
	// States are the filters.
	States []string
}

func (jobList) title() string { return "Jobs" }

func (p *Page) listJobs(tx *store.Tx, r *http.Request) (any, error) {
	all, err := p.jobs.all(tx)
	if err != nil {
		return nil, err
	}
	l := jobList{
		State:  r.URL.Query().Get("state"),
		States: []string{showAll, string(cloudv1.JobQueued), string(cloudv1.JobRunning), string(cloudv1.JobSucceeded), string(cloudv1.JobFailed), string(cloudv1.JobCancelled)},
	}
	if !slices.Contains(l.States, l.State) {
		l.State = showAll
	}
	var found []cloudv1.Job
	for _, j := range all {
		if l.State == showAll || string(j.State) == l.State {
			found = append(found, j)
		}
	}
	found, l.Pager = pageOf(found, r)
	l.Jobs, err = p.jobLines(tx, found)
	return l, err
}

func (p *Page) jobLines(tx *store.Tx, all []cloudv1.Job) ([]jobLine, error) {
	lines := make([]jobLine, 0, len(all))
	ids := make([]string, 0, len(all))
	for i := range all {
		ids = append(ids, all[i].Target.ID)
	}
	targets, err := p.balancers.some(tx, ids...)
	if err != nil {
		return nil, err
	}
	show := p.JobView.Show(tx)
	for _, j := range all {
		if err := show(&j); err != nil {
			return nil, err
		}
		lines = append(lines, jobLine{j, targets[j.Target.ID].Name})
	}
	return lines, nil
}

// jobDetails is the data of a job.
type jobDetails struct{ jobLine }

func (jobDetails) title() string { return "Job" }

func (p *Page) job(tx *store.Tx, r *http.Request) (any, error) {
	found, err := p.jobs.some(tx, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	j, ok := found[r.PathValue("id")]
	if !ok {
		return nil, &refusal{http.StatusNotFound, "There is no such job. Jobs are deleted two days after they have ended."}
	}
	lines, err := p.jobLines(tx, []cloudv1.Job{j})
	if err != nil {
		return nil, err
	}
	return jobDetails{lines[0]}, nil
}

// endsSoon is how long before its end a certificate is a problem: a third of the life of the shortest that are common.
const endsSoon = 30 * 24 * time.Hour

// certificateLine is a certificate with the load balancers that use it.
type certificateLine struct {
	cloudv1.Certificate

	// State is empty, "ends soon" or "ended".
	State string
	// Users are the load balancers that use it.
	Users []row
}

// certificateList is the data of the list of certificates.
type certificateList struct{ Certificates []certificateLine }

func (certificateList) title() string { return "Certificates" }

func (p *Page) certificates(tx *store.Tx, _ *http.Request) (any, error) {
	all, err := p.allCertificates(tx)
	return certificateList{all}, err
}

// allCertificates returns the certificates, those that end first first.
func (p *Page) allCertificates(tx *store.Tx) ([]certificateLine, error) {
	rows, err := p.balancers.all(tx)
	if err != nil {
		return nil, err
	}
	users := map[string][]row{}
	for _, r := range rows {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(r.Certificates))) {
			users[id] = append(users[id], r)
		}
	}
	var all []certificateLine
	err = store.Certificates.Each(tx, func(c *cloudv1.Certificate) error {
		l := certificateLine{Certificate: *c, Users: users[c.ID]}
		switch left := c.NotAfter.Sub(tx.Now); {
		case left <= 0:
			l.State = "ended"
		case left < endsSoon:
			l.State = "ends soon"
		}
		all = append(all, l)
		return nil
	})
	slices.SortFunc(all, func(a, b certificateLine) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// hit is a result of a search.
type hit struct{ Kind, Name, ID, Detail, Address string }

// results is the data of a search.
type results struct {
	Query string
	Hits  []hit
	// More is true if Hits lacks some because there are too many.
	More bool
}

func (results) title() string { return "Search" }

// mostHits limits the results of a search.
const mostHits = 100

// search finds load balancers by name, id, address, listener or tag, and edges, certificates and jobs by name or id.
func (p *Page) search(tx *store.Tx, r *http.Request) (any, error) {
	out := results{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	search, err := words(out.Query)
	if len(search) == 0 {
		return out, err
	}
	add := func(h hit) {
		if len(out.Hits) == mostHits {
			out.More = true
			return
		}
		out.Hits = append(out.Hits, h)
	}
	err = store.Edges.Each(tx, func(e *cloudv1.Edge) error {
		if matches(search, append(e.Addresses, e.Name, e.ID, e.Zone)...) {
			add(hit{"Edge", e.Name, e.ID, strings.Join(e.Addresses, ", "), link("edges", e.ID)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	certificates, err := p.allCertificates(tx)
	if err != nil {
		return nil, err
	}
	for _, c := range certificates {
		if matches(search, append(c.DNSNames, c.Name, c.ID, c.Fingerprint)...) {
			add(hit{"Certificate", c.Name, c.ID, strings.Join(c.DNSNames, ", "), Path + "certificates#" + c.ID})
		}
	}
	rows, err := p.balancers.all(tx)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if r := &rows[i]; r.matches(search) {
			add(hit{"Load balancer", r.Name, r.ID, strings.Join(append(slices.Clone(r.Addresses), r.Listeners...), ", "), link("load-balancers", r.ID)})
		}
	}
	jobs, err := p.jobs.all(tx)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if matches(search, j.ID, j.Target.ID) {
			add(hit{"Job", j.Name, j.ID, label(j.State), link("jobs", j.ID)})
		}
	}
	return out, nil
}
