package meaning

import "slices"

// fillers are words that add little to the meaning of a name.
var fillers = []string{
	"load", "balancer", "loadbalancer", "lb", "nlb", "service", "svc", "type", "enable", "enabled", "name", "id", "ids", "kubernetes",
	"io", "aws", "azure", "gke", "do", "oci", "linode", "annotation", "config", "configuration", "setting",
}

// synonyms are groups of words that mean the same in the names of annotations.
var synonyms = [][]string{
	{"https", "tls", "ssl"},
	{"cert", "certs", "certificate", "certificates"},
	{"internal", "private", "scheme"},
	{"external", "public", "scheme"},
	{"algorithm", "scheduler", "balancing", "policy", "method"},
	{"sticky", "affinity", "persistence"},
	{"subnet", "subnets", "subnetid", "subnetwork"},
	{"cidr", "cidrs", "range", "ranges"},
	{"health", "healthcheck", "hc"},
	{"interval", "period"},
	{"drain", "draining", "deregistration"},
	{"size", "flavor", "sku", "shape"},
	{"zone", "zones", "az"},
	{"tags", "labels"},
	{"address", "addresses", "ip", "ips"},
	{"location", "region"},
}

// opposites are groups of words of which none may be replaced by one of another list of its group.
var opposites = [][][]string{
	{{"http"}, {"https", "tls", "ssl"}, {"http2"}, {"http3", "quic"}, {"tcp"}, {"udp"}, {"sctp"}},
	{{"ipv4", "v4"}, {"ipv6", "v6"}},
	{{"internal", "private"}, {"external", "public"}},
	{{"enable", "enabled"}, {"disable", "disabled"}},
	{{"allow", "allowed"}, {"deny", "denied"}},
	{{"min", "minimum"}, {"max", "maximum"}},
	{{"healthy"}, {"unhealthy"}},
	{{"source"}, {"target", "destination"}},
	{{"request"}, {"response"}},
	{{"frontend"}, {"backend"}},
}

// isWord reports whether a word has a meaning here, so that it does not misspell another one.
func isWord(word string) bool {
	has := func(group []string) bool { return slices.Contains(group, word) }
	return slices.ContainsFunc(synonyms, has) ||
		slices.ContainsFunc(opposites, func(group [][]string) bool { return slices.ContainsFunc(group, has) })
}

func synonymous(a, b string) bool {
	return slices.ContainsFunc(synonyms, func(group []string) bool {
		return slices.Contains(group, a) && slices.Contains(group, b)
	})
}

func opposed(a, b string) bool {
	return slices.ContainsFunc(opposites, func(group [][]string) bool {
		of := func(word string) int {
			return slices.IndexFunc(group, func(same []string) bool { return slices.Contains(same, word) })
		}
		first, second := of(a), of(b)
		return first >= 0 && second >= 0 && first != second
	})
}
