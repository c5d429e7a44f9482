package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Meta reads what the cloud offers. It is also the cheapest way to check the token.
func (c *Client) Meta(ctx context.Context) (*cloudv1.Meta, error) {
	var m cloudv1.Meta
	if _, err := c.do(ctx, &request{method: http.MethodGet, path: "/v1/meta"}, &m); err != nil {
		return nil, err
	}
	return &m, nil
}
