package route

import (
	"context"
	"net/netip"
)

// Hop is where a route leads to: an instance, or an address in routes that this controller did not write.
type Hop struct{ InstanceID, Address string }

// Route is an entry of the route table that has the tags of this cluster. There is one per destination.
type Route struct {
	Destination netip.Prefix
	Hop         Hop
	// Dead is true if the cloud reports that the instance is deleted. A route to an instance that is merely unknown is
	// not dead.
	Dead bool
}

// Change is one operation on the route table. It creates or moves the route or, with Remove, removes it if it still
// leads to the same hop.
type Change struct {
	Route

	Remove bool
}

// Table is this cluster's part of a route table in the cloud. Routes of others are neither listed nor changed.
type Table interface {
	// List returns the cluster's routes and the revision of the table. If that is still since, changed is false and the
	// rest is empty. Without since, List reads the routes from the cloud.
	List(ctx context.Context, since string) (routes []Route, revision string, changed bool, err error)
	// Change makes any number of changes, independently of each other, and returns one error per change, or nil for
	// those that hold now. The result of a change is unknown if its error is not a RefusedError.
	Change(ctx context.Context, changes []Change) []error
	// Hostnames returns the hostnames of instances. An instance that does not exist has none.
	Hostnames(ctx context.Context, instanceIDs []string) (map[string]string, error)
}

// RefusedError is the cloud's answer that it does not make a change.
type RefusedError struct {
	// Reason becomes the reason of the Node's condition.
	Reason string
	// Message describes the problem to an operator.
	Message string
}

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }
