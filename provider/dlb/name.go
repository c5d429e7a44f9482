package dlb

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// suffixLength is the number of characters of the hash in the name's suffix.
const suffixLength = 8

// names returns the possible names of a Service's load balancer: the plain one, and the one to use if that is taken.
// They are for human readers: two Services can have the same plain name, since names of namespaces and Services may
// contain dashes.
func names(clusterID, clusterUID string, svc *corev1.Service) (plain, unique string) {
	plain = strings.Join([]string{clusterID, svc.Namespace, svc.Name}, "-")
	hash := sha256.Sum256([]byte(strings.Join([]string{clusterUID, svc.Namespace, svc.Name}, "/")))
	return plain, plain + "-" + hex.EncodeToString(hash[:])[:suffixLength]
}
