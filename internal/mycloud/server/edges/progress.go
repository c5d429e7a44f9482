package edges

import (
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Progress sorts edges by what they did about a revision of a load balancer.
type Progress struct {
	// Applied have applied it, Faulty could not, and Waiting have not got that far or will apply the rest in a while.
	Applied, Faulty, Waiting []*Edge
}

// ProgressOf sorts edges by what they did about a revision of a load balancer.
func ProgressOf(all []*Edge, loadBalancer string, revision uint64) Progress {
	var v Progress
	for _, e := range all {
		faults := e.FaultsOf(loadBalancer)
		lasting := slices.ContainsFunc(faults, func(f cloudv1.EdgeFault) bool { return !f.Pending })
		switch {
		case e.Applied < revision, len(faults) > 0 && !lasting:
			v.Waiting = append(v.Waiting, e)
		case lasting:
			v.Faulty = append(v.Faulty, e)
		default:
			v.Applied = append(v.Applied, e)
		}
	}
	return v
}
