// Package certs provides the serving certificate of the webhooks, from cert-manager, from files or self-signed, and
// determines when the API server trusts it. Certificates are replaced without a restart and without a failed
// connection.
package certs
