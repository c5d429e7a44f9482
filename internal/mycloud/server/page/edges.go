package page

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/visible"
)

// mostChanges limits how many changes are looked at for what an edge lacks.
const mostChanges = 1000

// followed are the kinds of objects that edges follow.
var followed = []string{cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup, cloudv1.KindCertificate}

// lag is how far an edge is behind.
type lag struct {
	// Changes counts the changes that the edge has not applied yet. If More is true, it is only a lower bound.
	Changes int
	More    bool
	// Since is when the oldest of those was made that still exists; zero if it does not.
	Since time.Time
}

// edgeState is an edge in a list.
type edgeState struct {
	cloudv1.Edge

	// Heard is false if the edge has not reported since the server started.
	Heard bool
	Lag   lag
	// Announced are the addresses that the edge announces, and Announces is false if it has not said.
	Announced []string
	Announces bool
}

// edgeList is the data of the list of edges.
type edgeList struct {
	Edges []edgeState
	// Addresses is the number of addresses of load balancers.
	Addresses int
}

func (edgeList) title() string { return "Edges" }

func (p *Page) edges(tx *store.Tx, _ *http.Request) (any, error) {
	var l edgeList
	var err error
	if l.Edges, err = p.edgeStates(tx); err != nil {
		return nil, err
	}
	rows, _, err := p.rows(tx)
	for i := range rows {
		l.Addresses += len(rows[i].Addresses)
	}
	return l, err
}

// edgeStates returns all edges in the order of their names.
func (p *Page) edgeStates(tx *store.Tx) ([]edgeState, error) {
	var all []edgeState
	err := store.Edges.Each(tx, func(e *cloudv1.Edge) error {
		s, err := p.edgeState(tx, e)
		all = append(all, s)
		return err
	})
	slices.SortFunc(all, func(a, b edgeState) int { return byName(row{Name: a.Name, ID: a.ID}, row{Name: b.Name, ID: b.ID}) })
	return all, err
}

// edgeState adds to an edge what it reports.
func (p *Page) edgeState(tx *store.Tx, e *cloudv1.Edge) (edgeState, error) {
	if err := p.EdgeView.Show(tx)(e); err != nil {
		return edgeState{}, err
	}
	s := edgeState{Edge: *e, Heard: e.HeartbeatAt != nil}
	known := p.Edges.Get(e.ID)
	if known == nil || !s.Heard {
		return s, nil
	}
	s.Announced, s.Announces = known.Announced()
	var err error
	s.Lag, err = p.lag(tx, known)
	return s, err
}

// lag returns how far an edge is behind.
func (p *Page) lag(tx *store.Tx, e *edges.Edge) (lag, error) {
	var l lag
	changes, err := tx.Changes(strconv.FormatUint(e.Applied, 10))
	if errors.Is(err, store.ErrUnknownRevision) {
		// It has applied nothing for so long that not all changes are known, or nothing of this cloud.
		return lag{Changes: mostChanges, More: true}, nil
	}
	if err != nil {
		return l, err
	}
	if unchanged(tx, strconv.FormatUint(e.Applied, 10)) {
		return l, nil
	}
	looked := 0
	for c, err := range changes {
		if err != nil {
			return l, err
		}
		if slices.Contains(followed, c.Kind) {
			if l.Changes++; l.Since.IsZero() {
				l.Since = changedAt(tx, c)
			}
		}
		if looked++; looked == mostChanges {
			l.More = !unchanged(tx, c.Revision)
			break
		}
	}
	return l, nil
}

// unchanged reports whether nothing that edges follow has changed since a revision.
func unchanged(tx *store.Tx, revision string) bool {
	return store.LoadBalancers.UnchangedSince(tx, revision) && store.NodeGroups.UnchangedSince(tx, revision) &&
		store.Certificates.UnchangedSince(tx, revision)
}

// changedAt returns when the object of a change was changed; zero if it does not exist any more.
func changedAt(tx *store.Tx, c store.Change) time.Time {
	switch c.Kind {
	case cloudv1.KindLoadBalancer:
		if v, err := store.LoadBalancers.Get(tx, c.ID); err == nil {
			return v.UpdatedAt
		}
	case cloudv1.KindNodeGroup:
		if v, err := store.NodeGroups.Get(tx, c.ID); err == nil {
			return v.UpdatedAt
		}
	case cloudv1.KindCertificate:
		if v, err := store.Certificates.Get(tx, c.ID); err == nil {
			return v.UpdatedAt
		}
	}
	return time.Time{}
}

// edgeDetails is the data of an edge.
type edgeDetails struct {
	edgeState

	// Faults are what it could not apply, with the names of the load balancers.
	Faults []faultLine
	// Serves are the load balancers of the addresses that it announces.
	Serves []announcedLine
	// More is the number of addresses that are not listed.
	More int
	// Withheld are the addresses of load balancers that it does not announce.
	Withheld []announcedLine
}

type faultLine struct {
	cloudv1.EdgeFault

	Name string
}

// announcedLine is an address with the load balancer that has it.
type announcedLine struct{ Address, ID, Name string }

// mostAnnounced limits the addresses that are listed of an edge.
const mostAnnounced = 200

func (d edgeDetails) title() string { return visible.Text(d.Name) }

func (p *Page) edge(tx *store.Tx, r *http.Request) (any, error) {
	e, err := named(tx, r, store.Edges, "edge")
	if err != nil {
		return nil, err
	}
	var d edgeDetails
	if d.edgeState, err = p.edgeState(tx, e); err != nil {
		return nil, err
	}
	rows, _, err := p.rows(tx)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	announced := map[string]bool{}
	for _, a := range d.Announced {
		announced[a] = true
	}
	for i := range rows {
		r := &rows[i]
		names[r.ID] = r.Name
		for _, address := range r.Addresses {
			line := announcedLine{address, r.ID, r.Name}
			switch {
			case announced[address]:
				d.Serves = append(d.Serves, line)
			case d.Announces && d.State == cloudv1.EdgeActive:
				d.Withheld = append(d.Withheld, line)
			}
		}
	}
	if more := len(d.Serves) - mostAnnounced; more > 0 {
		d.More, d.Serves = more, d.Serves[:mostAnnounced]
	}
	d.Withheld = d.Withheld[:min(len(d.Withheld), mostAnnounced)]
	for _, f := range d.Edge.Faults[:min(len(d.Edge.Faults), mostAnnounced)] {
		d.Faults = append(d.Faults, faultLine{f, names[f.LoadBalancerID]})
	}
	return d, nil
}
