package api

import (
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/store"
)

// QuotaKinds returns the kinds of objects whose number can be limited.
func QuotaKinds() []string {
	return []string{cloudv1.KindInstance, cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup, cloudv1.KindRoute}
}

// quota returns an error if the cloud has as many objects of a kind as it may have. Those that are gone do not count.
func quota[T any](a *API, tx *store.Tx, k store.Kind[T], gone func(*T) bool) error {
	limit, limited := a.Quotas[k.Name]
	if !limited {
		return nil
	}
	n := k.Count(tx)
	if gone != nil {
		err := k.Each(tx, func(v *T) error {
			if gone(v) {
				n--
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if n < limit {
		return nil
	}
	return failure.New(http.StatusForbidden, cloudv1.CodeQuotaExceeded, "the quota allows %d objects of kind %s", limit, k.Name)
}
