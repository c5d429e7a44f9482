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
	// Revision is the revision to ask for next.
	Revision string   `json:"revision" doc:"The value of since for the next request." example:"42"`
	Items    []Change `json:"items" nullable:"false" doc:"In the order of revisions; of several changes of an object, only the last one."`
	// More is true if further changes can be read at once.
	More bool `json:"more"`
}

// Change is the last change of an object.
type Change struct {
	Kind     string `json:"kind" example:"load-balancer"`
	ID       string `json:"id" example:"lb-4f6f0a8d1c2b3e59"`
	Revision string `json:"revision" example:"42"`
	Op       string `json:"op" enum:"upsert,delete"`
	// Object is the object as its own collection returns it, load balancers with their trees; absent for a deletion.
	Object json.RawMessage `json:"object,omitempty" doc:"The object as its collection returns it, load balancers with their trees; absent if it was deleted. A new operating_state alone is not a change."`
}
