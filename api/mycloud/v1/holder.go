package v1

import "time"

// ClusterHolder is the record of the one cluster that may write in the name of a cluster UID. Clusters that were
// restored from the same backup have the same UID; what distinguishes them is the certificate authority of their API
// servers. Its id is the cluster UID, its name the name by which the cluster's objects are known.
type ClusterHolder struct {
	Object
	// What identifies the holder. Fenced writes must name one of them.
	Fingerprints []string `json:"fingerprints" nullable:"false"`
	// Who wrote the record, for human readers.
	ClaimedBy string `json:"claimed_by,omitempty"`
	// The highest epoch seen of the holder's leaders.
	Epoch uint64 `json:"epoch" readOnly:"true"`
	// When the holder became the holder.
	Since time.Time `json:"since" readOnly:"true"`
}

// ClusterHolderSpec is the body of a request to claim a cluster UID or to hand it over.
type ClusterHolderSpec struct {
	// The name by which the cluster's objects are known.
	Name string `json:"name" maxLength:"255"`
	// What identifies the cluster. Letters, digits and :._/[]- only, at most 128 each.
	Fingerprints []string `json:"fingerprints" nullable:"false" minItems:"1" maxItems:"16"`
	// Who writes the record, for human readers.
	ClaimedBy string `json:"claimed_by,omitempty" maxLength:"255"`
}
