package dlb

import (
	"fmt"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/dlb/tree"
	"quaymaster.dev/provider/ownership"
)

// step is the next thing to do for a load balancer.
type step int

const (
	// stepNone: the load balancer is as wanted.
	stepNone step = iota
	// stepWait: the cloud is still working.
	stepWait
	stepCreate
	stepAdopt
	// stepRecord: the original of an adopted load balancer must be recorded before it is changed.
	stepRecord
	stepReplace
	// stepRepair writes the same again, because the cloud failed.
	stepRepair
	// stepDelete deletes a load balancer again, because the cloud failed.
	stepDelete
)

// next decides how a load balancer gets closer to what the Service asks for. lb is nil if there is none; want is the
// tree to write to it. With alike, the load balancer counts as the same as want.
func next(
	r *round, d *loadbalancer.Desired, want cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer, alike bool,
) (step, error) {
	switch {
	case lb == nil && d.AdoptID != "":
		return stepAdopt, nil
	case lb == nil:
		return stepCreate, nil
	case d.AdoptID != "" && lb.ID != d.AdoptID:
		return stepNone, invalid(keyAdoptID, d.AdoptID, fmt.Sprintf(
			"the service already has load balancer %s; remove the annotation or create a new service", lb.ID))
	case lb.ProvisioningState == cloudv1.ProvisioningPendingDelete && lb.Fault != nil && r.record.Deleting:
		return stepDelete, nil
	case lb.ProvisioningState == cloudv1.ProvisioningPendingDelete:
		return stepWait, nil
	case r.record.Lacks(lb):
		return stepRecord, nil
	case !alike && !tree.Same(want, lb):
		return stepReplace, nil
	case lb.ProvisioningState == cloudv1.ProvisioningError:
		return stepRepair, nil
	case lb.ProvisioningState != cloudv1.ProvisioningActive:
		return stepWait, nil
	}
	return stepNone, nil
}

// removal is the next thing to do to end a Service's use of a load balancer.
type removal int

const (
	// removalWait: the cloud is still deleting the load balancer.
	removalWait removal = iota
	removalDelete
	// removalUnprotect switches off the deletion protection that the Service has switched on, and then deletes.
	removalUnprotect
	// removalRelease takes tags and backends away.
	removalRelease
)

// wishes are the annotations of a Service that decide what happens to its load balancer in the end.
type wishes struct{ protected, retain bool }

// last decides how a load balancer gets closer to its end. One that the Service records as adopted is not deleted even if
// it has lost all tags that say so.
func last(rec *record.Record, lb *cloudv1.LoadBalancer, w wishes) (removal, error) {
	adopted := ownership.Adopted(lb.Tags) || rec.Original != ""
	_, ours := lb.Tags[ownership.Protected]
	switch {
	case lb.ProvisioningState == cloudv1.ProvisioningPendingDelete && (lb.Fault == nil || w.protected || w.retain || adopted):
		// A deletion that has failed is not repeated for others, if the Service asks to keep the load balancer.
		return removalWait, nil
	case lb.ProvisioningState == cloudv1.ProvisioningPendingDelete:
		return removalDelete, nil
	case w.protected:
		return removalWait, &refusal{reason: reasonProtected, message: fmt.Sprintf(
			"load balancer %s has deletion protection, so the service is kept; to delete both, set the annotation %s to false",
			lb.ID, loadbalancer.Prefix+keyDeletionProtection)}
	case w.retain || adopted:
		return removalRelease, nil
	case lb.DeletionProtection && !ours:
		return removalWait, &refusal{reason: reasonProtected, message: fmt.Sprintf(
			"load balancer %s has deletion protection that was switched on in the cloud, so the service is kept; switch it off "+
				"there, or set the annotation %s to true to keep the load balancer", lb.ID, loadbalancer.Prefix+keyRetainOnDelete)}
	case lb.DeletionProtection:
		return removalUnprotect, nil
	}
	return removalDelete, nil
}

// released reports whether a load balancer without the Service's tags is one that was released: it has none of the
// tags, and it does not send traffic to the cluster's nodes.
func released(rec *record.Record, lb *cloudv1.LoadBalancer) bool {
	for _, key := range []string{ownership.ClusterUID, ownership.ServiceUID} {
		if _, has := lb.Tags[key]; has {
			return false
		}
	}
	busy := lb.ProvisioningState != cloudv1.ProvisioningActive && lb.ProvisioningState != cloudv1.ProvisioningError
	return !busy && !slices.ContainsFunc(lb.Pools, func(p cloudv1.Pool) bool {
		return p.NodeGroupID != "" && (rec.NodeGroup == "" || p.NodeGroupID == rec.NodeGroup)
	})
}

// Drift says what to do about a load balancer that was changed in the cloud.
type Drift string

// The values of Drift.
const (
	// DriftRepair writes what the Service asks for.
	DriftRepair Drift = "repair"
	// DriftReport reports the differences and writes nothing until the Service changes.
	DriftReport Drift = "report"
	// DriftOff does not compare the load balancer until the Service changes.
	DriftOff Drift = "off"
)

// Drifts returns the values of Drift.
func Drifts() []string { return []string{string(DriftRepair), string(DriftReport), string(DriftOff)} }

// longestList is the number of differences that a condition lists.
const longestList = 20

// tolerates reports whether a load balancer stays as it is although it may differ from want. It notes the differences
// that are to be reported.
func (b *Balancer) tolerates(r *round, want cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer) bool {
	if b.o.Drift == DriftRepair || lb == nil || !r.record.Settled(r.svc) {
		return false
	}
	if b.o.Drift == DriftReport && !tree.Same(want, lb) {
		list := tree.Differences(want, lb)
		if more := len(list) - longestList; more > 0 {
			list = append(list[:longestList], fmt.Sprintf("and %d more", more))
		}
		r.drifted = fmt.Sprintf("load balancer %s differs from what the service asks for, and drift is only reported; "+
			"to overwrite it, change the service: %s", lb.ID, strings.Join(list, "; "))
	}
	return true
}
