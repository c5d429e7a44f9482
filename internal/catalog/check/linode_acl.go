package check

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
)

// linodeAddresses is one list of a firewall, by family.
type linodeAddresses struct {
	IPv4 []string `json:"ipv4"`
	IPv6 []string `json:"ipv6"`
}

func linodeACL(s Subject) string {
	var acl struct {
		AllowList *linodeAddresses `json:"allowList"`
		DenyList  *linodeAddresses `json:"denyList"`
	}
	if json.Unmarshal([]byte(s.Value.Text), &acl) != nil {
		return "contain objects with ipv4 and ipv6, which are lists of strings"
	}
	if (acl.AllowList == nil) == (acl.DenyList == nil) {
		return "contain either allowList or denyList"
	}
	list := acl.AllowList
	if list == nil {
		list = acl.DenyList
	}
	if problem := linodeFamily(list.IPv4, corev1.IPv4Protocol); problem != "" {
		return problem
	}
	return linodeFamily(list.IPv6, corev1.IPv6Protocol)
}

func linodeFamily(list []string, want corev1.IPFamily) string {
	for _, one := range list {
		family, ok := familyOf(one)
		if _, err := netip.ParsePrefix(one); !ok || family != want || err != nil && strings.Contains(one, "/") {
			return fmt.Sprintf("contain only %[1]s addresses and CIDRs in its %[1]s list, not %[2]s", want, annotation.Quote(one))
		}
	}
	return ""
}
