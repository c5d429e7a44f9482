// Package dlb reconciles the cloud's load balancers with Services. tree.go decides what a load balancer is to be. The
// other files decide how to get there: with as few requests as possible, and by writes that require the owner's tags,
// the revision and, for creations, an idempotency key.
package dlb
