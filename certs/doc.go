// Package certs provides the serving certificate of the webhooks, from cert-manager, from files or from a certificate authority of
// its own, and tells when the API server can trust it. Certificates change without a restart and without a refused connection.
package certs
