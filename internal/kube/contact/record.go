// Package contact records whether the cloud answers the leader of the controllers. Others, such as quayctl doctor, read
// the record because the cloud's API may be reachable only from where the controllers run.
//
// A record is only written when it changes. It is valid while the leader that wrote it holds the lease.
package contact

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
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

// IdentityConfigMap is the name of the ConfigMap in which a cluster remembers its cloud, in the namespace of the
// controllers' lease. It must not change.
const IdentityConfigMap = "quaymaster-cloud"

// keyID is the key of the cloud's id. It must not change.
const keyID = "id"

// Memory is where a cluster remembers which cloud is its own.
type Memory struct {
	Client    kubernetes.Interface
	Namespace string
}

// CloudID returns the id of the cluster's cloud, which is empty at first.
func (m Memory) CloudID(ctx context.Context) (string, error) {
	cm, err := m.Client.CoreV1().ConfigMaps(m.Namespace).Get(ctx, IdentityConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", m.failed("read", err)
	}
	return cm.Data[keyID], nil
}

// Remember stores the id of the cluster's cloud.
func (m Memory) Remember(ctx context.Context, cloudID string) error {
	entry := applycorev1.ConfigMap(IdentityConfigMap, m.Namespace).
		WithLabels(map[string]string{"app.kubernetes.io/managed-by": "quaymaster-controllers"}).
		WithData(map[string]string{keyID: cloudID})
	// Unlike a creation, it can be permitted for this name alone.
	_, err := m.Client.CoreV1().ConfigMaps(m.Namespace).
		Apply(ctx, entry, metav1.ApplyOptions{FieldManager: "quaymaster-cloud", Force: true})
	if err != nil {
		return m.failed("write", err)
	}
	return nil
}

func (m Memory) failed(verb string, err error) error {
	err = fmt.Errorf("%s ConfigMap %s/%s: %w", verb, m.Namespace, IdentityConfigMap, err)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w; grant get, create and patch of this ConfigMap, as the chart does for the controllers", err)
	}
	return err
}
