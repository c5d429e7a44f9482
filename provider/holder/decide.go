package holder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// The reasons why a cluster may not write. They are reasons of Events and conditions.
const (
	// ReasonHeldByAnother: another cluster with the same UID may write.
	ReasonHeldByAnother = "ClusterUIDHeldByAnother"
	// ReasonClusterID: the clusterID of the cloud config is not the one that the cluster's objects are named after.
	ReasonClusterID = "ClusterIDChanged"
	// ReasonOtherCloud: the cloud at the endpoint is not the one that the cluster's objects are in.
	ReasonOtherCloud = "CloudChanged"
)

// RefusedError is the error of a write that is not sent because this cluster may not write or, if the cloud is a different
// one, of any call. It persists until an operator decides, and its text is the same on every try.
type RefusedError struct {
	// Reason is one of the reasons above.
	Reason  string
	message string
}

// Error says why the cluster may not write, and what an operator can do.
func (r *RefusedError) Error() string { return r.message }

// Unwrap returns cloudapi.ErrUnidentified if the cloud is a different one.
func (r *RefusedError) Unwrap() error {
	if r.Reason == ReasonOtherCloud {
		return cloudapi.ErrUnidentified
	}
	return nil
}

// step is what to do about the record.
type step int

const (
	// stepNone: the record is as it should be.
	stepNone step = iota
	// stepClaim: there is no record.
	stepClaim
	// stepRenew: the record is this cluster's, but is out of date.
	stepRenew
)

// decide returns what to do about the record of a cluster UID, which is nil if there is none, or why this
// cluster may not write.
func decide(record *cloudv1.ClusterHolder, uid string, own clusterca.Identity, name string) (step, *RefusedError) {
	switch {
	case record == nil:
		return stepClaim, nil
	case !slices.Contains(record.Fingerprints, own.Proven):
		return stepNone, &RefusedError{Reason: ReasonHeldByAnother, message: fmt.Sprintf("a different cluster with the UID %s holds it: %s; this one has the "+
			"fingerprint %s and writes nothing to the cloud; if it is to take over, run: quayctl takeover",
			uid, Describe(record), own.Proven)}
	case record.Name != name:
		return stepNone, renaming(name, fmt.Sprintf("it is %q in the record of the cluster's holder in the cloud", record.Name))
	case !slices.Equal(record.Fingerprints, own.Accepted):
		return stepRenew, nil
	}
	return stepNone, nil
}

// otherCloud returns the refusal of a cloud that is not the one that the cluster knows.
func otherCloud(id, known string) *RefusedError {
	return &RefusedError{Reason: ReasonOtherCloud, message: fmt.Sprintf("the cloud at the endpoint is %s, but this cluster's "+
		"objects are in %s; nothing is read from it or written to it; fix the endpoint in the cloud config, or, if the cloud was "+
		"replaced, run: quayctl takeover", id, known)}
}

// renamed returns the refusal of a clusterID that none of the cluster's load balancers is named after, or nil. It is for
// clusters of the time before there were records.
func renamed(balancers []cloudv1.LoadBalancer, name string) *RefusedError {
	named := func(lb cloudv1.LoadBalancer) bool { return strings.HasPrefix(lb.Name, name+"-") }
	// Of some, the name cannot be decoded.
	balancers = slices.DeleteFunc(slices.Clone(balancers), func(lb cloudv1.LoadBalancer) bool { return lb.Name == "" })
	if len(balancers) == 0 || slices.ContainsFunc(balancers, named) {
		return nil
	}
	return renaming(name, fmt.Sprintf("the cluster's load balancers have other names, such as %q of %s",
		balancers[0].Name, balancers[0].ID))
}

func renaming(name, found string) *RefusedError {
	return &RefusedError{Reason: ReasonClusterID, message: fmt.Sprintf("clusterID of the cloud config is %q, but %s; nothing is "+
		"written to the cloud; correct clusterID, or, if all load balancers are to be renamed, run: quayctl takeover",
		name, found)}
}

// Describe describes a holder to operators.
func Describe(record *cloudv1.ClusterHolder) string {
	text := fmt.Sprintf("cluster %q since %s, with the fingerprint %s", record.Name,
		record.Since.UTC().Format(time.RFC3339), strings.Join(record.Fingerprints, ", "))
	if record.ClaimedBy != "" {
		text += ", claimed by " + record.ClaimedBy
	}
	return text
}
