package plan

const (
	// spareFiles are for what HAProxy opens besides connections, listeners and checks.
	spareFiles = 400
	// filesPerCheck leaves a third of the files to connections. A check has two.
	filesPerCheck = 3
	// leastConnections is what HAProxy needs to be of use.
	leastConnections = 100
)

// connections returns how many connections HAProxy can serve at the same time with a number of open files. Each has two, as
// has each check; listeners have one. HAProxy computes it too, but does not start if there are many checks.
func (p *Plan) connections(files int) int {
	checks := 0
	for i := range p.Backends {
		if p.Backends[i].Monitor != nil {
			checks += len(p.Backends[i].Servers)
		}
	}
	// Members that join until the next reload need some, too.
	return max((files-spareFiles-len(p.Frontends))/2-checks-checks/8, leastConnections)
}

// ConnectionsKey is the key of the most connections, EventsKey that of the most requests or connections per period.
func (f *Frontend) ConnectionsKey() string { return f.Name + ":connections" }

// EventsKey is described at ConnectionsKey.
func (f *Frontend) EventsKey() string { return f.Name + ":events" }

// Limits returns the limits of all listeners under the keys by which the configuration refers to them.
func (p *Plan) Limits() map[string]int {
	limits := map[string]int{}
	for i := range p.Frontends {
		f := &p.Frontends[i]
		if f.MaxConnections > 0 {
			limits[f.ConnectionsKey()] = f.MaxConnections
		}
		if f.Quota.Events > 0 {
			limits[f.EventsKey()] = f.Quota.Events
		}
	}
	return limits
}
