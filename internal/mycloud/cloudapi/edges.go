package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Edge reads an edge.
func (c *Client) Edge(ctx context.Context, id string, o ReadOptions) (*cloudv1.Edge, error) {
	return get[cloudv1.Edge](ctx, c, "/v1/edges/{id}", id, o)
}

// ListEdges reads all pages of the edges that o selects.
func (c *Client) ListEdges(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Edge], error) {
	return list[cloudv1.Edge](ctx, c, &request{path: "/v1/edges"}, o)
}

// RegisterEdge creates the edge with a name, or updates it. It requires the token of edges.
func (c *Client) RegisterEdge(ctx context.Context, s cloudv1.EdgeSpec, o WriteOptions) (*cloudv1.Edge, error) {
	return write[cloudv1.Edge](ctx, c, http.MethodPost, "/v1/edges", "", s, o)
}

// PatchEdge begins or ends the drain of an edge.
func (c *Client) PatchEdge(
	ctx context.Context, id string, p cloudv1.EdgePatch, o WriteOptions,
) (*cloudv1.Edge, error) {
	return write[cloudv1.Edge](ctx, c, http.MethodPatch, "/v1/edges/{id}", id, p, o)
}

// DeleteEdge deletes an edge. One that is still there registers again.
func (c *Client) DeleteEdge(ctx context.Context, id string, o WriteOptions) error {
	_, err := write[cloudv1.Edge](ctx, c, http.MethodDelete, "/v1/edges/{id}", id, nil, o)
	return err
}

// Heartbeat reports what an edge does. It requires the token of edges. The pace of requests does not apply to it: the
// edge would count as offline because of other requests.
func (c *Client) Heartbeat(ctx context.Context, id string, h cloudv1.Heartbeat) (*cloudv1.HeartbeatReply, error) {
	r := &request{
		method: http.MethodPost, path: "/v1/edges/{id}:heartbeat", id: id, body: h, asks: true, unpaced: true,
	}
	return readValid(ctx, c, r, "the interval is missing", func(reply *cloudv1.HeartbeatReply) bool {
		return reply.IntervalMS > 0
	})
}

// Certificate reads a certificate without its chain and key.
func (c *Client) Certificate(ctx context.Context, id string, o ReadOptions) (*cloudv1.Certificate, error) {
	return get[cloudv1.Certificate](ctx, c, "/v1/certificates/{id}", id, o)
}

// ListCertificates reads all pages of the certificates that o selects.
func (c *Client) ListCertificates(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Certificate], error) {
	return list[cloudv1.Certificate](ctx, c, &request{path: "/v1/certificates"}, o)
}

// CreateCertificate creates a certificate.
func (c *Client) CreateCertificate(
	ctx context.Context, s cloudv1.CertificateSpec, o WriteOptions,
) (*cloudv1.Certificate, error) {
	return write[cloudv1.Certificate](ctx, c, http.MethodPost, "/v1/certificates", "", s, o)
}

// UpdateCertificate replaces a certificate. Listeners that name it use the new one.
func (c *Client) UpdateCertificate(
	ctx context.Context, id string, s cloudv1.CertificateSpec, o WriteOptions,
) (*cloudv1.Certificate, error) {
	return write[cloudv1.Certificate](ctx, c, http.MethodPut, "/v1/certificates/{id}", id, s, o)
}

// DeleteCertificate deletes a certificate that no listener names.
func (c *Client) DeleteCertificate(ctx context.Context, id string, o WriteOptions) error {
	_, err := write[cloudv1.Certificate](ctx, c, http.MethodDelete, "/v1/certificates/{id}", id, nil, o)
	return err
}

// KeyPair reads the chain and the key of a certificate. It requires the token of edges.
func (c *Client) KeyPair(ctx context.Context, id string) (*cloudv1.KeyPair, error) {
	r := &request{method: http.MethodGet, path: "/v1/certificates/{id}/key-pair", id: id}
	return readValid(ctx, c, r, "chain or key is missing", func(p *cloudv1.KeyPair) bool {
		return p.Chain != "" && p.Key != ""
	})
}
