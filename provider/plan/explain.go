package plan

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/dlb/tree"
)

// explain says why a load balancer is written for a Service. owned is true if the Service asks for one of ours.
func (p *planner) explain(svc *corev1.Service, owned bool, w cloudapi.PlannedWrite) (string, []string) {
	id := w.Path[strings.LastIndex(w.Path, "/")+1:]
	ending, cause := svc.DeletionTimestamp != nil || !owned, ending(svc)
	switch {
	case w.Method == http.MethodDelete, w.Method == http.MethodPatch:
		return cause, nil
	case w.Method == http.MethodPost && strings.HasSuffix(id, ":adopt"):
		return fmt.Sprintf("the service adopts load balancer %s", strings.TrimSuffix(id, ":adopt")), nil
	case w.Method == http.MethodPost:
		return "the service has no load balancer", nil
	}
	lb := p.mirror.LoadBalancers.Get(id)
	var want cloudv1.LoadBalancerSpec
	if lb == nil || json.Unmarshal(w.Body, &want) != nil {
		return "the load balancer differs from what the service asks for", nil
	}
	differences := tree.Differences(want, lb)
	switch {
	case ending:
		return cause + ", and the load balancer is kept", differences
	case len(differences) == 0:
		return "the cloud failed to provide the load balancer, and is to try again", nil
	case record.Of(svc).Settled(svc):
		return "the load balancer differs, although the service has not changed: it was changed in the cloud, or policies " +
			"or the controllers' configuration changed", differences
	}
	return "the service asks for something else", differences
}

// ending says why a Service no longer needs a load balancer of ours.
func ending(svc *corev1.Service) string {
	switch {
	case svc.DeletionTimestamp != nil:
		return "the service is being deleted"
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return "the service is no longer of type LoadBalancer"
	}
	return "the service asks another controller for a load balancer"
}

// explainGroup says why a node group is written.
func (p *planner) explainGroup(w cloudapi.PlannedWrite) (string, []string) {
	if w.Method == http.MethodPost {
		return "services refer to the group, which does not exist yet", nil
	}
	var patch cloudv1.MembersPatch
	if json.Unmarshal(w.Body, &patch) != nil {
		return "the group differs from the nodes", nil
	}
	var differences []string
	for _, m := range patch.Upsert {
		differences = append(differences, fmt.Sprintf("members[%s]: %s %s", m.Key, m.State, addresses(m)))
	}
	for _, id := range patch.Remove {
		differences = append(differences, fmt.Sprintf("members[%s]: removed", id))
	}
	return "the members of the group differ from the nodes", differences
}

func addresses(m cloudv1.GroupMember) string {
	var list []string
	for _, a := range m.Addresses {
		list = append(list, a.Address)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// explainRoutes says why a route table is written.
func explainRoutes(w cloudapi.PlannedWrite) (string, []string) {
	var batch cloudv1.RoutesBatch
	if json.Unmarshal(w.Body, &batch) != nil {
		return "the routes differ from the nodes", nil
	}
	var differences []string
	for _, r := range batch.Upsert {
		differences = append(differences, fmt.Sprintf("routes[%s]: to %s", r.Destination, r.NextHop.InstanceID))
	}
	for _, r := range batch.Remove {
		differences = append(differences, fmt.Sprintf("routes[%s]: removed", r.Destination))
	}
	return "the routes differ from the nodes", differences
}
