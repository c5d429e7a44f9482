package server_test

import (
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

// TestState: a client that names the state it has seen is rejected by a different cloud, and by one that was restored to a
// state before it; a restart changes nothing.
func TestState(t *testing.T) {
	c := newCloud(t)
	create := func(name string, seen ...string) answer {
		t.Helper()
		var headers []string
		for _, s := range seen {
			headers = append(headers, cloudv1.HeaderState, s)
		}
		return c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: name}, headers...)
	}
	meta := must[*cloudv1.Meta](t)(c.client.Meta(t.Context()))
	kept := create("kept").want(t, 201, "").header.Get(cloudv1.HeaderState)
	if id, _, _ := strings.Cut(kept, ";"); id != meta.ID || id == "" {
		t.Errorf("a write in cloud %q has the state %q", meta.ID, kept)
	}
	c.stop()
	backup := t.TempDir()
	etcdtest.CopyState(t, c.dir, backup)
	c = newCloud(t, withDir(c.dir))
	lost := create("lost", kept).want(t, 201, "").header.Get(cloudv1.HeaderState)
	if lost == kept {
		t.Errorf("the state is %s before and after a write", kept)
	}
	c.send("GET", "/v1/node-groups", nil, cloudv1.HeaderState, lost).want(t, 200, "")
	c.stop()

	c = newCloud(t, withDir(backup))
	for range 2 {
		create("restored", lost).want(t, 412, "other-state")
		c.send("GET", "/v1/node-groups", nil, cloudv1.HeaderState, lost).want(t, 412, "other-state")
		create("restored", kept).want(t, 201, "") // its number is that of the lost one
		c.send("DELETE", "/v1/node-groups/"+decode[cloudv1.List[cloudv1.NodeGroup]](t,
			c.send("GET", "/v1/node-groups?name=restored", nil)).Items[0].ID, nil, "If-Match", "*")
	}
	if now := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())); now.ID != meta.ID {
		t.Errorf("the restored cloud is %s, was %s", now.ID, meta.ID)
	}
	c.stop()

	c = newCloud(t)
	create("elsewhere", kept).want(t, 412, "other-state")
	create("elsewhere", "kept").want(t, 400, "invalid")
	stranger, err := c.http.Get(c.url + "/v1/meta")
	if err != nil {
		t.Fatal(err)
	}
	_ = stranger.Body.Close()
	if state := stranger.Header.Get(cloudv1.HeaderState); stranger.StatusCode != 401 || state != "" {
		t.Errorf("a stranger gets status %d and the state %q", stranger.StatusCode, state)
	}
}

// TestAddressAsked: a new load balancer gets the address that it asks for if that is free, and no other instead.
func TestAddressAsked(t *testing.T) {
	c := newCloud(t)
	create := func(name, address string) answer {
		spec := cloudv1.LoadBalancerSpec{Name: name, LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: cloudv1.VIPModeVIP, Address: address}},
			Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
		}}
		return c.send("POST", "/v1/load-balancers", spec)
	}
	first := decode[cloudv1.LoadBalancer](t, create("first", "").want(t, 201, ""))
	address := first.VIPs[0].Address
	create("second", address).want(t, 409, "address-taken")
	if err := deleteLoadBalancer(t, c, first.ID); err != nil {
		t.Fatal(err)
	}
	again := decode[cloudv1.LoadBalancer](t, create("second", address).want(t, 201, ""))
	if got := again.VIPs[0].Address; got != address {
		t.Errorf("address %s, want %s", got, address)
	}
	for _, foreign := range []string{"192.0.2.1", "10.0.0.300", "2001:db8::1"} {
		refused := create("third", foreign).want(t, 422, "invalid")
		if len(refused.problem.Errors) != 1 || refused.problem.Errors[0].Pointer != "/vips/0/address" {
			t.Errorf("%s: %+v", foreign, refused.problem)
		}
	}
}

func deleteLoadBalancer(t *testing.T, c *cloud, id string) error {
	t.Helper()
	lb := must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(t.Context(), id))
	_, err := c.client.DeleteLoadBalancer(t.Context(), id, cloudapi.WriteOptions{IfMatch: lb.Revision})
	return err
}
