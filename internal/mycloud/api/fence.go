package api

import (
	"net/http"
	"strconv"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// fence identifies the leader that sends a write. The zero fence is that of a write without the header.
type fence struct {
	cluster string
	epoch   uint64
}

// fence parses the header.
func (p WriteParams) fence() (fence, error) {
	if p.Fence == "" {
		return fence{}, nil
	}
	cluster, param, _ := strings.Cut(p.Fence, ";")
	cluster = strings.TrimSpace(cluster)
	epoch, named := strings.CutPrefix(strings.TrimSpace(param), "epoch=")
	n, err := strconv.ParseUint(epoch, 10, 64)
	if cluster == "" || len(cluster) > 255 || !named || err != nil {
		return fence{}, fail(http.StatusBadRequest, cloudv1.CodeInvalid,
			"header %s must be <cluster-uid>;epoch=<n>, not %q", cloudv1.HeaderFence, p.Fence)
	}
	return fence{cluster, n}, nil
}

// check returns an error if the cloud has seen a later leader.
func (f fence) check(tx *store.Tx) error {
	if seen := f.seen(tx); f.epoch < seen {
		return fail(http.StatusPreconditionFailed, cloudv1.CodeFenced,
			"cluster %s has a leader with epoch %d, which is later than %d", f.cluster, seen, f.epoch)
	}
	return nil
}

// seen returns the highest epoch of the cluster.
func (f fence) seen(tx *store.Tx) uint64 {
	if f.cluster == "" {
		return 0
	}
	// Only numbers are stored; without an entry, the epoch is 0.
	n, _ := strconv.ParseUint(store.Fences.Get(tx, f.cluster), 10, 64)
	return n
}

// raiseFence stores a new epoch, in a transaction of its own because it counts even if the write fails.
func (a *API) raiseFence(f fence) error {
	higher := false
	err := a.Store.View(func(tx *store.Tx) error {
		higher = f.epoch > f.seen(tx)
		return nil
	})
	if err != nil || f.cluster == "" || !higher {
		return err
	}
	return a.Store.Update(func(tx *store.Tx) error {
		if f.epoch <= f.seen(tx) {
			return nil
		}
		return store.Fences.Set(tx, f.cluster, strconv.FormatUint(f.epoch, 10))
	})
}
