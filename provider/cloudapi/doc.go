// Package cloudapi is the mycloud API in Go: its types, shared by client and reference server, and a typed HTTP client.
// It uses the standard library alone.
package cloudapi
