package v1

import "encoding/json"

// The operations of a Change.
const (
	// ChangeUpsert means that an object was created or changed.
	ChangeUpsert = "upsert"
	// ChangeDelete means that an object no longer exists. A deleted instance is an upsert of its tombstone instead.
	ChangeDelete = "delete"
)

// Changes is what happened to the objects of a cloud after a revision.
type Changes struct {
	// The value of since for the next request.
	Revision string `json:"revision" example:"42.5f3a91c0"`
	// In the order of revisions; of several changes of an object, only the last one.
	Items []Change `json:"items" nullable:"false"`
	// True if further changes can be read at once.
	More bool `json:"more"`
}

// Change is the last change of an object.
type Change struct {
	// The kind of the object.
	Kind string `json:"kind" example:"load-balancer"`
	// The id of the object.
	ID string `json:"id" example:"lb-4f6f0a8d1c2b3e59"`
	// The revision of the cloud with which the change took effect.
	Revision string `json:"revision" example:"42"`
	// Whether the object was created or changed, or no longer exists. A deleted instance is an upsert of its
	// tombstone.
	Op string `json:"op" enum:"upsert,delete"`
	// The object as its collection returns it, load balancers with their trees; absent if it was deleted. A new
	// operating_state alone is not a change.
	Object json.RawMessage `json:"object,omitempty"`
}
