package edges

// Progress sorts edges by what they did about a revision of a load balancer.
type Progress struct {
	// Applied have applied it, Faulty could not, and Waiting have not got that far.
	Applied, Faulty, Waiting []*Edge
}

// ProgressOf sorts edges by what they did about a revision of a load balancer.
func ProgressOf(all []*Edge, loadBalancer string, revision uint64) Progress {
	var v Progress
	for _, e := range all {
		switch {
		case e.Applied < revision:
			v.Waiting = append(v.Waiting, e)
		case len(e.FaultsOf(loadBalancer)) > 0:
			v.Faulty = append(v.Faulty, e)
		default:
			v.Applied = append(v.Applied, e)
		}
	}
	return v
}
