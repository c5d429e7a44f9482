package holder

import (
	"fmt"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/clusterca"
)

// Refusal is the error of a write that is not sent because this cluster may not write. It persists until an operator
// decides, and its text is the same on every try.
type Refusal struct{ message string }

// Error says why the cluster may not write, and what an operator can do.
func (r *Refusal) Error() string { return r.message }

// step is what to do about the record.
type step int

const (
	// stepNone: the record is as it should be.
	stepNone step = iota
	// stepClaim: there is no record.
	stepClaim
	// stepRenew: the record is this cluster's, but is out of date.
	stepRenew
	// stepRefuse: this cluster may not write.
	stepRefuse
)

// decide returns what to do about the record of a cluster UID, which is nil if there is none.
func decide(record *cloudv1.ClusterHolder, uid string, own clusterca.Identity, name string) (step, *Refusal) {
	switch {
	case record == nil:
		return stepClaim, nil
	case !slices.Contains(record.Fingerprints, own.Proven):
		return stepRefuse, &Refusal{message: fmt.Sprintf("another cluster with the UID %s holds it: %s; this one has the "+
			"fingerprint %s and writes nothing to the cloud; if it is to take over, run: quayctl takeover",
			uid, Describe(record), own.Proven)}
	case record.Name != name, !slices.Equal(record.Fingerprints, own.Accepted):
		return stepRenew, nil
	}
	return stepNone, nil
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
