package v1

import "time"

// ClusterHolder is the record of the one cluster that may write in the name of a cluster UID. Clusters that were
// restored from the same backup have the same UID; what distinguishes them is the certificate authority of their API
// servers. ID is the cluster UID, Name the name by which the cluster's objects are known.
type ClusterHolder struct {
	Object
	Fingerprints []string  `json:"fingerprints" nullable:"false" doc:"What identifies the holder. Fenced writes must name one of them."`
	ClaimedBy    string    `json:"claimed_by,omitempty" doc:"Who wrote the record, for human readers."`
	Epoch        uint64    `json:"epoch" readOnly:"true" doc:"The highest epoch seen of the holder's leaders."`
	Since        time.Time `json:"since" readOnly:"true" doc:"When the holder became the holder."`
}

// ClusterHolderSpec is the body of a request to claim a cluster UID or to hand it over.
type ClusterHolderSpec struct {
	Name         string   `json:"name" maxLength:"255"`
	Fingerprints []string `json:"fingerprints" nullable:"false" minItems:"1" maxItems:"16" doc:"Letters, digits and :._/[]- only, at most 128 each."`
	ClaimedBy    string   `json:"claimed_by,omitempty" maxLength:"255"`
}
