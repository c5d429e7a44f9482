package leadership

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	// unknownEpoch is the epoch of a lease that was not read.
	unknownEpoch = -1
	// maxLease bounds how much of a response is read: a lease has less than a kilobyte.
	maxLease = 1 << 20
)

// observed is what a successful write of the lease reveals.
type observed struct {
	// epoch is the lease's number of transitions: the leader election increases it with every new leader.
	epoch int64
	// released is true if the lease was given up.
	released bool
}

// observe reads the lease in a response, in JSON or in protobuf, and leaves the body for the caller.
func observe(response *http.Response) (observed, error) {
	data, err := io.ReadAll(io.LimitReader(response.Body, maxLease))
	if err != nil {
		return observed{}, fmt.Errorf("read the response about the lease: %w", err)
	}
	if err := response.Body.Close(); err != nil {
		return observed{}, fmt.Errorf("read the response about the lease: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	lease, ok := object.(*coordinationv1.Lease)
	if err != nil || !ok {
		// The leader election decides what to do about it. Without an epoch, writes are not fenced.
		return observed{epoch: unknownEpoch}, nil //nolint:nilerr // see above
	}
	o := observed{released: lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""}
	if lease.Spec.LeaseTransitions != nil {
		o.epoch = int64(*lease.Spec.LeaseTransitions)
	}
	return o, nil
}
