package v1

import "time"

// Object is what every object of the cloud carries.
type Object struct {
	ID        string            `json:"id" readOnly:"true" doc:"Opaque and never reused." example:"lb-4f6f0a8d1c2b3e59"`
	Name      string            `json:"name"`
	Tags      map[string]string `json:"tags"`
	Revision  string            `json:"revision" readOnly:"true" doc:"Grows with every change of what the object is told to be; also its ETag." example:"42"`
	CreatedAt time.Time         `json:"created_at" readOnly:"true"`
	UpdatedAt time.Time         `json:"updated_at" readOnly:"true"`
}

// GetID returns the object's id.
func (o *Object) GetID() string { return o.ID }

// List is a collection, or one page of it: a snapshot at Revision.
type List[T any] struct {
	Items         []T    `json:"items" nullable:"false"`
	NextPageToken string `json:"next_page_token,omitempty" doc:"Opaque; absent on the last page."`
	Revision      string `json:"revision" doc:"The collection's revision; also its ETag." example:"42"`
	// Complete is true on the last page of a snapshot that lacks nothing.
	Complete bool `json:"complete" doc:"True on the last page of a snapshot that lacks nothing."`
}

// Reference names an object.
type Reference struct {
	// Kind is the object's kind, such as load-balancer.
	Kind string `json:"kind" example:"load-balancer"`
	ID   string `json:"id" example:"lb-4f6f0a8d1c2b3e59"`
}
