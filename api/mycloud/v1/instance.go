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
	Hostname  string            `json:"hostname"`
	State     InstanceState     `json:"state" enum:"pending,running,stopping,stopped,migrating,error,deleting,deleted"`
	Type      string            `json:"type" example:"m1.medium"`
	Zone      string            `json:"zone" example:"eu-1a"`
	Region    string            `json:"region" example:"eu-1"`
	Addresses []InstanceAddress `json:"addresses" nullable:"false"`
	DeletedAt *time.Time        `json:"deleted_at,omitempty" doc:"Set on tombstones, which are kept for at least seven days."`
}

// InstanceAddress is one address or name of an instance.
type InstanceAddress struct {
	Type string `json:"type" enum:"internal,external,hostname,internal-dns,external-dns"`
	// Family is empty for names.
	Family  string `json:"family,omitempty" enum:"ipv4,ipv6" doc:"Absent for names."`
	Address string `json:"address" minLength:"1" maxLength:"253"`
}

// InstanceSpec is the body of a request to create an instance.
type InstanceSpec struct {
	Name      string            `json:"name,omitempty" maxLength:"255" doc:"Defaults to the hostname."`
	Tags      map[string]string `json:"tags,omitempty"`
	Hostname  string            `json:"hostname" minLength:"1" maxLength:"253"`
	Type      string            `json:"type" minLength:"1"`
	Zone      string            `json:"zone" minLength:"1"`
	Addresses []InstanceAddress `json:"addresses,omitempty"`
}

// LookupRequest asks for many instances in one request.
type LookupRequest struct {
	IDs       []string `json:"ids,omitempty" maxItems:"500"`
	Hostnames []string `json:"hostnames,omitempty" maxItems:"500"`
}

// LookupResult answers a LookupRequest. Instances asked for by id may be tombstones. NotFound lists the ids and
// hostnames that no instance has.
type LookupResult struct {
	Items    []Instance `json:"items" nullable:"false"`
	NotFound []string   `json:"not_found" nullable:"false"`
	Revision string     `json:"revision"`
}
