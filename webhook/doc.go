// Package webhook serves the API server's admission requests over HTTP. Only a decision is sent as an AdmissionReview:
// a body that cannot be decoded is answered with 4xx, overload with 503 and an internal error with 5xx, so that the
// webhook's failurePolicy applies. Only an Admitter denies objects, and only for mistakes of their author.
package webhook
