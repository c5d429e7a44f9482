// Package v1 is version 1 of the mycloud API: the types, constants and header names that the cloud's server and its
// clients share. It uses only the standard library. The OpenAPI document is generated from these types and their
// comments.
package v1

// Version is the version of the API's contract.
const Version = "1.0.0"

// BackupPath is where the reference cloud serves a backup of its state to clients. It is not part of the API.
const BackupPath = "/admin/backup"

// The headers that HTTP itself does not define.
const (
	// HeaderRequestID identifies a request in the cloud's logs. The response repeats it.
	HeaderRequestID = "Request-Id"
	// HeaderIfTags lists, as key=value pairs separated by commas, the tags that the object of a write must have.
	HeaderIfTags = "Mycloud-If-Tags"
	// HeaderIdempotencyKey makes a POST take effect once, however often it is sent.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderIdempotencyReplayed is true on a response that repeats an earlier one for the same idempotency key.
	HeaderIdempotencyReplayed = "Idempotency-Replayed"
	// HeaderFence identifies the leader that sends a write: <cluster-uid>;epoch=<n>;holder=<fingerprint>, where epoch and
	// holder are each optional. The cloud rejects the write if the cluster UID has a holder with other fingerprints, or if
	// it has seen a higher epoch of that cluster.
	HeaderFence = "Mycloud-Fence"
	// HeaderState names a state of the cloud: <id>;revision=<revision>, the values of Meta. Every response to a client
	// with a valid token has it. In a request, it is the state that the client has seen, and the cloud rejects the request
	// if it is a different cloud or has lost that state, because it was restored from a backup.
	HeaderState = "Mycloud-State"
	// HeaderRateLimit and HeaderRateLimitPolicy report, for the classes read and write, how many requests are left and
	// how many are allowed: "read";r=571;t=14 and "read";q=600;w=60 (draft-ietf-httpapi-ratelimit-headers).
	HeaderRateLimit       = "RateLimit"
	HeaderRateLimitPolicy = "RateLimit-Policy"
)

// The media types of bodies.
const (
	MediaTypeJSON       = "application/json"
	MediaTypeProblem    = "application/problem+json"
	MediaTypeMergePatch = "application/merge-patch+json"
)
