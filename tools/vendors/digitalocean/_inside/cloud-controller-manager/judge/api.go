package main

import (
	"net/http"
	"strings"
)

type object = map[string]any

// answer is the cloud's API. It accepts everything, so that errors are the controller's own: there is no load balancer yet,
// and whatever certificate a request names.
func answer(r *http.Request, _ object) (int, object) {
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v2/load_balancers":
		return http.StatusAccepted, object{"load_balancer": balancer("new")}
	case r.URL.Path == "/v2/load_balancers":
		return http.StatusOK, object{"load_balancers": []object{}}
	case strings.HasPrefix(r.URL.Path, "/v2/load_balancers/"):
		return http.StatusOK, object{"load_balancer": balancer(strings.TrimPrefix(r.URL.Path, "/v2/load_balancers/"))}
	case r.URL.Path == "/v2/certificates":
		return http.StatusOK, object{"certificates": []object{{"id": "certificate", "name": r.URL.Query().Get("name"), "type": "custom"}}}
	case strings.HasPrefix(r.URL.Path, "/v2/certificates/"):
		return http.StatusOK, object{"certificate": object{"id": strings.TrimPrefix(r.URL.Path, "/v2/certificates/"), "type": "custom"}}
	case r.URL.Path == "/v2/droplets":
		return http.StatusOK, object{"droplets": []object{{"id": 1, "name": "node-1"}}}
	}
	return http.StatusNotFound, object{"id": "not_found", "message": "the simulated API has no " + r.URL.Path}
}

func balancer(id string) object {
	return object{"id": id, "name": "balancer", "status": "active", "ip": "203.0.113.1", "type": "REGIONAL_NETWORK"}
}
