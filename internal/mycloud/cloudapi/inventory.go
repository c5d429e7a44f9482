package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Edge reads an edge.
func (c *Client) Edge(ctx context.Context, id string) (*cloudv1.Edge, error) {
	return get[cloudv1.Edge](ctx, c, "/v1/edges/{id}", id)
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

// ListTokens reads all pages of the tokens that o selects. It requires the role admin, as everything about tokens.
func (c *Client) ListTokens(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Token], error) {
	return list[cloudv1.Token](ctx, c, &request{path: "/v1/tokens"}, o)
}

// Token reads a token without its secret.
func (c *Client) Token(ctx context.Context, id string) (*cloudv1.Token, error) {
	return get[cloudv1.Token](ctx, c, "/v1/tokens/{id}", id)
}

// CreateToken creates a token. Nothing but its result has the secret.
func (c *Client) CreateToken(ctx context.Context, s cloudv1.TokenSpec, o WriteOptions) (*cloudv1.NewToken, error) {
	return write[cloudv1.NewToken](ctx, c, http.MethodPost, "/v1/tokens", "", s, o)
}

// DeleteToken revokes a token.
func (c *Client) DeleteToken(ctx context.Context, id string, o WriteOptions) error {
	_, err := write[cloudv1.Token](ctx, c, http.MethodDelete, "/v1/tokens/{id}", id, nil, o)
	return err
}

// Certificate reads a certificate without its chain and key.
func (c *Client) Certificate(ctx context.Context, id string) (*cloudv1.Certificate, error) {
	return get[cloudv1.Certificate](ctx, c, "/v1/certificates/{id}", id)
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

// Zones reads the zones of every region.
func (c *Client) Zones(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Zone], error) {
	return list[cloudv1.Zone](ctx, c, &request{path: "/v1/zones"}, o)
}

// Regions reads the regions.
func (c *Client) Regions(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Region], error) {
	return list[cloudv1.Region](ctx, c, &request{path: "/v1/regions"}, o)
}

// InstanceTypes reads the sizes that instances can have.
func (c *Client) InstanceTypes(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.InstanceType], error) {
	return list[cloudv1.InstanceType](ctx, c, &request{path: "/v1/instance-types"}, o)
}

// Volume reads a volume.
func (c *Client) Volume(ctx context.Context, id string) (*cloudv1.Volume, error) {
	return get[cloudv1.Volume](ctx, c, "/v1/volumes/{id}", id)
}

// ListVolumes reads all pages of the volumes that o selects.
func (c *Client) ListVolumes(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Volume], error) {
	return list[cloudv1.Volume](ctx, c, &request{path: "/v1/volumes"}, o)
}

// VolumeTypes reads the types that volumes can have.
func (c *Client) VolumeTypes(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.VolumeType], error) {
	return list[cloudv1.VolumeType](ctx, c, &request{path: "/v1/volume-types"}, o)
}

// Meta reads what the cloud offers. It is also the cheapest way to check the token.
func (c *Client) Meta(ctx context.Context) (*cloudv1.Meta, error) {
	return read[cloudv1.Meta](ctx, c, &request{method: http.MethodGet, path: "/v1/meta"})
}

// Instance reads an instance. A deleted one is returned as a tombstone for some days.
func (c *Client) Instance(ctx context.Context, id string) (*cloudv1.Instance, error) {
	return get[cloudv1.Instance](ctx, c, "/v1/instances/{id}", id)
}

// ListInstances reads all pages of the instances that o selects.
func (c *Client) ListInstances(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Instance], error) {
	return list[cloudv1.Instance](ctx, c, &request{path: "/v1/instances"}, o)
}

// LookupInstances reads many instances by id and hostname, up to Limits.BatchMax of each.
func (c *Client) LookupInstances(ctx context.Context, r cloudv1.LookupRequest) (*cloudv1.LookupResult, error) {
	req := &request{method: http.MethodPost, path: "/v1/instances:lookup", body: r, asks: true}
	return readValid(ctx, c, req, "items or revision is missing", func(res *cloudv1.LookupResult) bool {
		return res.Items != nil && res.Revision != ""
	})
}

// CreateInstance creates and starts an instance.
func (c *Client) CreateInstance(
	ctx context.Context, s cloudv1.InstanceSpec, o WriteOptions,
) (*cloudv1.Instance, error) {
	return write[cloudv1.Instance](ctx, c, http.MethodPost, "/v1/instances", "", s, o)
}

// StartInstance starts a stopped instance.
func (c *Client) StartInstance(ctx context.Context, id string, o WriteOptions) (*cloudv1.Instance, error) {
	return write[cloudv1.Instance](ctx, c, http.MethodPost, "/v1/instances/{id}:start", id, nil, o)
}

// StopInstance stops a running instance.
func (c *Client) StopInstance(ctx context.Context, id string, o WriteOptions) (*cloudv1.Instance, error) {
	return write[cloudv1.Instance](ctx, c, http.MethodPost, "/v1/instances/{id}:stop", id, nil, o)
}

// DeleteInstance deletes an instance and returns its tombstone.
func (c *Client) DeleteInstance(ctx context.Context, id string, o WriteOptions) (*cloudv1.Instance, error) {
	return write[cloudv1.Instance](ctx, c, http.MethodDelete, "/v1/instances/{id}", id, nil, o)
}
