package cloudapi

import (
	"context"
	"net/http"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

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
	var pair cloudv1.KeyPair
	if _, err := c.do(ctx, r, &pair); err != nil {
		return nil, err
	}
	if pair.Chain == "" || pair.Key == "" {
		return nil, malformed(r, "chain or key is missing")
	}
	return &pair, nil
}
