package dlb

import (
	"fmt"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/rules/loadbalancer"
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
	case mustRecord(r.record, lb):
		return stepRecord, nil
	case !alike && !same(want, lb):
		return stepReplace, nil
	case lb.ProvisioningState == cloudv1.ProvisioningError:
		return stepRepair, nil
	case lb.ProvisioningState != cloudv1.ProvisioningActive:
		return stepWait, nil
	}
	return stepNone, nil
}

// mustRecord reports whether the original of an adopted load balancer is not recorded, though it is still as it was.
func mustRecord(rec record, lb *cloudv1.LoadBalancer) bool {
	hash, adopted := lb.Tags[ownership.Original]
	if !adopted || rec.Original != "" {
		return false
	}
	_, now, err := original(offered(lb))
	return err == nil && now == hash
}

// offered returns an adopted load balancer without the tags that its adoption has added.
func offered(lb *cloudv1.LoadBalancer) *cloudv1.LoadBalancer {
	was := *lb
	was.Tags = without(lb.Tags, ownership.ClusterUID, ownership.ServiceUID, ownership.Original)
	return &was
}

func without(tags map[string]string, keys ...string) map[string]string {
	rest := map[string]string{}
	for key, value := range tags {
		if !slices.Contains(keys, key) {
			rest[key] = value
		}
	}
	return rest
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
func last(rec record, lb *cloudv1.LoadBalancer, w wishes) (removal, error) {
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

// releasedSpec returns the tree of a load balancer that its Service no longer uses: that which an adopted one had, or
// else the same tree without backends, because the node ports will belong to others.
func releasedSpec(rec record, lb *cloudv1.LoadBalancer) cloudv1.LoadBalancerSpec {
	if hash, adopted := lb.Tags[ownership.Original]; adopted {
		if spec, err := rec.originalSpec(hash); err == nil {
			// What others have changed meanwhile stays: an offer that was withdrawn, protection in an emergency.
			spec.Tags = returnedTags(rec, spec.Tags, lb.Tags)
			spec.DeletionProtection = spec.DeletionProtection || foreignProtection(lb)
			return spec
		}
	}
	spec := cloudv1.LoadBalancerSpec{Name: lb.Name, LoadBalancerFields: lb.LoadBalancerFields}
	spec.Tags = withoutOurs(lb.Tags)
	if _, ours := lb.Tags[ownership.Protected]; ours {
		spec.DeletionProtection = false
	}
	spec.Pools = slices.Clone(lb.Pools)
	for i := range spec.Pools {
		spec.Pools[i].NodeGroupID, spec.Pools[i].Members = "", nil
	}
	return spec
}

// returnedTags returns the tags of an adopted load balancer without ours, and with those that the Service has set as they
// were before.
func returnedTags(rec record, was, now map[string]string) map[string]string {
	tags := withoutOurs(now)
	for _, key := range rec.Applied.Tags {
		delete(tags, key)
		if value, had := was[key]; had {
			tags[key] = value
		}
	}
	return tags
}

func withoutOurs(tags map[string]string) map[string]string {
	return without(tags, ownership.ClusterUID, ownership.ServiceUID, ownership.Protected, ownership.Original)
}

// released reports whether a load balancer without the Service's tags is one that was released: it has none of the
// tags, and it does not send traffic to the cluster's nodes.
func released(rec record, lb *cloudv1.LoadBalancer) bool {
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
