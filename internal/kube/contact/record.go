// Package contact records whether the cloud answers the leader of the controllers. Others, such as quayctl doctor, read
// the record because the cloud's API may be reachable only from where the controllers run.
//
// A record is only written when it changes. It is valid while the leader that wrote it holds the lease.
package contact

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ConfigMap is the name of the ConfigMap, which is in the namespace of the controllers' lease. It has one entry for each
// lease, with the lease's name as its key. The name must not change.
const ConfigMap = "quaymaster-cloud-contact"

// State says how the cloud reacts to requests of the leader.
type State string

// The states, which are stored: they must not change.
const (
	// Answers is the state of a cloud that answers.
	Answers State = "answers"
	// Silent is the state of a cloud that does not answer, or answers with errors.
	Silent State = "silent"
	// RejectsToken is the state of a cloud that answers, but does not accept the controllers' token.
	RejectsToken State = "rejects-token"
	// Unidentified is the state of a cloud that answers, but is not, or is not known to be, the cluster's. Nothing else is
	// asked of it.
	Unidentified State = "unidentified"
)

// Record is what the leader has recorded about the cloud.
type Record struct {
	// Epoch is the number of transitions of the lease with which the leader began to lead. It is nil if the controllers
	// run without leader election.
	Epoch *int64 `json:"epoch,omitempty"`
	// Endpoint is the address of the cloud's API.
	Endpoint string `json:"endpoint"`
	State    State  `json:"state"`
	// Since is when the leader noticed the state.
	Since time.Time `json:"since"`
	// Message is the last error; empty if the cloud answers.
	Message string `json:"message,omitempty"`
}

// Read returns the record of the leader that holds a lease, or nil if there is none.
func Read(cm *corev1.ConfigMap, lease string) (*Record, error) {
	raw := cm.Data[lease]
	if raw == "" {
		return nil, nil //nolint:nilnil // there is neither a record nor an error
	}
	r := &Record{}
	if err := json.Unmarshal([]byte(raw), r); err != nil {
		return nil, fmt.Errorf("the entry %s of ConfigMap %s is invalid: %w", lease, cm.Name, err)
	}
	return r, nil
}
