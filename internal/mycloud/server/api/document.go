package api

import (
	"net"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/document"
	"quaymaster.dev/internal/mycloud/server/api/handler"
)

// DefaultAddress is the address that a cloud listens on by default.
const DefaultAddress = "127.0.0.1:8090"

// Document returns the OpenAPI document in YAML.
func Document() ([]byte, error) {
	doc := New(Options{Clock: clock.RealClock{}}).huma.OpenAPI()
	doc.AddOperation(healthOperation())
	doc.AddOperation(readyOperation())
	return document.YAML(doc)
}

func info() *huma.Info {
	return &huma.Info{
		Title: "mycloud", Version: cloudv1.Version,
		Description: "The API of the private cloud mycloud for cluster software: instances, node groups, " +
			"load balancers, routes and volumes, and for the edges that carry the traffic of load balancers.\n\n" +
			"Every response to a client with a valid token has the header " + cloudv1.HeaderState + ": <id>;revision=<revision>, " +
			"the values of get-meta after the request. A client can send the last one that it has received: if the cloud is a " +
			"different one, or was restored to an earlier state, the response is 412 with the code " + cloudv1.CodeOtherState + ".\n\n" +
			"A read sees every write that was acknowledged before it, also by other servers of the same cloud. A client that accepts " +
			"a former state sends Cache-Control: max-stale; then reads do not depend on what the servers share.",
		Contact: &huma.Contact{
			Name: "Quaymaster maintainers", URL: "https://quaymaster.dev", Email: "maintainers@quaymaster.dev",
		},
		License: &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"},
	}
}

func servers() []*huma.Server {
	host, port, _ := net.SplitHostPort(DefaultAddress)
	return []*huma.Server{{
		URL:         "http://{host}:{port}",
		Description: "A cloud run by mycloud serve.",
		Variables: map[string]*huma.ServerVariable{
			"host": {Default: host, Description: "The host of --listen, or the name of a proxy in front of it."},
			"port": {Default: port, Description: "The port of --listen."},
		},
	}}
}

// tags returns the groups of operations.
func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "load-balancers", Description: "Load balancers with listeners and pools, which are written as one tree."},
		{Name: "node-groups", Description: "Sets of backends that the pools of many load balancers share."},
		{Name: "instances", Description: "Virtual machines and their sizes."},
		{Name: "routes", Description: "Tables of routes to the instances of a network."},
		{Name: "volumes", Description: "Block devices and their types."},
		{Name: "certificates", Description: "Certificates for https listeners."},
		{Name: "edges", Description: "Machines that carry the traffic of load balancers."},
		{Name: "tokens", Description: "Permissions of callers, with a role each."},
		{Name: "clusters", Description: "Which cluster may write in the name of a cluster UID."},
		{Name: "jobs", Description: "Writes that continue after their response."},
		{Name: "changes", Description: "What happened to objects, so that collections need not be listed again."},
		{Name: "places", Description: "Regions and zones."},
		{Name: "meta", Description: "The API itself: what this cloud offers, and whether it serves."},
	}
}

// healthOperation describes what the handler serves without a token.
func healthOperation() *huma.Operation {
	return &huma.Operation{
		OperationID: "get-health", Method: http.MethodGet, Path: handler.HealthPath, Tags: []string{"meta"},
		Summary:     "Whether the server responds",
		Description: "Returns 200 as soon as the server accepts requests. It requires no token and does not use the state.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The server responds.",
			Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}
}

// readyOperation describes what a load balancer in front of servers asks.
func readyOperation() *huma.Operation {
	text := map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}
	return &huma.Operation{
		OperationID: "get-readiness", Method: http.MethodGet, Path: handler.ReadyPath, Tags: []string{"meta"},
		Summary:     "Whether the server reaches its state",
		Description: "Returns 200 if the server can answer all requests. It requires no token.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The server is ready.", Content: text},
			"503": {Description: "The state cannot be reached.", Content: text},
		},
	}
}
