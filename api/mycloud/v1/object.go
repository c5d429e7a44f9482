package v1

import "time"

// The kinds of objects, as references name them.
const (
	KindInstance     = "instance"
	KindRegion       = "region"
	KindZone         = "zone"
	KindInstanceType = "instance-type"
	KindNodeGroup    = "node-group"
	KindLoadBalancer = "load-balancer"
	KindRouteTable   = "route-table"
	KindRoute        = "route"
	KindVolume       = "volume"
	KindVolumeType   = "volume-type"
	KindJob          = "job"
	// KindClusterHolder is the kind of the records of who may write in the name of a cluster.
	KindClusterHolder = "cluster-holder"
	KindEdge          = "edge"
	KindCertificate   = "certificate"
	KindAddress       = "address"
	KindToken         = "token"
)

// Object holds the fields that all objects of the cloud share.
type Object struct {
	// Opaque and never reused.
	ID string `json:"id" readOnly:"true" example:"lb-4f6f0a8d1c2b3e59"`
	// The name, for human readers and filters.
	Name string `json:"name"`
	// Keys and values that clients have set.
	Tags map[string]string `json:"tags"`
	// Increases with every change of the desired state; also the ETag. Observed state does not change it.
	Revision string `json:"revision" readOnly:"true" example:"42"`
	// When the object was created.
	CreatedAt time.Time `json:"created_at" readOnly:"true"`
	// When the desired state last changed.
	UpdatedAt time.Time `json:"updated_at" readOnly:"true"`
}

// Metadata returns the fields that all objects share.
func (o *Object) Metadata() *Object { return o }

// List is a collection, or one page of it: a snapshot at a revision, which is the cloud's and increases with every
// change of any object.
type List[T any] struct {
	// The objects of the page.
	Items []T `json:"items" nullable:"false"`
	// Opaque; absent on the last page.
	NextPageToken string `json:"next_page_token,omitempty"`
	// The revision of the cloud that the list is a snapshot of; also the ETag.
	Revision string `json:"revision" example:"42.5f3a91c0"`
	// True on the last page of a snapshot that lacks no object.
	Complete bool `json:"complete"`
}

// Reference names an object.
type Reference struct {
	// The kind of the object.
	Kind string `json:"kind" example:"load-balancer"`
	// The id of the object.
	ID string `json:"id" example:"lb-4f6f0a8d1c2b3e59"`
}
