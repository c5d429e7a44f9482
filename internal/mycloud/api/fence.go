package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/store"
)

// fence identifies the leader that sends a write. The zero fence is that of a write without the header.
type fence struct {
	cluster string
	// epoch is nil if the sender leads without a lease.
	epoch *uint64
	// holder is the fingerprint of the sender's cluster, or empty.
	holder string
}

// fence parses the header.
func (p WriteParams) fence() (fence, error) {
	if p.Fence == "" {
		return fence{}, nil
	}
	invalid := failure.New(http.StatusBadRequest, cloudv1.CodeInvalid,
		"header %s must be <cluster-uid>;epoch=<n>;holder=<fingerprint>, where one of epoch and holder may be missing, not %q",
		cloudv1.HeaderFence, p.Fence)
	parts := strings.Split(p.Fence, ";")
	f := fence{cluster: strings.TrimSpace(parts[0])}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "epoch":
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return fence{}, invalid
			}
			f.epoch = &n
		case "holder":
			if !isFingerprint(value) {
				return fence{}, invalid
			}
			f.holder = value
		default:
			return fence{}, invalid
		}
	}
	if f.cluster == "" || len(f.cluster) > 255 || f.epoch == nil && f.holder == "" {
		return fence{}, invalid
	}
	return f, nil
}

// check returns an error if another cluster holds the cluster UID, or if the cloud has seen a later leader.
func (f fence) check(tx *store.Tx) error {
	if f.cluster == "" {
		return nil
	}
	record, err := holderOf(tx, f.cluster)
	if err != nil {
		return err
	}
	if record != nil && !slices.Contains(record.Fingerprints, f.holder) {
		return failure.New(http.StatusPreconditionFailed, cloudv1.CodeNotHolder,
			"cluster UID %s is held by cluster %q (%s) since %s, not by %q", f.cluster, record.Name,
			strings.Join(record.Fingerprints, ", "), record.Since.UTC().Format(time.RFC3339), f.holder).
			On(store.Holders.Name, f.cluster)
	}
	if seen := f.seen(tx, record); f.epoch != nil && *f.epoch < seen {
		return failure.New(http.StatusPreconditionFailed, cloudv1.CodeFenced,
			"cluster %s has a leader with epoch %d, which is later than %d", f.cluster, seen, *f.epoch)
	}
	return nil
}

// seen returns the highest epoch of the holder or, without a record, of the cluster.
func (f fence) seen(tx *store.Tx, record *cloudv1.ClusterHolder) uint64 {
	if record != nil {
		return record.Epoch
	}
	// Only numbers are stored; without an entry, the epoch is 0.
	n, _ := strconv.ParseUint(store.Fences.Get(tx, f.cluster), 10, 64)
	return n
}

// holderOf returns the record of a cluster UID, or nil if there is none.
func holderOf(tx *store.Tx, cluster string) (*cloudv1.ClusterHolder, error) {
	record, err := store.Holders.Get(tx, cluster)
	if _, none := errors.AsType[*store.NotFoundError](err); none {
		return nil, nil
	}
	return record, err
}

// raiseFence stores a new epoch, in a transaction of its own because it counts even if the write fails. The epochs of a
// cluster that does not hold its UID do not count.
func (a *API) raiseFence(f fence) error {
	if f.cluster == "" {
		return nil
	}
	higher := false
	err := a.Store.View(func(tx *store.Tx) error {
		record, err := holderOf(tx, f.cluster)
		higher = f.epoch != nil && *f.epoch > f.seen(tx, record)
		return errors.Join(err, f.check(tx))
	})
	if err != nil || !higher {
		return err
	}
	return a.Store.Update(func(tx *store.Tx) error {
		if err := f.check(tx); err != nil {
			return err
		}
		record, err := holderOf(tx, f.cluster)
		if err != nil {
			return err
		}
		if record == nil {
			return store.Fences.Set(tx, f.cluster, strconv.FormatUint(*f.epoch, 10))
		}
		record.Epoch = *f.epoch
		_, err = store.Holders.Put(tx, record)
		return err
	})
}
