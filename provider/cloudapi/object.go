package cloudapi

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

// Problem is an RFC 9457 error with the cloud's stable code.
type Problem struct {
	Type      string         `json:"type" example:"about:blank"`
	Title     string         `json:"title" example:"Conflict"`
	Status    int            `json:"status" example:"409"`
	Detail    string         `json:"detail,omitempty" doc:"What happened, for people."`
	Instance  string         `json:"instance,omitempty" doc:"The path of the request."`
	Code      string         `json:"code" doc:"Stable, for programs. Unknown codes must be tolerated." example:"name-taken"`
	RequestID string         `json:"request_id,omitempty"`
	Retryable bool           `json:"retryable" doc:"True where the same request may succeed later."`
	Errors    []ProblemField `json:"errors,omitempty" nullable:"false" doc:"Every field at fault."`
	Resource  *Reference     `json:"resource,omitempty" doc:"The object that stands in the way."`
}

// ProblemField is what is wrong with one field of a request.
type ProblemField struct {
	// Pointer is an RFC 6901 pointer into the body, or names a parameter, such as query/limit.
	Pointer string `json:"pointer" example:"/listeners/0/port"`
	Code    string `json:"code" example:"invalid"`
	Detail  string `json:"detail"`
}
