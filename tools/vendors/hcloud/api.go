package main

import (
	"net/http"
	"strconv"
	"strings"
)

// object is a resource of the API.
type object = map[string]any

// api simulates the cloud's API without a network: one load balancer at a time, and whatever certificate or network a
// request names. It accepts everything, so that errors are the controller's own.
type api struct {
	balancer     object
	certificates []object
}

func (a *api) answer(r *http.Request, body object) (status int, answer object) {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch path[0] {
	case "locations":
		return http.StatusOK, object{"locations": []object{{"id": 1, "name": "fsn1", "network_zone": "eu-central"}}}
	case "load_balancer_types":
		return http.StatusOK, object{"load_balancer_types": []object{balancerType("lb11"), balancerType("lb21"), balancerType("lb31")}}
	case "networks":
		return http.StatusOK, object{"network": object{"id": 7, "name": "network", "ip_range": "10.0.0.0/16"}}
	case "certificates":
		return a.certificate(r, path, body)
	case "load_balancers":
		return a.loadBalancer(r, path, body)
	}
	return http.StatusNotFound, object{"error": object{"code": "not_found", "message": "the simulated API has no " + r.URL.Path}}
}

func (a *api) loadBalancer(r *http.Request, path []string, body object) (status int, answer object) {
	switch {
	case r.Method == http.MethodPost && len(path) == 1:
		a.balancer = object{
			"id": 42, "name": body["name"], "labels": body["labels"], "load_balancer_type": balancerType("lb11"),
			"location": object{"id": 1, "name": "fsn1"}, "algorithm": object{"type": "round_robin"},
			"public_net": object{
				"enabled": body["public_interface"] != false, "ipv4": object{"ip": "203.0.113.1"}, "ipv6": object{"ip": "2001:db8::1"},
			},
			"private_net": []object{}, "services": []object{}, "targets": []object{},
		}
		return http.StatusCreated, object{"load_balancer": a.balancer, "action": done()}
	case len(path) == 1: // by label or name
		list := []object{}
		if a.balancer != nil {
			list = append(list, a.balancer)
		}
		return http.StatusOK, object{"load_balancers": list}
	case len(path) == 2 && r.Method == http.MethodPut:
		for key, value := range body {
			a.balancer[key] = value
		}
		return http.StatusOK, object{"load_balancer": a.balancer}
	case len(path) == 2:
		return http.StatusOK, object{"load_balancer": a.balancer}
	}
	return http.StatusCreated, object{"action": done()}
}

func (a *api) certificate(r *http.Request, path []string, body object) (status int, answer object) {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		one := certificate(8, body["name"])
		a.certificates = append(a.certificates, one)
		return http.StatusCreated, object{"certificate": one, "action": done()}
	case len(path) > 1:
		id, _ := strconv.Atoi(path[1])
		return http.StatusOK, object{"certificate": certificate(id, "certificate")}
	case query.Has("name"):
		return http.StatusOK, object{"certificates": []object{certificate(9, query.Get("name"))}}
	}
	return http.StatusOK, object{"certificates": append([]object{}, a.certificates...)}
}

func certificate(id int, name any) object {
	return object{"id": id, "name": name, "type": "managed"}
}

func balancerType(name string) object {
	return object{"id": 1, "name": name, "max_targets": 25, "max_services": 5}
}

func done() object {
	return object{"id": 1, "status": "success", "progress": 100, "command": "simulated"}
}
