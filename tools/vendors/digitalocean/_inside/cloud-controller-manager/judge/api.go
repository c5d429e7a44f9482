package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

type object = map[string]any

// api simulates the cloud's API and that of the cluster without a network. It accepts everything, so that errors are the
// controller's own: there is no load balancer yet, and whatever certificate a request names.
type api struct{}

var _ http.RoundTripper = api{}

// RoundTrip answers a request.
func (api) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
	}
	status, answer := http.StatusOK, object{}
	switch {
	case r.URL.Host == "kubernetes.invalid":
		answer = object{"kind": "Service", "apiVersion": "v1"}
		if strings.HasSuffix(r.URL.Path, "/events") {
			answer["kind"] = "Event"
		}
	case r.Method == http.MethodPost && r.URL.Path == "/v2/load_balancers":
		status, answer = http.StatusAccepted, object{"load_balancer": balancer("new")}
	case r.URL.Path == "/v2/load_balancers":
		answer = object{"load_balancers": []object{}}
	case strings.HasPrefix(r.URL.Path, "/v2/load_balancers/"):
		answer = object{"load_balancer": balancer(strings.TrimPrefix(r.URL.Path, "/v2/load_balancers/"))}
	case r.URL.Path == "/v2/certificates":
		answer = object{"certificates": []object{{"id": "certificate", "name": r.URL.Query().Get("name"), "type": "custom"}}}
	case strings.HasPrefix(r.URL.Path, "/v2/certificates/"):
		answer = object{"certificate": object{"id": strings.TrimPrefix(r.URL.Path, "/v2/certificates/"), "type": "custom"}}
	case r.URL.Path == "/v2/droplets":
		answer = object{"droplets": []object{{"id": 1, "name": "node-1"}}}
	default:
		status, answer = http.StatusNotFound, object{"id": "not_found", "message": "the simulated API has no " + r.URL.Path}
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)),
	}, nil
}

func balancer(id string) object {
	return object{"id": id, "name": "balancer", "status": "active", "ip": "203.0.113.1", "type": "REGIONAL_NETWORK"}
}
