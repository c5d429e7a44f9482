package haproxy

import "quaymaster.dev/internal/mycloud/edge/config"

// mostCommands is how many members of a load balancer may change in the running process. A command takes about a
// millisecond, for which all others wait; a reload takes less time than so many.
const mostCommands = 500

// tooMany returns the load balancers of which so many members change that a reload is faster.
func (e *Engine) tooMany() map[string]bool {
	commands, found, counted := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, u := range e.units {
		was, ok := e.running.Units[u.Key()]
		// Listeners of one kind share the backend of a pool.
		backend, id := u.Backend(), u.LoadBalancer()
		if counted[backend] || !ok && e.running.Units != nil {
			continue
		}
		counted[backend] = true
		if ok {
			commands[id] += changed(was.Pool, u.Pool)
		} else {
			commands[id] += e.running.Changed(u)
		}
		if commands[id] > mostCommands {
			found[id] = true
		}
	}
	return found
}

// changed returns how many members are in one of both pools only.
func changed(before, after *config.Pool) int {
	if before.Port != after.Port {
		return len(before.Members) + len(after.Members)
	}
	list := make(map[config.Member]bool, len(before.Members))
	for _, m := range before.Members {
		list[m] = true
	}
	n := 0
	for _, m := range after.Members {
		if list[m] {
			delete(list, m)
		} else {
			n++
		}
	}
	return n + len(list)
}
