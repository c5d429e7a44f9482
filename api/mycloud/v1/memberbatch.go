package v1

// MemberBatch changes the members of many pools, for clouds without node groups. Each operation succeeds or fails
// independently.
type MemberBatch struct {
	Operations []MemberOperation `json:"operations" minItems:"1" maxItems:"500"`
}

// MemberOperation changes the members of one pool. LoadBalancerID, PoolKey and Family identify the pool.
type MemberOperation struct {
	LoadBalancerID string   `json:"load_balancer_id" minLength:"1" maxLength:"255"`
	PoolKey        string   `json:"pool_key" minLength:"1" maxLength:"255"`
	Family         string   `json:"family" enum:"ipv4,ipv6"`
	IfMatch        string   `json:"if_match,omitempty" doc:"The revision that the load balancer must have before the batch. Without it, the operation fails with status 428."`
	Upsert         []Member `json:"upsert,omitempty" maxItems:"1000"`
	Remove         []string `json:"remove,omitempty" maxItems:"1000" doc:"Keys of members; keys that no member has are ignored."`
}

// MemberBatchResult answers a MemberBatch with one result per operation, in order.
type MemberBatchResult struct {
	Results []MemberResult `json:"results" nullable:"false"`
}

// MemberResult is the result of one operation of a MemberBatch. The operation succeeded if Error is nil.
type MemberResult struct {
	LoadBalancerID string `json:"load_balancer_id"`
	PoolKey        string `json:"pool_key"`
	Family         string `json:"family" enum:"ipv4,ipv6"`
	Status         int    `json:"status" doc:"The HTTP status that the operation would have had as a request of its own."`
	// Revision is that of the load balancer after the batch.
	Revision string `json:"revision,omitempty" doc:"The revision of the load balancer after the batch."`
	// JobID is the id of the job in which the write continues; it is empty if the write is complete.
	JobID string   `json:"job_id,omitempty" doc:"The job in which the write continues."`
	Error *Problem `json:"error,omitempty"`
}
