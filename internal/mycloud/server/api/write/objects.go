package write

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Quota returns an error if the cloud has as many objects of a kind as it may have. Those that are gone do not count.
func Quota[T any](w *Writer, tx *store.Tx, k store.Kind[T], gone func(*T) bool) error {
	limit, limited := w.quotas[k.Name]
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

// NameFree checks that no object of a kind whose names are unique has the name.
func NameFree[T any](tx *store.Tx, k store.Kind[T], name string) error {
	for _, id := range k.Find(tx, store.NameTerm(name)) {
		return failure.New(http.StatusConflict, cloudv1.CodeNameTaken, "name %q is taken by %s %s",
			name, strings.ReplaceAll(k.Name, "-", " "), id).On(k.Name, id)
	}
	return nil
}

// Create stores a new object and responds with 201. The response of a dry run has no id.
func Create[T any](tx *store.Tx, dryRun bool, prefix string, k store.Kind[T], v *T) (*operation.Answer[T], error) {
	k.Object(v).ID = NewID(prefix)
	if _, err := k.Put(tx, v); err != nil {
		return nil, err
	}
	if dryRun {
		k.Object(v).ID = ""
	}
	return Done(http.StatusCreated, k, v), nil
}

// NewID returns a new id with a prefix.
func NewID(prefix string) string {
	var b [8]byte
	// The standard library guarantees that this never fails.
	_, _ = rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}
