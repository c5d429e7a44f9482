// Package dlb makes the cloud's load balancers what Services ask for. It decides in tree.go what a load balancer is to
// be, and everywhere else how the cloud gets there: by as few calls as possible, and by writes that name the owner, the
// revision and, where something is created, the deed.
package dlb
