// Package api serves the mycloud API over a store. Every operation is a typed handler, and the OpenAPI document is
// generated from the same types, so the two cannot diverge. Each resource has its package; what they share is in packages
// that know no resource.
package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/audit"
	"quaymaster.dev/internal/mycloud/server/api/backup"
	"quaymaster.dev/internal/mycloud/server/api/certificates"
	"quaymaster.dev/internal/mycloud/server/api/clusters"
	"quaymaster.dev/internal/mycloud/server/api/handler"
	"quaymaster.dev/internal/mycloud/server/api/instances"
	"quaymaster.dev/internal/mycloud/server/api/loadbalancers"
	"quaymaster.dev/internal/mycloud/server/api/members"
	"quaymaster.dev/internal/mycloud/server/api/nodegroups"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/registration"
	"quaymaster.dev/internal/mycloud/server/api/routes"
	"quaymaster.dev/internal/mycloud/server/api/tokens"
	"quaymaster.dev/internal/mycloud/server/api/watch"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/certificate"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/history"
	"quaymaster.dev/internal/mycloud/server/page"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Options holds the dependencies of an API.
type Options struct {
	Store store.Store
	// Dir is the directory of files that last as long as the process.
	Dir string
	// Replicated is true if other servers may have the same state.
	Replicated bool
	Clock      clock.Clock
	// JobDuration is how long writes of load balancers take, besides the time that edges need; 0 means that without edges
	// they complete before the response.
	JobDuration time.Duration
	// Limits are the rate limits.
	Limits handler.RateLimits
	// Quotas has the maximum number of objects by kind; a kind that is not in it has no limit.
	Quotas map[string]int
	// Faults injects faults into requests; it may be nil.
	Faults func(http.Handler) http.Handler
	// Audit keeps who writes what; it may be nil.
	Audit *audit.Log
	// Admin serves /admin/faults; it may be nil.
	Admin http.Handler
	// Token is the bearer token that clients must send.
	Token string
	// EdgeToken is the bearer token of the edges without one of their own; if empty, there are none.
	EdgeToken string
	// EdgeTokens are the bearer tokens of single edges, by name.
	EdgeTokens map[string]string
	// Members are the rules for the addresses of members.
	Members members.Rules
	// HeartbeatInterval is the time between heartbeats of an edge.
	HeartbeatInterval time.Duration
	// Cipher encrypts the key pairs of certificates.
	Cipher *certificate.Cipher
	Logger *slog.Logger
}

// API serves the resources of a cloud.
type API struct {
	// Tokens are the permissions of callers, whose use has to be stored.
	Tokens *access.Tokens
	// Edges are the machines that carry traffic, and LoadBalancers what they carry: both need care beyond requests.
	Edges         *registration.Edges
	LoadBalancers *loadbalancers.LoadBalancers
	// History has what load balancers have carried.
	History *history.History
	// Backup serves backups, which it counts.
	Backup *backup.Handler

	huma    huma.API
	handler http.Handler
}

// New returns an API. It does no I/O.
func New(o Options) *API {
	operations := operation.NewAPI(o.Store, o.Logger, info(), servers(), tags())
	r, w := read.New(operations, o.Store, o.Clock), write.New(o.Store, o.Quotas)
	t := &access.Tokens{
		Client: o.Token, Shared: o.EdgeToken, Edges: o.EdgeTokens, Store: o.Store, Clock: o.Clock, Logger: o.Logger,
	}
	if o.Replicated {
		t.Stranger = access.NewStranger(o.Store, o.Clock)
	}
	known := edges.New(o.Clock, o.HeartbeatInterval)
	a := &API{
		Edges: registration.New(r, w, known, t, o.Logger),
		LoadBalancers: loadbalancers.New(loadbalancers.Options{
			Read: r, Write: w, Members: o.Members, Edges: known, JobDuration: o.JobDuration, Clock: o.Clock, Logger: o.Logger,
		}),
		History: history.New(o.Clock, known, func(fn func(func(string) bool)) error {
			return o.Store.View(func(tx *store.Tx) error {
				fn(func(id string) bool { return store.LoadBalancers.Has(tx, id) })
				return nil
			})
		}),
		Tokens: t,
		Backup: backup.New(o.Store, o.Dir, o.Logger),
		huma:   operations,
	}
	jobs := watch.Jobs(o.JobDuration)
	a.Edges.Register()
	a.LoadBalancers.Register()
	nodegroups.Register(r, w, o.Members)
	certificates.Register(r, w, o.Clock, o.Cipher)
	instances.Register(r, w)
	routes.Register(r, w)
	clusters.Register(r, w)
	watch.RegisterJobs(r, jobs)
	watch.RegisterChanges(r, feeds(a.Edges, a.LoadBalancers, jobs))
	registerPlaces(r)
	registerVolumes(r)
	tokens.Register(r, w, o.Clock)
	registerMeta(r, o, t)
	looks := page.New(page.Options{
		Store: o.Store, Clock: o.Clock, Edges: known, EdgeView: a.Edges.View(), LoadBalancerView: a.LoadBalancers.View(), JobView: jobs,
		Facts: a.LoadBalancers.Facts, History: a.History, MayRead: t.MayRead, Cipher: o.Cipher, Logger: o.Logger,
	})
	a.handler = handler.New(operations.Adapter(), handler.Options{
		Store: o.Store, Clock: o.Clock, Tokens: t, Limits: o.Limits, Faults: o.Faults, Audit: o.Audit,
		Admin: o.Admin, Backup: a.Backup, Page: looks.Handler, Logger: o.Logger,
	})
	return a
}

// Handler returns the HTTP handler of the API and /healthz.
func (a *API) Handler() http.Handler { return a.handler }

// feeds returns the kinds whose changes are reported.
func feeds(e *registration.Edges, lbs *loadbalancers.LoadBalancers, jobs read.View[cloudv1.Job]) map[string]watch.Feed {
	return map[string]watch.Feed{
		cloudv1.KindInstance:      feedOf(store.Instances),
		cloudv1.KindRegion:        feedOf(store.Regions),
		cloudv1.KindZone:          feedOf(store.Zones),
		cloudv1.KindInstanceType:  feedOf(store.InstanceTypes),
		cloudv1.KindNodeGroup:     feedOf(store.NodeGroups),
		cloudv1.KindLoadBalancer:  watch.FeedOf(lbs.View()),
		cloudv1.KindRouteTable:    feedOf(store.RouteTables),
		cloudv1.KindRoute:         feedOf(store.Routes),
		cloudv1.KindVolume:        feedOf(store.Volumes),
		cloudv1.KindVolumeType:    feedOf(store.VolumeTypes),
		cloudv1.KindJob:           watch.FeedOf(jobs),
		cloudv1.KindClusterHolder: feedOf(store.Holders),
		cloudv1.KindEdge:          watch.FeedOf(e.View()),
		cloudv1.KindCertificate:   feedOf(store.Certificates),
	}
}

// feedOf returns the feed of a kind whose objects are shown as they are stored.
func feedOf[T any](k store.Kind[T]) watch.Feed { return watch.FeedOf(read.View[T]{Kind: k}) }

// QuotaKinds returns the kinds of objects whose number can be limited.
func QuotaKinds() []string {
	return []string{cloudv1.KindInstance, cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup, cloudv1.KindRoute}
}
