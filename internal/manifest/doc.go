// Package manifest reads manifests as kubectl does, tells everything in them that the API server could not decode, and remembers
// where in the source each field stands.
package manifest
