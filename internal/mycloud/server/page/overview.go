package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/addresses"
	"quaymaster.dev/internal/mycloud/server/history"
	"quaymaster.dev/internal/mycloud/server/store"
)

// notice is something that an operator should look at.
type notice struct {
	// Tone is warn or bad.
	Tone, Kind, Name, Text, Address string
}

// overview is the data of the first page.
type overview struct {
	Balancers, Problems  int
	Edges, Online        int
	Running, Failed      int
	Certificates, Ending int
	Now                  history.Rates
	// Notices are the first things to look at, and More the number of others.
	Notices []notice
	More    int
	Busiest []balancerLine
	Pools   []addresses.Use
	Plot    plot
}

func (overview) title() string { return "Overview" }

const (
	// mostNotices and mostBusiest limit what the overview lists.
	mostNotices, mostBusiest = 20, 8
	// failedFor is how long a job that has failed is a notice.
	failedFor = time.Hour
)

func (p *Page) overview(tx *store.Tx, r *http.Request) (any, error) {
	rows, problems, err := p.rows(tx)
	if err != nil {
		return nil, err
	}
	o := overview{Balancers: len(rows), Problems: len(problems), Plot: p.plot(r, "")}
	o.Now = p.History.Total(history.Ranges[0]).Last(6)
	note := func(n notice) {
		if len(o.Notices) == mostNotices {
			o.More++
			return
		}
		o.Notices = append(o.Notices, n)
	}
	all, err := p.edgeStates(tx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		e := &all[i]
		if o.Edges++; e.State != cloudv1.EdgeOffline {
			o.Online++
		}
		if n, ok := e.notice(tx.Now); ok {
			note(n)
		}
	}
	certificates, err := p.allCertificates(tx)
	if err != nil {
		return nil, err
	}
	for _, c := range certificates {
		if o.Certificates++; c.State == "" {
			continue
		}
		o.Ending++
		n := notice{"warn", "Certificate", c.Name, "ends in " + span(c.NotAfter.Sub(tx.Now)), Path + "certificates#" + c.ID}
		if c.State == "ended" {
			n.Tone, n.Text = "bad", "ended "+ago(tx.Now.Sub(c.NotAfter))
		}
		note(n)
	}
	for _, row := range rows {
		if len(problems[row.ID]) == 0 {
			continue
		}
		n := notice{"warn", "Load balancer", row.Name, strings.Join(problems[row.ID], "; "), link("load-balancers", row.ID)}
		if row.State == cloudv1.ProvisioningError {
			n.Tone = "bad"
		}
		note(n)
	}
	jobs, err := p.jobs.all(tx)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		switch {
		case !j.Done():
			o.Running++
		case j.State == cloudv1.JobFailed && j.FinishedAt != nil && tx.Now.Sub(*j.FinishedAt) < failedFor:
			o.Failed++
			text := "failed " + ago(tx.Now.Sub(*j.FinishedAt))
			if j.Error != nil {
				text += ": " + j.Error.Summary()
			}
			note(notice{"bad", "Job", j.Name, text, link("jobs", j.ID)})
		}
	}
	if o.Busiest, err = p.busiest(tx, problems); err != nil {
		return nil, err
	}
	o.Pools, err = addresses.UseIn(tx)
	return o, err
}

// notice returns why an operator should look at an edge.
func (e edgeState) notice(now time.Time) (notice, bool) {
	n := notice{"warn", "Edge", e.Name, "", link("edges", e.ID)}
	switch {
	case e.State == cloudv1.EdgeOffline:
		n.Tone, n.Text = "bad", "has not been heard of"
		if e.HeartbeatAt != nil {
			n.Text += " for " + span(now.Sub(*e.HeartbeatAt))
		}
	case e.Late(now):
		n.Text = "is " + plural(e.Lag.Changes, "change") + " behind"
		if e.Lag.More {
			n.Text = "is more than " + plural(e.Lag.Changes, "change") + " behind"
		}
	case len(e.Faults) > 0:
		n.Text = "cannot apply " + plural(len(e.Faults), "change")
	default:
		return n, false
	}
	return n, true
}

// Late reports whether the edge has had time to apply changes that it has not applied.
func (e edgeState) Late(now time.Time) bool {
	return e.Lag.More || e.Lag.Changes > 0 && now.Sub(e.Lag.Since) > 10*time.Second
}

// busiest returns the load balancers with the most requests.
func (p *Page) busiest(tx *store.Tx, problems map[string][]string) ([]balancerLine, error) {
	ids := p.History.Busiest(mostBusiest)
	found, err := p.balancers.some(tx, ids...)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, id := range ids {
		if row, ok := found[id]; ok {
			rows = append(rows, row)
		}
	}
	return p.lines(tx, rows, problems)
}

// plot is what a script draws the traffic from.
type plot struct {
	// Series is the address of the data.
	Series string
	Range  string
	Ranges []rangeLink
	// Table has the last steps in words.
	Table []plotRow
	// Kept is false if the traffic is not known, because too many others have traffic.
	Kept bool
}

type rangeLink struct {
	Name, Label, Address string
	Current              bool
}

type plotRow struct {
	At    time.Time
	Rates history.Rates
}

// rangeLabels are the names of ranges in words.
var rangeLabels = map[string]string{"15m": "15 minutes", "24h": "24 hours"}

// tableRows is how many averages the table of a plot has.
const tableRows = 15

// plot returns the plot of a load balancer, or of all if the id is empty.
func (p *Page) plot(r *http.Request, id string) plot {
	chosen := rangeOf(r)
	out := plot{Range: chosen.Name, Series: Path + "series?" + url.Values{"id": {id}, "range": {chosen.Name}}.Encode()}
	for _, one := range history.Ranges {
		address := r.URL.EscapedPath()
		if one != history.Ranges[0] {
			address += "?range=" + one.Name
		}
		out.Ranges = append(out.Ranges, rangeLink{one.Name, rangeLabels[one.Name], address, one == chosen})
	}
	s, kept := p.traffic(id, chosen)
	out.Kept = kept
	per := max(1, chosen.Steps/tableRows)
	for end := len(s.Points); end > 0; end -= per {
		part := history.Series{Points: s.Points[max(0, end-per):end]}
		out.Table = append(out.Table, plotRow{s.Begin.Add(time.Duration(end) * s.Step), part.Last(per)})
	}
	return out
}

func (p *Page) traffic(id string, r history.Range) (history.Series, bool) {
	if id == "" {
		return p.History.Total(r), true
	}
	return p.History.Of(id, r)
}

// rangeOf returns the range that a request asks for.
func rangeOf(r *http.Request) history.Range {
	for _, one := range history.Ranges {
		if one.Name == r.URL.Query().Get("range") {
			return one
		}
	}
	return history.Ranges[0]
}

// seriesBody is the traffic over a range as scripts read it: rates per second.
type seriesBody struct {
	// Begin is when the range begins, which may be before the first step, and End when it ends, in seconds since 1970.
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
	// First is when the first step begins, and Step how many seconds each is.
	First    int64     `json:"first"`
	Step     int64     `json:"step"`
	Accepted []float32 `json:"accepted"`
	Refused  []float32 `json:"refused"`
	BytesIn  []float32 `json:"bytes_in"`
	BytesOut []float32 `json:"bytes_out"`
}

// series serves the traffic of a load balancer, or of all.
func (p *Page) series(w http.ResponseWriter, r *http.Request) {
	chosen := rangeOf(r)
	s, _ := p.traffic(r.URL.Query().Get("id"), chosen)
	end := s.Begin.Add(time.Duration(len(s.Points)) * s.Step)
	body := seriesBody{
		Begin: end.Add(-time.Duration(chosen.Steps) * chosen.Step).Unix(), End: end.Unix(), First: s.Begin.Unix(), Step: int64(s.Step.Seconds()),
		Accepted: []float32{}, Refused: []float32{}, BytesIn: []float32{}, BytesOut: []float32{},
	}
	for _, point := range s.Points {
		body.Accepted, body.Refused = append(body.Accepted, point.Accepted), append(body.Refused, point.Refused)
		body.BytesIn, body.BytesOut = append(body.BytesIn, point.BytesIn), append(body.BytesOut, point.BytesOut)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}
