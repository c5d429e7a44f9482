package v1

// MemberBatch changes the members of many pools, for clouds without node groups. Each operation succeeds or fails
// independently.
type MemberBatch struct {
	// The operations, which take effect in order.
	Operations []MemberOperation `json:"operations" minItems:"1" maxItems:"500"`
}

// MemberOperation changes the members of one pool, which load balancer, key and family identify.
type MemberOperation struct {
	// The load balancer of the pool.
	LoadBalancerID string `json:"load_balancer_id" minLength:"1" maxLength:"255"`
	// The key of the pool.
	PoolKey string `json:"pool_key" minLength:"1" maxLength:"255"`
	// The family of the pool.
	Family string `json:"family" enum:"ipv4,ipv6"`
	// The revision that the load balancer must have before the batch. Without it, the operation fails with status
	// 428.
	IfMatch string `json:"if_match,omitempty"`
	// Members to add, or to replace by key.
	Upsert []Member `json:"upsert,omitempty" maxItems:"1000"`
	// Keys of members; keys that no member has are ignored.
	Remove []string `json:"remove,omitempty" maxItems:"1000"`
}

// MemberBatchResult answers a MemberBatch with one result per operation, in order.
type MemberBatchResult struct {
	// One result per operation, in order.
	Results []MemberResult `json:"results" nullable:"false"`
}

// MemberResult is the result of one operation of a MemberBatch. The operation succeeded if it has no error.
type MemberResult struct {
	// The load balancer of the operation.
	LoadBalancerID string `json:"load_balancer_id"`
	// The key of the operation's pool.
	PoolKey string `json:"pool_key"`
	// The family of the operation's pool.
	Family string `json:"family" enum:"ipv4,ipv6"`
	// The HTTP status that the operation would have had as a request of its own.
	Status int `json:"status"`
	// The revision of the load balancer after the batch.
	Revision string `json:"revision,omitempty"`
	// The job in which the write continues; absent if it is complete.
	JobID string `json:"job_id,omitempty"`
	// Why the operation failed; absent if it succeeded.
	Error *Problem `json:"error,omitempty"`
}
