// Package webhook answers the API server's admission calls over HTTP. What is no verdict is no AdmissionReview either: a
// body that cannot be read is answered with 4xx, overload with 429 and our own trouble with 5xx, so that the webhook's
// failurePolicy decides. Only a Admitter refuses objects, and only for their author's mistakes.
package webhook
