package haproxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// tablesTimeout limits how long a reload waits for the tables of clients. Most clients stay on their member without
	// them, because both workers hash alike.
	tablesTimeout = 10 * time.Second
	// tablesBatch keeps a line of commands below the size of HAProxy's buffer.
	tablesBatch = 60
)

// clients has the server of each client, by address, of the tables by the names of their backends.
type clients map[string]map[string]string

// clients returns the tables of a worker. HAProxy's own way of handing them over, a peer that is the next worker, does
// not work in 2.6 if the old worker has few connections.
func (e *Engine) clients(ctx context.Context, worker int) (clients, error) {
	list, err := e.master.worker(ctx, worker, "show table", "")
	if err != nil {
		return nil, fmt.Errorf("show table: %w", err)
	}
	found := clients{}
	for _, name := range tablesOfClients(list) {
		table, err := e.master.worker(ctx, worker, "show table "+name, "")
		if err != nil {
			return nil, fmt.Errorf("show table: %w", err)
		}
		found[name] = parseTable(table)
	}
	return found, nil
}

// tablesOfClients returns the names of the tables that have addresses, from lines such as
// "# table: lb-1:tcp_2f80:ipv4:http, type: ip, size:102400, used:8".
func tablesOfClients(list string) []string {
	var names []string
	for line := range strings.Lines(list) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "# table: ")
		name, rest, _ := strings.Cut(name, ", ")
		if ok && strings.HasPrefix(rest, "type: ip") && !strings.HasSuffix(rest, "used:0") {
			names = append(names, name)
		}
	}
	return names
}

// parseTable returns the servers of clients, from lines such as
// "0x55cf801b3ab0: key=127.0.0.1 use=0 exp=59982 server_id=7 server_key=i-1:9634fa59".
func parseTable(table string) map[string]string {
	servers := map[string]string{}
	for line := range strings.Lines(table) {
		values := map[string]string{}
		for field := range strings.FieldsSeq(line) {
			if name, value, ok := strings.Cut(field, "="); ok {
				values[name] = value
			}
		}
		if values["key"] != "" && values["server_key"] != "" {
			servers[values["key"]] = values["server_key"]
		}
	}
	return servers
}

// restore puts clients into the tables of a worker, except for those of members that take no new connections.
func (e *Engine) restore(ctx context.Context, worker int, p *plan, c clients) error {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	var commands []string
	for i := range p.backends {
		b := &p.backends[i]
		if b.Affinity == 0 || len(c[b.Name]) == 0 {
			continue
		}
		ids := map[string]uint32{}
		for _, s := range b.Servers {
			if s.Weight > 0 {
				ids[s.Name] = s.ID
			}
		}
		for _, client := range slices.Sorted(maps.Keys(c[b.Name])) {
			if id := ids[c[b.Name][client]]; id != 0 {
				commands = append(commands, fmt.Sprintf("set table %s key %s data.server_id %d", b.Name, client, id))
			}
		}
	}
	for batch := range slices.Chunk(commands, tablesBatch) {
		answer, err := e.master.worker(ctx, worker, strings.Join(batch, ";"), "")
		if err == nil && answer != "" {
			err = fmt.Errorf("haproxy answers %.100q", answer)
		}
		if err != nil {
			return fmt.Errorf("set table: %w", err)
		}
	}
	return nil
}
