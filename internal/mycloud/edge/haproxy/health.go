package haproxy

import (
	"context"
	"errors"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
	"quaymaster.dev/internal/visible"
)

// maxDetail is the longest detail that the cloud accepts.
const maxDetail = 255

var errNotApplied = errors.New("no configuration has been applied yet")

// Health returns the states of members with a health monitor. Those that HAProxy does not probe are unknown.
func (e *Engine) Health(ctx context.Context) ([]cloudv1.MemberHealth, error) {
	now, rows, err := e.current(ctx, e.haproxy.Servers)
	if err != nil {
		return nil, err
	}
	seen := make(map[place]process.Row, len(rows))
	for _, row := range rows {
		seen[place{row.Get("pxname"), row.Get("svname")}] = row
	}
	return healthOf(now.pools, now.plan.Backends, seen), nil
}

func healthOf(pools []config.Pool, backends []plan.Backend, rows map[place]process.Row) []cloudv1.MemberHealth {
	servers := map[config.PoolID]map[string]place{}
	for i := range backends {
		b := &backends[i]
		if len(servers[b.Pool.ID]) > 0 {
			// Another kind of listener uses the pool too, and probes the same members.
			continue
		}
		servers[b.Pool.ID] = make(map[string]place, len(b.Servers))
		for j := range b.Servers {
			servers[b.Pool.ID][b.Servers[j].Member.Key] = place{b.Name, b.Servers[j].Name}
		}
	}
	var health []cloudv1.MemberHealth
	for i := range pools {
		id := pools[i].ID
		if pools[i].Monitor == nil {
			continue
		}
		for _, m := range pools[i].Members {
			h := cloudv1.MemberHealth{LoadBalancerID: id.LoadBalancer, PoolKey: id.Key, Family: id.Family, MemberKey: m.Key}
			h.State, h.Detail = stateOf(rows[servers[id][m.Key]])
			if m.Draining && h.State != cloudv1.OperatingOffline {
				h.State, h.Detail = cloudv1.OperatingDraining, ""
			}
			health = append(health, h)
		}
	}
	return health
}

// stateOf returns the state that HAProxy shows for a server, and why it is offline.
func stateOf(row process.Row) (state, detail string) {
	switch status := row.Get("status"); {
	case strings.HasPrefix(status, "DOWN"):
		return cloudv1.OperatingOffline, reason(row)
	case row.Get("check_status") == "" || strings.HasPrefix(row.Get("check_status"), "* ") || row.Get("check_status") == "INI":
		return cloudv1.OperatingUnknown, ""
	case strings.HasPrefix(status, "UP"), strings.HasPrefix(status, "NOLB"), strings.HasPrefix(status, "DRAIN"):
		return cloudv1.OperatingOnline, ""
	}
	return cloudv1.OperatingUnknown, ""
}

// reason returns the result of the last check in one line.
func reason(row process.Row) string {
	parts := make([]string, 0, 3)
	for _, part := range []string{strings.TrimPrefix(row.Get("check_desc"), "* "), row.Get("last_chk")} {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	if code := row.Get("check_code"); code != "" {
		parts = append(parts, "status "+code)
	}
	return visible.Cut(strings.ToValidUTF8(strings.Join(parts, ": "), ""), maxDetail)
}
