package haproxy

import (
	"fmt"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// A pool with affinity and as many members as the API allows takes little more memory than one without affinity.
func TestAffinityToManyMembers(t *testing.T) {
	const most = 1000
	used := map[string]int{}
	for _, algorithm := range []string{cloudv1.AlgorithmRoundRobin, cloudv1.AlgorithmSourceIP} {
		e := newEngine(t, nil)
		l, p := listener(t, "http", "tcp/81"), pool("tcp/81")
		p.Algorithm = algorithm
		alive := member(t, "a")
		for i := range most {
			m := alive
			m.Key = fmt.Sprint(i)
			p.Members = append(p.Members, m)
		}
		apply(t, e, &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}})
		serves(t, l)
		used[algorithm] = memory(t, e)
	}
	t.Logf("kB of memory: %v", used)
	if more := used[cloudv1.AlgorithmSourceIP] - used[cloudv1.AlgorithmRoundRobin]; more > 64<<10 {
		t.Errorf("affinity takes %d kB", more)
	}
}
