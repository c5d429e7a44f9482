// Package api serves the mycloud API over a store. Every operation is a typed handler; the OpenAPI document is generated
// from the same types, so that the two cannot part.
package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/balancer"
	"quaymaster.dev/internal/mycloud/store"
)

// The bounds of one request.
const (
	pageMax     = 500
	treePageMax = 100
	batchMax    = 500
	membersMax  = 1000
	filterIDs   = 100
	bodyMax     = 8 << 20
)

// Options are what an API needs.
type Options struct {
	Store *store.Store
	Clock clock.PassiveClock
	// Addresses are where load balancers get theirs from.
	Addresses []balancer.AddressPool
	// JobDuration is how long writes of load balancers take; 0 is done at once, with the answer.
	JobDuration time.Duration
	// Token is what clients must bear.
	Token  string
	Logger *slog.Logger
}

// API answers requests.
type API struct {
	Options
	huma      huma.API
	mux       *http.ServeMux
	snapshots *snapshots
	inFlight  inFlight
}

// New makes an API; it does no I/O.
func New(o Options) *API {
	a := &API{Options: o, mux: http.NewServeMux(), snapshots: newSnapshots(o.Clock)}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "mycloud", Version: cloudv1.Version,
				Description: "What the private cloud mycloud offers to cluster software: instances, node groups, load balancers, routes and volumes.",
			},
			Security: []map[string][]string{{"bearer": {}}},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer"}},
			},
		},
		Formats:       map[string]huma.Format{cloudv1.MediaTypeJSON: jsonFormat(), "json": jsonFormat()},
		DefaultFormat: cloudv1.MediaTypeJSON,
		Transformers:  []huma.Transformer{a.completeProblem},
	}
	// Clients newer than the server may say more than it knows.
	config.AllowAdditionalPropertiesByDefault = true
	a.huma = huma.NewAPI(config, adapter{a.mux})
	a.registerMeta()
	a.registerInstances()
	a.registerPlaces()
	a.registerNodeGroups()
	a.registerLoadBalancers()
	a.registerRoutes()
	a.registerVolumes()
	a.registerJobs()
	a.mux.HandleFunc("/", a.unknownRequest)
	schemas := a.huma.OpenAPI().Components.Schemas.Map()
	// The library describes its own error type beside each operation; ours are Problems.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	return a
}

// Document is the OpenAPI document in YAML.
func Document() ([]byte, error) {
	doc, err := json.Marshal(New(Options{Clock: clock.RealClock{}}).huma.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return yaml.JSONToYAML(doc)
}
