package v1

import "time"

// The roles of tokens.
const (
	// RoleRead is the role of callers that read all objects, but neither tokens nor keys.
	RoleRead = "read"
	// RoleWrite is the role of clusters and users: they read, and write all objects but edges and tokens.
	RoleWrite = "write"
	// RoleEdge is the role of edges.
	RoleEdge = "edge"
	// RoleAdmin is the role of operators: they may do everything except what only edges do.
	RoleAdmin = "admin"
)

// Token is the permission of a caller. What it sends, the secret, is not stored.
type Token struct {
	Object
	TokenFields
	// When the token was last used, give or take an hour; absent if it never was.
	LastUsedAt *time.Time `json:"last_used_at,omitempty" readOnly:"true"`
}

// TokenFields are the settings of a token, which do not change.
type TokenFields struct {
	// What the token is for. read: reads objects. write: also writes objects of clusters and users. admin: also tokens,
	// edges and backups. edge: registers edges.
	Role string `json:"role" enum:"read,write,edge,admin"`
	// The name of the only edge that may use the token; only for the role edge. Without it, machines with the token may
	// register under any name that has no token of its own, and do nothing else.
	Edge string `json:"edge,omitempty" maxLength:"255"`
	// When the token expires; without it, never.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// TokenSpec is the body of a request to create a token.
type TokenSpec struct {
	// Unique among tokens.
	Name string `json:"name" minLength:"1" maxLength:"255"`
	// Tags of the token.
	Tags map[string]string `json:"tags,omitempty"`
	TokenFields
}

// NewToken is a token that was just created.
type NewToken struct {
	Token
	// The bearer token that callers send. It is only in this response; a dry run has none.
	Secret string `json:"secret,omitempty" readOnly:"true"`
}
