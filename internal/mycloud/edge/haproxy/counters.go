package haproxy

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"strconv"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
)

// countersFile has what workers have counted that are gone.
const countersFile = "counters.json"

// counts are the counters of a frontend.
type counts struct {
	Accepted, Refused, BytesIn, BytesOut uint64
}

func (c counts) plus(o counts) counts {
	return counts{c.Accepted + o.Accepted, c.Refused + o.Refused, c.BytesIn + o.BytesIn, c.BytesOut + o.BytesOut}
}

// below reports whether one of the counters is lower, so that another process must have counted.
func (c counts) below(o counts) bool {
	return c.Accepted < o.Accepted || c.Refused < o.Refused || c.BytesIn < o.BytesIn || c.BytesOut < o.BytesOut
}

// counting adds up what the workers have counted: each starts at 0, and old ones go on for as long as they have
// connections.
type counting struct {
	// Ended has the sums of the workers that have ended.
	Ended map[string]counts
	// Workers has what was last seen of each worker, by its process id.
	Workers map[int]map[string]counts
}

// see records what a worker shows.
func (c *counting) see(worker int, seen map[string]counts) {
	for name, last := range c.Workers[worker] {
		if now, ok := seen[name]; !ok || now.below(last) {
			c.end(worker)
			break
		}
	}
	c.Workers[worker] = seen
}

// end adds a worker to those that have ended.
func (c *counting) end(worker int) {
	for name, last := range c.Workers[worker] {
		c.Ended[name] = c.Ended[name].plus(last)
	}
	delete(c.Workers, worker)
}

func (c *counting) total(name string) counts {
	sum := c.Ended[name]
	for _, seen := range c.Workers {
		sum = sum.plus(seen[name])
	}
	return sum
}

// Counters returns what the listeners have counted since HAProxy was first started in the folder. They never go
// backwards: what workers have counted that are gone is kept in a file.
func (e *Engine) Counters(ctx context.Context) ([]cloudv1.ListenerCounter, error) {
	now := e.shown.Load()
	if now == nil {
		return nil, errNotApplied
	}
	e.counted.Lock()
	defer e.counted.Unlock()
	if err := e.count(ctx); err != nil {
		return nil, err
	}
	counters := make([]cloudv1.ListenerCounter, 0, len(now.plan.Frontends))
	for i := range now.plan.Frontends {
		f := &now.plan.Frontends[i]
		if f.Removed {
			continue
		}
		c := e.counting.total(f.Name)
		counters = append(counters, cloudv1.ListenerCounter{
			LoadBalancerID: f.Listener.LoadBalancer, ListenerKey: f.Listener.Key, Family: f.Family(),
			Accepted: c.Accepted, Refused: c.Refused, BytesIn: c.BytesIn, BytesOut: c.BytesOut,
		})
	}
	return counters, nil
}

// count reads what the workers have counted. The caller holds counted.
func (e *Engine) count(ctx context.Context) error {
	if e.counting.Workers == nil {
		e.counting = e.readCounting()
	}
	p, err := e.haproxy.Running(ctx)
	if errors.Is(err, process.ErrNotRunning) {
		p, err = &process.Workers{}, nil
	}
	if err != nil {
		return err
	}
	before := counting{maps.Clone(e.counting.Ended), maps.Clone(e.counting.Workers)}
	alive := map[int]bool{}
	for _, worker := range append(p.Old, p.Current) {
		if worker == 0 {
			continue
		}
		rows, err := e.haproxy.Frontends(ctx, worker)
		if err != nil {
			if worker == p.Current {
				return err
			}
			// It has just ended.
			continue
		}
		alive[worker] = true
		seen := make(map[string]counts, len(rows))
		for _, row := range rows {
			seen[row.Get("pxname")] = countsOf(row)
		}
		e.counting.see(worker, seen)
	}
	for worker := range before.Workers {
		if !alive[worker] {
			e.counting.end(worker)
		}
	}
	if now := e.shown.Load(); now != nil {
		maps.DeleteFunc(e.counting.Ended, func(name string, _ counts) bool { return !now.keys[name] })
	}
	if reflect.DeepEqual(before, e.counting) {
		return nil
	}
	content, err := json.Marshal(e.counting)
	if err == nil {
		err = e.haproxy.Write(countersFile, content)
	}
	if err != nil {
		// The counters themselves are right, unless the agent restarts now.
		e.Logger.WarnContext(ctx, "the counters cannot be saved", "error", err)
	}
	return nil
}

func (e *Engine) readCounting() counting {
	c := counting{Ended: map[string]counts{}, Workers: map[int]map[string]counts{}}
	content, err := os.ReadFile(e.haproxy.File(countersFile))
	if err != nil {
		return c
	}
	read := c
	if err := json.Unmarshal(content, &read); err != nil || read.Ended == nil || read.Workers == nil {
		return c
	}
	return read
}

func countsOf(row process.Row) counts {
	n := func(column string) uint64 {
		v, _ := strconv.ParseUint(row.Get(column), 10, 64)
		return v
	}
	c := counts{
		Accepted: n("stot"), Refused: n("dcon") + n("dses"), BytesIn: n("bin"), BytesOut: n("bout"),
	}
	if row.Get("mode") == plan.ModeHTTP {
		refused := n("dreq")
		c.Accepted, c.Refused = n("req_tot")-min(refused, n("req_tot")), c.Refused+refused
	}
	return c
}
