package dlb

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/dlb/overview"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/dlb/tree"
	"quaymaster.dev/provider/holder"
)

// The reasons of condition.Configured, which is true if the load balancer is what the Service asks for. Those of package
// overview come in addition.
const (
	// reasonInvalid: the Service's annotations or spec are invalid; the load balancer is kept as last configured.
	reasonInvalid = condition.ReasonInvalid
	// reasonRefused: the cloud rejected what the Service asks for, or failed to provide it.
	reasonRefused = "RefusedByCloud"
	// reasonDrifted: the load balancer was changed in the cloud, which is only reported.
	reasonDrifted = condition.ReasonDrifted
	// reasonPending: the cloud is still working on what the Service asks for.
	reasonPending = condition.ReasonPending
	// reasonProtected: the Service is being deleted, but its load balancer has deletion protection.
	reasonProtected = condition.ReasonProtected
	// reasonMissing: the cloud does not have the load balancer that the Service records.
	reasonMissing = "LoadBalancerMissing"
	// reasonAddressInUse: another Service publishes the address of the load balancer.
	reasonAddressInUse = "AddressInUse"
	// reasonDisowned: the load balancer that the Service records lacks the Service's tags.
	reasonDisowned = "LoadBalancerNotOwned"
	// reasonUnreadable: the load balancer exists, but what the cloud returns cannot be decoded.
	reasonUnreadable = "LoadBalancerUnreadable"
	// reasonNotHolder: another cluster with the same UID may write to the cloud, this one may not.
	reasonNotHolder = holder.ReasonHeldByAnother
	// reasonClusterID: the cluster's objects are named after another clusterID, so nothing is written to the cloud.
	reasonClusterID = holder.ReasonClusterID
	// reasonOtherCloud: the cloud at the endpoint is not the one that the cluster's objects are in.
	reasonOtherCloud = holder.ReasonOtherCloud
)

// The reasons of condition.Degraded, which is true if the load balancer does not serve as it should.
const (
	// reasonOffline: no backend is healthy.
	reasonOffline = "Offline"
	// reasonNoBackends: there is no backend.
	reasonNoBackends = "NoBackends"
	// reasonDegraded: some backends are not healthy, or an edge of the cloud has not applied the last change.
	reasonDegraded = "Degraded"
)

var (
	refusalReasons = []string{
		reasonInvalid, reasonRefused, reasonDrifted, reasonPending, reasonProtected, reasonMissing, reasonDisowned,
		reasonAddressInUse, reasonUnreadable, reasonNotHolder, reasonClusterID, reasonOtherCloud,
	}
	degradedReasons = []string{reasonOffline, reasonNoBackends, reasonDegraded}
)

// portRefused is the error of a port whose listener the cloud rejected or failed to serve.
const portRefused = "quaymaster.dev/RefusedByCloud"

// outcome returns the result of a call.
func (b *Balancer) outcome(r *round, err error) service.State {
	state := service.State{RetryAfter: r.after}
	if text := r.record.Encode(); text != r.svc.Annotations[service.AnnotationRecord] {
		state.Record = text
	}
	if err == nil {
		if state.Published = r.published(); r.withdrawn {
			state.Published = &corev1.LoadBalancerStatus{}
		}
		if r.waiting != "" {
			state.Conditions = r.conditions(metav1.ConditionFalse, reasonPending, r.waiting)
			return state
		}
		if r.drifted != "" {
			before := meta.FindStatusCondition(r.svc.Status.Conditions, condition.Configured)
			if before == nil || before.Reason != reasonDrifted {
				b.o.Recorder.Event(r.svc, corev1.EventTypeWarning, "LoadBalancerDrifted", r.drifted)
			}
			state.Conditions = r.conditions(metav1.ConditionFalse, reasonDrifted, r.drifted)
			return state
		}
		state.Conditions = r.conditions(metav1.ConditionTrue, overview.Configured, configured(r.lb))
		return state
	}
	v := diagnose(err)
	state.RetryAfter, state.Missing = v.after, v.reason == reasonMissing
	var refused *refusal
	if errors.As(err, &refused) && refused.problem != nil {
		state.Published = portFaults(r.svc, refused.problem)
	}
	if v.passing && !r.removing && r.record.Settled(r.svc) {
		// The trouble says nothing about a load balancer that is as wanted.
		return state
	}
	state.Conditions = r.conditions(v.status, v.reason, v.message)
	return state
}

func configured(lb *cloudv1.LoadBalancer) string {
	text := fmt.Sprintf("load balancer %s (%s) is configured as requested", lb.Name, lb.ID)
	if tree.ForeignProtection(lb) {
		text += "; its deletion protection was switched on in the cloud and stays on"
	}
	return text
}

// conditions returns the conditions of a Service. The one about the data plane is left as it is without a load
// balancer.
func (r *round) conditions(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	progressing := metav1.Condition{
		Type: condition.Progressing, Status: metav1.ConditionFalse, Reason: reason,
		Message: "the cloud has no work to do",
	}
	if reason == reasonPending || reason == overview.Failing {
		progressing.Status, progressing.Message = metav1.ConditionTrue, message
	}
	list := []metav1.Condition{
		{Type: condition.Configured, Status: status, Reason: reason, Message: message}, progressing,
	}
	if r.lb != nil {
		list = append(list, degraded(r.lb))
	}
	return list
}

// degraded returns the condition about the data plane.
func degraded(lb *cloudv1.LoadBalancer) metav1.Condition {
	c := metav1.Condition{Type: condition.Degraded, Status: metav1.ConditionTrue}
	switch lb.OperatingState {
	case cloudv1.OperatingOffline:
		c.Reason, c.Message = reasonOffline, "no backend of the load balancer is healthy"
	case cloudv1.OperatingDegraded:
		c.Reason, c.Message = reasonDegraded,
			"some backends of the load balancer are not healthy, or an edge of the cloud has not applied its last change"
	case cloudv1.OperatingNoMembers:
		c.Reason, c.Message = reasonNoBackends, "the load balancer has no backends"
	case cloudv1.OperatingOnline:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Online", "the load balancer serves"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "Unknown", "the cloud has no information on whether it serves"
	}
	return c
}

// published returns what the Service publishes of its load balancer: an address of every family, or the hostname. It is
// nil if an address is not assigned or not served yet.
func (r *round) published() *corev1.LoadBalancerStatus {
	d, lb := r.desired, r.lb
	if d == nil || lb == nil || lb.ProvisioningState == cloudv1.ProvisioningPendingCreate ||
		lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
		return nil
	}
	if d.Hostname != "" {
		return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: d.Hostname}}}
	}
	mode := corev1.LoadBalancerIPModeVIP
	if d.IPMode == "proxy" {
		mode = corev1.LoadBalancerIPModeProxy
	}
	published := &corev1.LoadBalancerStatus{}
	for _, family := range d.Families {
		at := slices.IndexFunc(lb.VIPs, func(vip cloudv1.VIP) bool { return vip.Family == family && vip.Address != "" })
		if at < 0 {
			return nil
		}
		published.Ingress = append(published.Ingress, corev1.LoadBalancerIngress{IP: lb.VIPs[at].Address, IPMode: &mode})
	}
	return published
}

// portFaults returns what the Service publishes, with the ports whose listeners are at fault; nil if no listener is.
// Listeners are in the order of the ports.
func portFaults(svc *corev1.Service, p *cloudv1.Problem) *corev1.LoadBalancerStatus {
	faulty := map[int]bool{}
	for _, f := range p.Errors {
		rest, listener := strings.CutPrefix(f.Pointer, "/listeners/")
		number, _, _ := strings.Cut(rest, "/")
		if at, err := strconv.Atoi(number); listener && err == nil {
			faulty[at] = true
		}
	}
	if len(faulty) == 0 || len(svc.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	published := svc.Status.LoadBalancer.DeepCopy()
	for i := range published.Ingress {
		published.Ingress[i].Ports = nil
		for at, port := range svc.Spec.Ports {
			status := corev1.PortStatus{Port: port.Port, Protocol: port.Protocol}
			if faulty[at] {
				refused := portRefused
				status.Error = &refused
			}
			published.Ingress[i].Ports = append(published.Ingress[i].Ports, status)
		}
	}
	return published
}

// note brings the record up to date with a load balancer that was found or written. want is the tree that the Service
// asks for, d its desired state.
func (r *round) note(want cloudv1.LoadBalancerSpec, d *loadbalancer.Desired, lb *cloudv1.LoadBalancer) {
	if r.record.ID != lb.ID {
		r.record = &record.Record{ID: lb.ID, Owner: string(r.svc.UID), Original: r.record.Original}
	}
	// A deletion that was asked for goes on, even if the Service is a load balancer again.
	r.record.Deleting = r.record.Deleting && lb.ProvisioningState == cloudv1.ProvisioningPendingDelete
	r.record.NodeGroup, r.record.Addresses = "", lb.Addresses()
	if len(want.Pools) > 0 {
		r.record.NodeGroup = want.Pools[0].NodeGroupID
	}
	if tree.Same(want, lb) {
		r.record.Applied = tree.AppliedOf(d)
		if lb.ProvisioningState == cloudv1.ProvisioningActive {
			r.record.Configured(r.svc)
		}
	}
}
