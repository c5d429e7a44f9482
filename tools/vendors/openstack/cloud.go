package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	nodeIPv4, nodeIPv6 = "198.18.0.10", "fd00::10"
	external           = "external"
	created            = "created"
	nodeSubnet         = "nodes"
	active             = "ACTIVE"
)

// cloud answers for every API of OpenStack.
type cloud struct {
	service *corev1.Service
	// network is the one that floating subnets belong to.
	network string
	// balancer is the load balancer that the Service has created.
	balancer map[string]any
}

// versions are those that the APIs announce; the controller looks at the last one of Octavia for what it supports.
var versions = map[string][]map[string]string{
	"/octavia/":  {{"id": "v2.0", "status": "SUPPORTED"}, {"id": "v2.27", "status": "CURRENT"}},
	"/neutron/":  {{"id": "v2.0", "status": "CURRENT"}},
	"/barbican/": {{"id": "v1", "status": "CURRENT"}},
}

var _ http.Handler = (*cloud)(nil)

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := http.StatusOK, any(nil)
	switch {
	case strings.HasPrefix(r.URL.Path, "/v3/auth"):
		w.Header().Set("X-Subject-Token", "token")
		status, body = http.StatusCreated, c.token("http://"+r.Host)
	case versions[r.URL.Path] != nil:
		body = map[string]any{"versions": versions[r.URL.Path]}
	case strings.HasPrefix(r.URL.Path, "/octavia/"):
		status, body = c.octavia(r)
	case strings.HasPrefix(r.URL.Path, "/neutron/"):
		status, body = c.neutron(r)
	case strings.HasPrefix(r.URL.Path, "/barbican/"):
		body = map[string]any{"container_ref": r.URL.Path, "secret_ref": r.URL.Path, "status": active}
	default:
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_ = json.NewEncoder(w).Encode(body)
	}
}

// token is the answer to a login, with the endpoints of all APIs.
func (c *cloud) token(host string) any {
	var catalog []any
	for kind, folder := range map[string]string{"network": "neutron", "load-balancer": "octavia", "key-manager": "barbican"} {
		catalog = append(catalog, map[string]any{"type": kind, "name": folder, "endpoints": []any{map[string]any{
			"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": host + "/" + folder + "/",
		}}})
	}
	return map[string]any{"token": map[string]any{"expires_at": "2999-01-01T00:00:00.000000Z", "catalog": catalog}}
}

// singular are the names of resources in requests and responses.
var singular = map[string]string{
	"loadbalancers": "loadbalancer", "listeners": "listener", "pools": "pool", "healthmonitors": "healthmonitor",
	"members": "member", "l7policies": "l7policy", "rules": "rule", "floatingips": "floatingip", "subnets": "subnet",
}

func (c *cloud) octavia(r *http.Request) (int, any) {
	resource := strings.TrimPrefix(r.URL.Path, "/octavia/")
	last := path.Base(resource)
	switch {
	case r.Method == http.MethodPost:
		return http.StatusCreated, c.create(r, last)
	case r.Method != http.MethodGet:
		return http.StatusAccepted, map[string]any{}
	case path.Base(path.Dir(resource)) == "loadbalancers":
		return http.StatusOK, map[string]any{"loadbalancer": c.get(last)}
	case last == "loadbalancers" && c.balancer != nil && r.URL.Query().Get("name") == c.balancer["name"]:
		return http.StatusOK, map[string]any{last: []any{c.balancer}}
	}
	return http.StatusOK, map[string]any{last: []any{}}
}

// create answers with the resource as it was requested, and with an id.
func (c *cloud) create(r *http.Request, resource string) any {
	requested, name := map[string]map[string]any{}, singular[resource]
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &requested)
	created := map[string]any{"id": created, "provisioning_status": active, "operating_status": "ONLINE"}
	for _, key := range []string{"name", "protocol", "lb_algorithm", "tags"} {
		if value, set := requested[name][key]; set {
			created[key] = value
		}
	}
	if resource == "loadbalancers" {
		c.balancer = created
		c.address(created)
	}
	if resource == "floatingips" {
		created["floating_ip_address"] = "203.0.113.5"
	}
	return map[string]any{name: created}
}

// get returns the load balancer of the Service, or else one that is shared with it.
func (c *cloud) get(id string) map[string]any {
	if id == created && c.balancer != nil {
		return c.balancer
	}
	balancer := map[string]any{"id": id, "name": "shared", "provisioning_status": active}
	c.address(balancer)
	return balancer
}

func (c *cloud) address(balancer map[string]any) {
	balancer["vip_address"], balancer["vip_port_id"], balancer["vip_subnet_id"] = "198.18.0.20", "vip", nodeSubnet
	if families := c.service.Spec.IPFamilies; len(families) > 0 && families[0] == corev1.IPv6Protocol {
		balancer["vip_address"] = "fd00::20"
	}
}

func (c *cloud) neutron(r *http.Request) (int, any) {
	resource := strings.TrimPrefix(r.URL.Path, "/neutron/v2.0/")
	last := path.Base(resource)
	switch {
	case r.Method == http.MethodPost:
		return http.StatusCreated, c.create(r, last)
	case r.Method != http.MethodGet:
		return http.StatusOK, map[string]any{}
	case strings.HasPrefix(resource, "subnets/"):
		return http.StatusOK, map[string]any{"subnet": map[string]any{"id": last, "network_id": c.network}}
	case resource == "networks":
		return http.StatusOK, map[string]any{last: []any{map[string]any{
			"id": external, "router:external": true, "subnets": []string{"public"},
		}}}
	case resource == "subnets":
		return http.StatusOK, map[string]any{last: []any{map[string]any{
			"id": "public", "name": "public", "network_id": c.network, "ip_version": 4,
		}}}
	case resource == "ports":
		return http.StatusOK, map[string]any{last: []any{map[string]any{"id": "port", "fixed_ips": []any{
			map[string]any{"ip_address": nodeIPv4, "subnet_id": nodeSubnet}, map[string]any{"ip_address": nodeIPv6, "subnet_id": nodeSubnet},
		}}}}
	case resource == "floatingips" && r.URL.Query().Get("port_id") == "" && r.URL.Query().Get("floating_ip_address") != "":
		return http.StatusOK, map[string]any{last: []any{map[string]any{"id": "fip", "floating_ip_address": r.URL.Query().Get("floating_ip_address")}}}
	case strings.Count(resource, "/") > 0:
		return http.StatusNotFound, map[string]any{}
	}
	return http.StatusOK, map[string]any{strings.ReplaceAll(last, "-", "_"): []any{}}
}
