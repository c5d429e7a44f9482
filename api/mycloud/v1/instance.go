package v1

import "time"

// InstanceState is the state of an instance. Clients must tolerate unknown values.
type InstanceState string

// The states of an instance.
const (
	InstancePending   InstanceState = "pending"
	InstanceRunning   InstanceState = "running"
	InstanceStopping  InstanceState = "stopping"
	InstanceStopped   InstanceState = "stopped"
	InstanceMigrating InstanceState = "migrating"
	InstanceError     InstanceState = "error"
	InstanceDeleting  InstanceState = "deleting"
	// InstanceDeleted marks a tombstone: the only proof that an instance is gone.
	InstanceDeleted InstanceState = "deleted"
)

// The types of an instance's addresses and names.
const (
	AddressInternal    = "internal"
	AddressExternal    = "external"
	AddressHostname    = "hostname"
	AddressInternalDNS = "internal-dns"
	AddressExternalDNS = "external-dns"
)

// Instance is a virtual machine, or the tombstone of one.
type Instance struct {
	Object
	// The host name; unique among instances that are not deleted.
	Hostname string `json:"hostname"`
	// Clients must tolerate unknown values. deleted: this is a tombstone, the only proof that an instance is gone.
	State InstanceState `json:"state" enum:"pending,running,stopping,stopped,migrating,error,deleting,deleted"`
	// The size of the instance.
	Type string `json:"type" example:"m1.medium"`
	// The zone that the instance runs in.
	Zone string `json:"zone" example:"eu-1a"`
	// The region of the zone.
	Region string `json:"region" example:"eu-1"`
	// The addresses and names of the instance.
	Addresses []InstanceAddress `json:"addresses" nullable:"false"`
	// Set on tombstones, which are kept for at least seven days.
	DeletedAt *time.Time `json:"deleted_at,omitempty"`
}

// InstanceAddress is one address or name of an instance.
type InstanceAddress struct {
	// Whether it is an address or a name, and who can reach it.
	Type string `json:"type" enum:"internal,external,hostname,internal-dns,external-dns"`
	// The family of the address; absent for names.
	Family string `json:"family,omitempty" enum:"ipv4,ipv6"`
	// The address or the name.
	Address string `json:"address" minLength:"1" maxLength:"253"`
}

// InstanceSpec is the body of a request to create an instance.
type InstanceSpec struct {
	// Defaults to the hostname.
	Name string `json:"name,omitempty" maxLength:"255"`
	// Tags of the instance.
	Tags map[string]string `json:"tags,omitempty"`
	// The host name; unique among instances that are not deleted.
	Hostname string `json:"hostname" minLength:"1" maxLength:"253"`
	// The id of an instance type.
	Type string `json:"type" minLength:"1"`
	// The id of a zone.
	Zone string `json:"zone" minLength:"1"`
	// The addresses and names of the instance.
	Addresses []InstanceAddress `json:"addresses,omitempty"`
}

// LookupRequest asks for many instances in one request.
type LookupRequest struct {
	// The ids to find.
	IDs []string `json:"ids,omitempty" maxItems:"500"`
	// The host names to find.
	Hostnames []string `json:"hostnames,omitempty" maxItems:"500"`
}

// LookupResult answers a LookupRequest.
type LookupResult struct {
	// The instances found. Those asked for by id may be tombstones.
	Items []Instance `json:"items" nullable:"false"`
	// The ids and host names that no instance has.
	NotFound []string `json:"not_found" nullable:"false"`
	// The revision of the cloud that the result is a snapshot of.
	Revision string `json:"revision"`
}
