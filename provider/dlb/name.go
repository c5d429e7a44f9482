package dlb

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// suffixLength is how much of the hash a name gets when the plain one is taken.
const suffixLength = 8

// names are what a Service's load balancer may be called: the plain one, and the one to use where that is taken. They
// are for people: two Services can have the same plain name, since namespaces and Services may hold dashes.
func names(clusterID, clusterUID string, svc *corev1.Service) (plain, unique string) {
	plain = strings.Join([]string{clusterID, svc.Namespace, svc.Name}, "-")
	hash := sha256.Sum256([]byte(strings.Join([]string{clusterUID, svc.Namespace, svc.Name}, "/")))
	return plain, plain + "-" + hex.EncodeToString(hash[:])[:suffixLength]
}
