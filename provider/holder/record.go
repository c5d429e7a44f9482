package holder

import (
	"context"
	"fmt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
)

// Read reads the record of a cluster UID, which is nil if there is none.
func Read(ctx context.Context, records Records, uid string) (*cloudv1.ClusterHolder, error) {
	held, err := records.Holder(ctx, uid, cloudapi.ReadOptions{})
	if cloudapi.IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the holder of cluster UID %s: %w", uid, err)
	}
	return held, nil
}

// Claim writes the record of a cluster UID in place of the one that was read, which may be nil. It fails if there is
// another one by now.
func Claim(
	ctx context.Context, records Records, was *cloudv1.ClusterHolder, uid string, s cloudv1.ClusterHolderSpec,
) error {
	var o cloudapi.WriteOptions
	if was != nil {
		o.IfMatch = was.Revision
	}
	if _, err := records.ClaimHolder(ctx, uid, s, o); err != nil {
		return fmt.Errorf("claim cluster UID %s: %w", uid, err)
	}
	return nil
}
