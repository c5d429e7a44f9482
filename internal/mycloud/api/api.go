// Package api serves the mycloud API over a store. Every operation is a typed handler, and the OpenAPI document is
// generated from the same types, so the two cannot diverge.
package api

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/certificate"
	"quaymaster.dev/internal/mycloud/edges"
	"quaymaster.dev/internal/mycloud/store"
)

// The limits of one request.
const (
	pageMax     = 500
	treePageMax = 100
	batchMax    = 500
	membersMax  = 1000
	filterIDs   = 100
	bodyMax     = 8 << 20
)

// Options holds the dependencies of an API.
type Options struct {
	Store *store.Store
	Clock clock.Clock
	// JobDuration is how long writes of load balancers take, besides the time that edges need; 0 means that without edges
	// they complete before the response.
	JobDuration time.Duration
	// Limits are the rate limits.
	Limits RateLimits
	// Quotas has the maximum number of objects by kind; a kind that is not in it has no limit.
	Quotas map[string]int
	// Faults injects faults into requests; it may be nil.
	Faults func(http.Handler) http.Handler
	// Admin serves /admin/faults; it may be nil.
	Admin http.Handler
	// Token is the bearer token that clients must send.
	Token string
	// EdgeToken is the bearer token of the edges without one of their own; if empty, there are none.
	EdgeToken string
	// EdgeTokens are the bearer tokens of single edges, by name.
	EdgeTokens map[string]string
	// MemberNetworks are the networks that members may have addresses of, besides those of instances.
	MemberNetworks []netip.Prefix
	// ProtectedNetworks are networks that no member may have an address of, such as those of routers, unless it is that of an
	// instance.
	ProtectedNetworks []netip.Prefix
	// HeartbeatInterval is the time between heartbeats of an edge.
	HeartbeatInterval time.Duration
	// Cipher encrypts the key pairs of certificates.
	Cipher *certificate.Cipher
	Logger *slog.Logger
}

// API handles requests.
type API struct {
	Options
	huma      huma.API
	mux       *http.ServeMux
	snapshots *snapshots
	inFlight  inFlight
	limiter   *limiter
	edges     *edges.Registry
	// groups and instances are what the operating states of load balancers depend on.
	groups    recent[*cloudv1.NodeGroup]
	instances recent[cloudv1.InstanceState]
}

// New returns an API. It does no I/O.
func New(o Options) *API {
	a := &API{
		Options: o, mux: http.NewServeMux(), snapshots: newSnapshots(o.Clock, snapshotBytes),
		limiter: newLimiter(o.Clock, o.Limits), edges: edges.New(o.Clock, o.HeartbeatInterval),
	}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    info(),
			Servers: servers(),
			Tags:    tags(),
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer),
				SecuritySchemes: schemes(),
			},
		},
		Formats:       map[string]huma.Format{cloudv1.MediaTypeJSON: jsonFormat(), "json": jsonFormat()},
		DefaultFormat: cloudv1.MediaTypeJSON,
		Transformers:  []huma.Transformer{a.completeProblem},
	}
	// Clients newer than the server may send fields that it does not know.
	config.AllowAdditionalPropertiesByDefault = true
	documentProblems(config.Components)
	a.huma = huma.NewAPI(config, adapter{a.mux})
	a.registerMeta()
	a.registerInstances()
	a.registerPlaces()
	a.registerNodeGroups()
	a.registerLoadBalancers()
	a.registerAddresses()
	a.registerRoutes()
	a.registerVolumes()
	a.registerJobs()
	a.registerChanges()
	a.registerMemberBatches()
	a.registerHolders()
	a.registerEdges()
	a.registerCertificates()
	a.mux.HandleFunc("/", a.unknownRequest)
	schemas := a.huma.OpenAPI().Components.Schemas.Map()
	// The library adds its own error types to the document, but the API returns Problems.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	return a
}
