package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

const holderPath = "/v1/clusters/{id}/holder"

// Holder reads which cluster may write in the name of a cluster UID.
func (c *Client) Holder(ctx context.Context, clusterUID string, o ReadOptions) (*cloudv1.ClusterHolder, error) {
	return get[cloudv1.ClusterHolder](ctx, c, holderPath, clusterUID, o)
}

// ClaimHolder records which cluster may write in the name of a cluster UID. Without WriteOptions.IfMatch, it fails if
// there is a record. Options.Withhold does not apply to it.
func (c *Client) ClaimHolder(
	ctx context.Context, clusterUID string, s cloudv1.ClusterHolderSpec, o WriteOptions,
) (*cloudv1.ClusterHolder, error) {
	r := o.request(http.MethodPut, holderPath, clusterUID, s)
	r.claims = true
	return getBy[cloudv1.ClusterHolder](ctx, c, r)
}

// DeleteHolder deletes the record of a cluster UID. It requires WriteOptions.IfMatch.
func (c *Client) DeleteHolder(ctx context.Context, clusterUID string, o WriteOptions) error {
	_, err := write[cloudv1.ClusterHolder](ctx, c, http.MethodDelete, holderPath, clusterUID, nil, o)
	return err
}
