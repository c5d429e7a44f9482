package etcd

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// newClient returns a client, which connects when it is used.
func newClient(config clientv3.Config) (*clientv3.Client, error) {
	// etcd accepts a ping every five seconds.
	config.DialKeepAliveTime, config.DialKeepAliveTimeout = 6*time.Second, 3*time.Second
	// What fails is returned, and logged where it matters.
	config.Logger = zap.NewNop()
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd %v: %w", config.Endpoints, err)
	}
	return client, nil
}

// permanent reports whether a request fails however often it is sent.
func permanent(err error) bool {
	for _, e := range []error{
		rpctypes.ErrCompacted, rpctypes.ErrFutureRev, rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed,
		rpctypes.ErrUserEmpty, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps, rpctypes.ErrNoSpace, rpctypes.ErrDuplicateKey,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
