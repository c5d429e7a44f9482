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
)

// Object holds the fields that all objects of the cloud share.
type Object struct {
	ID        string            `json:"id" readOnly:"true" doc:"Opaque and never reused." example:"lb-4f6f0a8d1c2b3e59"`
	Name      string            `json:"name"`
	Tags      map[string]string `json:"tags"`
	Revision  string            `json:"revision" readOnly:"true" doc:"Increases with every change of the desired state; also the ETag. Observed state does not change it." example:"42"`
	CreatedAt time.Time         `json:"created_at" readOnly:"true"`
	UpdatedAt time.Time         `json:"updated_at" readOnly:"true"`
}

// Metadata returns the fields that all objects share.
func (o *Object) Metadata() *Object { return o }

// List is a collection, or one page of it: a snapshot at Revision, which is the cloud's and increases with every change
// of any object.
type List[T any] struct {
	Items         []T    `json:"items" nullable:"false"`
	NextPageToken string `json:"next_page_token,omitempty" doc:"Opaque; absent on the last page."`
	Revision      string `json:"revision" doc:"The revision of the cloud that the list is a snapshot of; also the ETag." example:"42"`
	// Complete is true on the last page of a snapshot that lacks no object.
	Complete bool `json:"complete" doc:"True on the last page of a snapshot that lacks no object."`
}

// Reference names an object.
type Reference struct {
	Kind string `json:"kind" example:"load-balancer"`
	ID   string `json:"id" example:"lb-4f6f0a8d1c2b3e59"`
}
