package contact

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

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
