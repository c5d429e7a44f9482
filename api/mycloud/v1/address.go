package v1

import "time"

// The states of an address.
const (
	// AddressAssigned is the state of an address that a load balancer has.
	AddressAssigned = "assigned"
	// AddressReserved is the state of an address that a load balancer has given up and that an edge may still serve.
	AddressReserved = "reserved"
)

// Address is an address of a load balancer, or one that it has given up. No other load balancer gets it before every
// registered edge, offline ones included, has confirmed that it no longer serves it, or was deleted. Its id is the
// address.
type Address struct {
	Object
	// The load balancer that has the address, or had it last.
	LoadBalancerID string `json:"load_balancer_id"`
	// Whether a load balancer has the address.
	State string `json:"state" enum:"assigned,reserved"`
	// When the load balancer gave up the address.
	ReservedAt *time.Time `json:"reserved_at,omitempty"`
	// The names of the edges that have not confirmed yet that they no longer serve a reserved address. An
	// observation.
	HeldBy []string `json:"held_by,omitempty" readOnly:"true"`
}
