package access

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Role is what a caller may do. It is the name of a security scheme in the document.
type Role string

const (
	// Read is the role of callers that read all objects.
	Read Role = cloudv1.RoleRead
	// Write is the role of clusters and users.
	Write Role = cloudv1.RoleWrite
	// Admin is the role of operators: they may do everything except what only edges do.
	Admin Role = cloudv1.RoleAdmin
	// Edge is the role of edges: they may read everything, report of themselves, and read key pairs.
	Edge Role = cloudv1.RoleEdge
	// Registration is the role of machines that are not edges yet: they may register.
	Registration Role = "registration"
)

// Administration is the operation that stands for the endpoints of administrators, which are not in the document.
const Administration = "administration"

// The roles that may use operations of a kind.
var (
	readers = []Role{Read, Write, Admin, Edge}
	writers = []Role{Write, Admin}
	admins  = []Role{Admin}
	edges   = []Role{Edge}
)

// permissions has the roles that may use each operation. One that it lacks is refused to all of them.
var permissions = map[string][]Role{
	"get-meta":     slices.Concat(readers, []Role{Registration}),
	"list-changes": readers,
	"list-jobs":    readers,
	"get-job":      readers,

	"list-load-balancers":      readers,
	"get-load-balancer":        readers,
	"get-load-balancer-health": readers,
	"get-load-balancer-stats":  readers,
	"validate-load-balancer":   readers,
	"create-load-balancer":     writers,
	"update-load-balancer":     writers,
	"patch-load-balancer":      writers,
	"adopt-load-balancer":      writers,
	"delete-load-balancer":     writers,
	"batch-members":            writers,
	"list-addresses":           readers,

	"list-node-groups":  readers,
	"get-node-group":    readers,
	"create-node-group": writers,
	"update-node-group": writers,
	"patch-members":     writers,
	"delete-node-group": writers,

	"list-instances":      readers,
	"get-instance":        readers,
	"lookup-instances":    readers,
	"create-instance":     writers,
	"start-instance":      writers,
	"stop-instance":       writers,
	"delete-instance":     writers,
	"list-instance-types": readers,
	"get-instance-type":   readers,

	"list-route-tables": readers,
	"get-route-table":   readers,
	"list-routes":       readers,
	"batch-routes":      writers,

	"list-volumes":      readers,
	"get-volume":        readers,
	"list-volume-types": readers,
	"get-volume-type":   readers,

	"list-regions": readers,
	"get-region":   readers,
	"list-zones":   readers,
	"get-zone":     readers,

	"list-certificates":  readers,
	"get-certificate":    readers,
	"create-certificate": writers,
	"update-certificate": writers,
	"delete-certificate": writers,
	"get-key-pair":       edges,

	"get-cluster-holder":    readers,
	"claim-cluster-holder":  writers,
	"delete-cluster-holder": writers,

	"list-edges":     readers,
	"get-edge":       readers,
	"register-edge":  {Edge, Registration},
	"heartbeat-edge": edges,
	"patch-edge":     admins,
	"delete-edge":    admins,

	"list-tokens":  admins,
	"get-token":    admins,
	"create-token": admins,
	"delete-token": admins,

	Administration: admins,
}

// Schemes returns the security schemes of the document.
func Schemes() map[string]*huma.SecurityScheme {
	schemes := map[string]*huma.SecurityScheme{}
	for role, what := range map[Role]string{
		Read:  "A token that reads. For every role, a client certificate with it serves instead of a token.",
		Write: "A token that reads, and writes the objects of clusters and users.",
		Admin: "A token that may do everything except what only edges do.",
		Edge:  "The own token of an edge, or one for its name.",
		Registration: "A token that edges share, with which they only register. Its role is edge, and it has no " +
			"name of an edge.",
	} {
		schemes[string(role)] = &huma.SecurityScheme{Type: "http", Scheme: "bearer", Description: what}
	}
	return schemes
}

// Permit describes which roles may use an operation, by its id.
func Permit(op *huma.Operation) {
	op.Security = nil
	for _, r := range permissions[op.OperationID] {
		op.Security = append(op.Security, map[string][]string{string(r): {}})
	}
}

// permits reports whether a role may use an operation.
func permits(operation string, r Role) bool { return slices.Contains(permissions[operation], r) }

// needed returns what an operation requires, for a caller that may not use it.
func needed(operation string, who Role) string {
	if who == Registration && permits(operation, Edge) {
		return "the edge's own token; that which edges share only registers"
	}
	var names []string
	for _, r := range permissions[operation] {
		if r != Registration {
			names = append(names, string(r))
		}
	}
	return "the role " + strings.Join(names, " or ") + ", not " + string(who)
}
