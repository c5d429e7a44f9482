// Package fence decides whose writes count: those of the cluster that holds a cluster UID, and of its latest leader.
package fence

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Fence identifies the leader that sends a write. The zero Fence is that of a write without the header.
type Fence struct {
	cluster string
	// epoch is nil if the sender leads without a lease.
	epoch *uint64
	// holder is the fingerprint of the sender's cluster, or empty.
	holder string
}

// Parse parses the header of a write.
func Parse(header string) (Fence, error) {
	if header == "" {
		return Fence{}, nil
	}
	invalid := failure.New(http.StatusBadRequest, cloudv1.CodeInvalid,
		"header %s must be <cluster-uid>;epoch=<n>;holder=<fingerprint>, where one of epoch and holder may be missing, not %q",
		cloudv1.HeaderFence, header)
	parts := strings.Split(header, ";")
	f := Fence{cluster: strings.TrimSpace(parts[0])}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "epoch":
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return Fence{}, invalid
			}
			f.epoch = &n
		case "holder":
			if FingerprintProblem(value) != "" {
				return Fence{}, invalid
			}
			f.holder = value
		default:
			return Fence{}, invalid
		}
	}
	if f.cluster == "" || len(f.cluster) > 255 || f.epoch == nil && f.holder == "" {
		return Fence{}, invalid
	}
	return f, nil
}

// Check returns an error if another cluster holds the cluster UID, or if the cloud has seen a later leader.
func (f Fence) Check(tx *store.Tx) error {
	if f.cluster == "" {
		return nil
	}
	record, err := Holder(tx, f.cluster)
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
func (f Fence) seen(tx *store.Tx, record *cloudv1.ClusterHolder) uint64 {
	if record != nil {
		return record.Epoch
	}
	return Epoch(tx, f.cluster)
}

// Epoch returns the highest epoch of a cluster that has no record.
func Epoch(tx *store.Tx, cluster string) uint64 {
	// Only numbers are stored; without an entry, the epoch is 0.
	n, _ := strconv.ParseUint(store.Fences.Get(tx, cluster), 10, 64)
	return n
}

// Holder returns the record of a cluster UID, or nil if there is none.
func Holder(tx *store.Tx, cluster string) (*cloudv1.ClusterHolder, error) {
	record, err := store.Holders.Get(tx, cluster)
	if _, none := errors.AsType[*store.NotFoundError](err); none {
		return nil, nil
	}
	return record, err
}

// Raise stores a new epoch, in a transaction of its own because it counts even if the write fails. The epochs of a
// cluster that does not hold its UID do not count.
func (f Fence) Raise(s store.Store) error {
	if f.cluster == "" {
		return nil
	}
	higher := false
	err := s.View(func(tx *store.Tx) error {
		record, err := Holder(tx, f.cluster)
		higher = f.epoch != nil && *f.epoch > f.seen(tx, record)
		return errors.Join(err, f.Check(tx))
	})
	if err != nil || !higher {
		return err
	}
	return s.Update(func(tx *store.Tx) error {
		if err := f.Check(tx); err != nil {
			return err
		}
		record, err := Holder(tx, f.cluster)
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

// fingerprint matches the fingerprints of clusters.
var fingerprint = regexp.MustCompile(`^[A-Za-z0-9:._/\[\]-]{1,128}$`)

// FingerprintProblem returns why a value is not the fingerprint of a cluster; empty if it is one.
func FingerprintProblem(value string) string {
	if fingerprint.MatchString(value) {
		return ""
	}
	return "must be 1 to 128 letters, digits or :._/[]-"
}
