package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/api/handler"
)

// register registers an edge by its name.
func (c *cloud) register(name string) *cloudv1.Edge {
	c.t.Helper()
	spec := cloudv1.EdgeSpec{Name: name, Token: ownToken(name), EdgeFields: cloudv1.EdgeFields{
		Zone: "eu-1a", Addresses: []string{"10.0.0.101"}, Capabilities: []string{cloudv1.EdgeDirect, cloudv1.EdgeProxy},
	}}
	e := must[*cloudv1.Edge](c.t)(c.registration.RegisterEdge(c.t.Context(), spec, cloudapi.WriteOptions{}))
	c.names[e.ID] = name
	return e
}

// beat sends a heartbeat.
func (c *cloud) beat(id string, h cloudv1.Heartbeat) *cloudv1.HeartbeatReply {
	c.t.Helper()
	return must[*cloudv1.HeartbeatReply](c.t)(c.heartbeat(id, h))
}

// heartbeat sends a heartbeat, which may fail.
func (c *cloud) heartbeat(id string, h cloudv1.Heartbeat) (*cloudv1.HeartbeatReply, error) {
	if c.names[id] == "" {
		// It has registered with an earlier server.
		c.names[id] = must[*cloudv1.Edge](c.t)(c.client.Edge(c.t.Context(), id)).Name
	}
	return c.with(ownToken(c.names[id])).Heartbeat(c.t.Context(), id, h)
}

func (c *cloud) edgeState(id string) string {
	c.t.Helper()
	return must[*cloudv1.Edge](c.t)(c.client.Edge(c.t.Context(), id)).State
}

func TestRegisterEdge(t *testing.T) {
	c := newCloud(t)
	e := c.register("edge-1")
	if !strings.HasPrefix(e.ID, "edge-") || e.State != cloudv1.EdgeActive || e.HeartbeatAt != nil || e.AppliedRevision != "" {
		t.Errorf("a new edge: %+v", e)
	}
	again := c.register("edge-1")
	diff(t, "id and revision of an edge that registers again", []string{e.ID, e.Revision}, []string{again.ID, again.Revision})
	c.send("POST", "/v1/edges", cloudv1.EdgeSpec{Name: "edge-1", Token: ownToken("edge-1")}, "Authorization", "Bearer "+edgeToken).want(t, 200, "")
	c.send("POST", "/v1/edges", cloudv1.EdgeSpec{Name: "edge-2", Token: ownToken("edge-2")}, "Authorization", "Bearer "+edgeToken).want(t, 201, "")
	got := c.send("POST", "/v1/edges", `{"name":"x","addresses":["there"],"tags":{" ":""}}`, "Authorization", "Bearer "+edgeToken).
		want(t, 422, cloudv1.CodeInvalid)
	diff(t, "invalid fields", []string{"/tags/ ", "/addresses/0"}, got.pointers())

	// A drain is an operator's decision, which a restart of the machine does not end.
	drained := must[*cloudv1.Edge](t)(
		c.client.PatchEdge(t.Context(), e.ID, cloudv1.EdgePatch{Draining: new(true)}, cloudapi.WriteOptions{}),
	)
	diff(t, "state", cloudv1.EdgeDraining, drained.State)
	diff(t, "state of an edge that registers again", cloudv1.EdgeDraining, c.register("edge-1").State)
	drained = must[*cloudv1.Edge](t)(
		c.client.PatchEdge(t.Context(), e.ID, cloudv1.EdgePatch{Draining: new(false)}, cloudapi.WriteOptions{}),
	)
	diff(t, "state", cloudv1.EdgeActive, drained.State)
	path := "/v1/edges/" + e.ID
	c.send("PATCH", path, `{"draining":true}`, "If-Match", `"0"`).want(t, 412, cloudv1.CodeStaleRevision)
	c.send("PATCH", path+"?dry_run=true", `{"draining":true}`).want(t, 200, "")
	diff(t, "state after a dry run", cloudv1.EdgeActive, c.edgeState(e.ID))
	c.send("DELETE", path, nil).want(t, 200, "")
	c.send("GET", path, nil).want(t, 404, cloudv1.CodeResourceNotFound)
	_, err := c.heartbeat(e.ID, cloudv1.Heartbeat{})
	if !cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		t.Errorf("heartbeat of a deleted edge: %v", err)
	}
}

// TestRoles checks what each token must not do.
func TestRoles(t *testing.T) {
	c := newCloud(t)
	edge, cert := c.register("edge-1"), c.createCertificate("shop", newPair(t, "shop.example.com"))
	asEdge := []string{"Authorization", "Bearer " + ownToken("edge-1")}
	for _, path := range []string{
		"/v1/meta", "/v1/load-balancers?expand=tree", "/v1/node-groups", "/v1/edges", "/v1/certificates", "/v1/changes?since=0",
	} {
		c.send("GET", path, nil, asEdge...).want(t, 200, "")
	}
	c.send("POST", "/v1/instances:lookup", `{"ids":["i-node-1"]}`, asEdge...).want(t, 200, "")
	for _, call := range [][2]string{
		{"POST", "/v1/load-balancers"}, {"PUT", "/v1/load-balancers/lb-1"}, {"DELETE", "/v1/load-balancers/lb-1"},
		{"POST", "/v1/node-groups"}, {"PATCH", "/v1/node-groups/ng-1/members"}, {"POST", "/v1/certificates"},
		{"DELETE", "/v1/certificates/" + cert.ID}, {"PATCH", "/v1/edges/" + edge.ID}, {"DELETE", "/v1/edges/" + edge.ID},
		{"POST", "/v1/instances/i-node-1:stop"},
	} {
		c.send(call[0], call[1], `{}`, "Authorization", "Bearer "+edgeToken).want(t, 403, cloudv1.CodeForbidden)
		got := c.send(call[0], call[1], `{}`, asEdge...).want(t, 403, cloudv1.CodeForbidden)
		if !strings.Contains(got.problem.Detail, "admin, not edge") {
			t.Errorf("%v: %s", call, got.problem.Detail)
		}
	}
	for _, call := range [][2]string{
		{"POST", "/v1/edges"}, {"POST", "/v1/edges/" + edge.ID + ":heartbeat"}, {"GET", "/v1/certificates/" + cert.ID + "/key-pair"},
	} {
		var body any
		if call[0] == "POST" {
			body = `{}`
		}
		c.send(call[0], call[1], body).want(t, 403, cloudv1.CodeForbidden)
	}
	c.send("GET", "/v1/meta", nil, "Authorization", "Bearer ").want(t, 401, cloudv1.CodeUnauthenticated)

	without := newCloud(t, func(o *server.Options) { o.EdgeToken, o.EdgeTokens = "", nil })
	for _, secret := range []string{edgeToken, ""} {
		without.send("POST", "/v1/edges", `{"name":"x"}`, "Authorization", "Bearer "+secret).
			want(t, 401, cloudv1.CodeUnauthenticated)
	}
	meta := must[*cloudv1.Meta](t)(without.client.Meta(t.Context()))
	if strings.Contains(strings.Join(meta.Capabilities, " "), cloudv1.CapabilityEdges) {
		t.Errorf("a cloud without edges offers %v", meta.Capabilities)
	}
}

// TestTokensOfEdges checks that an edge with a token of its own reports under no other name, and that no other token
// reports under its name.
func TestTokensOfEdges(t *testing.T) {
	c := newCloud(t, func(o *server.Options) { o.EdgeTokens = map[string]string{"edge-1": "one", "edge-2": "two"} })
	as := func(secret string) []string { return []string{"Authorization", "Bearer " + secret} }
	ids := map[string]string{}
	for name, secret := range map[string]string{"edge-1": "one", "edge-2": "two"} {
		got := c.send("POST", "/v1/edges", cloudv1.EdgeSpec{Name: name}, as(secret)...).want(t, 201, "")
		ids[name] = decode[cloudv1.Edge](t, got).ID
		c.send("POST", "/v1/edges/"+ids[name]+":heartbeat", `{"applied_revision":""}`, as(secret)...).want(t, 200, "")
		c.send("GET", "/v1/load-balancers", nil, as(secret)...).want(t, 200, "")
		c.send("POST", "/v1/node-groups", `{}`, as(secret)...).want(t, 403, cloudv1.CodeForbidden)
	}
	for _, test := range []struct{ name, secret, want string }{
		{"edge-2", "one", `the token is that of edge "edge-1", not of edge "edge-2"`},
	} {
		for path, body := range map[string]any{
			"/v1/edges": cloudv1.EdgeSpec{Name: test.name},
			"/v1/edges/" + ids[test.name] + ":heartbeat": `{"applied_revision":"1"}`,
		} {
			got := c.send("POST", path, body, as(test.secret)...).want(t, 403, cloudv1.CodeForbidden)
			if !strings.Contains(got.problem.Detail, test.want) {
				t.Errorf("%s as %q: %q lacks %q", path, test.secret, got.problem.Detail, test.want)
			}
		}
	}
	got := c.send("POST", "/v1/edges", cloudv1.EdgeSpec{Name: "edge-1", Token: ownToken("edge-1")}, as(edgeToken)...).want(t, 403, cloudv1.CodeForbidden)
	if want := `edge "edge-1" has a token of its own`; !strings.Contains(got.problem.Detail, want) {
		t.Errorf("%q lacks %q", got.problem.Detail, want)
	}
	read := must[*cloudv1.Edge](t)(c.client.Edge(t.Context(), ids["edge-1"]))
	diff(t, "what a refused heartbeat reported", "0", read.AppliedRevision)

	// A compromised edge does not lock out the controllers of a cluster, whose UID it can read.
	c.send("POST", "/v1/edges", cloudv1.EdgeSpec{Name: "edge-1"},
		append(as("one"), cloudv1.HeaderFence, "cluster;epoch=1000000")...).want(t, 403, cloudv1.CodeForbidden)
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "of-the-leader"},
		cloudv1.HeaderFence, "cluster;epoch=1").want(t, 201, "")

	// Without a shared token, there are only edges with tokens of their own.
	bound := newCloud(t, func(o *server.Options) { o.EdgeToken, o.EdgeTokens = "", map[string]string{"edge-1": "one"} })
	bound.send("POST", "/v1/edges", cloudv1.EdgeSpec{Name: "edge-1"}, as("one")...).want(t, 201, "")
	bound.send("POST", "/v1/edges", cloudv1.EdgeSpec{Name: "edge-1"}, as("")...).want(t, 401, cloudv1.CodeUnauthenticated)
	meta := must[*cloudv1.Meta](t)(bound.client.Meta(t.Context()))
	if !strings.Contains(strings.Join(meta.Capabilities, " "), cloudv1.CapabilityEdges) {
		t.Errorf("a cloud with edges offers %v", meta.Capabilities)
	}
}

// TestSharedTokenRegistersOnly checks that the token that edges share neither reads anything but the id of the cloud nor speaks for an edge that
// exists, whatever that one does.
func TestSharedTokenRegistersOnly(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	shared := []string{"Authorization", "Bearer " + edgeToken}
	victim := c.register("victim")
	// It may learn which cloud this is.
	c.send("GET", "/v1/meta", nil, shared...).want(t, 200, "")
	for _, path := range []string{
		"/v1/load-balancers", "/v1/edges", "/v1/edges/" + victim.ID, "/v1/certificates/cert-1/key-pair",
		"/v1/changes?since=0",
	} {
		got := c.send("GET", path, nil, shared...).want(t, 403, cloudv1.CodeForbidden)
		if !strings.Contains(got.problem.Detail, "requires the edge's own token; that which edges share only registers") {
			t.Errorf("%s: %s", path, got.problem.Detail)
		}
	}
	c.send("POST", "/v1/edges/"+victim.ID+":heartbeat", `{"applied_revision":"1"}`, shared...).want(t, 403, cloudv1.CodeForbidden)
	takes := func(secret string) answer {
		t.Helper()
		spec := cloudv1.EdgeSpec{Name: "victim", Token: secret, EdgeFields: cloudv1.EdgeFields{Draining: true, Zone: "eu-1c"}}
		return c.send("POST", "/v1/edges", spec, shared...)
	}
	diff(t, "invalid fields", []string{"/token"}, takes("").want(t, 422, cloudv1.CodeInvalid).pointers())
	takes("short").want(t, 422, cloudv1.CodeInvalid)
	takes(ownToken("attacker")).want(t, 409, cloudv1.CodeConflict)
	eventually(t, "the victim is offline", func() bool {
		clock.Step(time.Second)
		return c.edgeState(victim.ID) == cloudv1.EdgeOffline
	})
	got := takes(ownToken("attacker")).want(t, 409, cloudv1.CodeConflict)
	if want := "delete edge " + victim.ID + " if its machine is gone"; !strings.Contains(got.problem.Detail, want) {
		t.Errorf("%q lacks %q", got.problem.Detail, want)
	}
	c.beat(victim.ID, cloudv1.Heartbeat{})
	diff(t, "state of the victim", cloudv1.EdgeActive, c.edgeState(victim.ID))
	// Members must not have addresses of edges.
	claims := cloudv1.EdgeSpec{Name: "claims", Token: ownToken("claims"), EdgeFields: cloudv1.EdgeFields{Addresses: []string{"10.0.0.11"}}}
	diff(t, "invalid fields", []string{"/addresses/0"}, c.send("POST", "/v1/edges", claims, shared...).want(t, 422, cloudv1.CodeInvalid).pointers())
	// The own token is that of one edge, and no response has it.
	c.send("POST", "/v1/edges", cloudv1.EdgeSpec{Name: "copy", Token: ownToken("victim")}, shared...).want(t, 409, cloudv1.CodeConflict)
	other := c.register("other")
	if _, err := c.with(ownToken("victim")).Heartbeat(t.Context(), other.ID, cloudv1.Heartbeat{}); !cloudapi.HasCode(err, cloudv1.CodeForbidden) {
		t.Errorf("a heartbeat as another edge: %v", err)
	}
	if all := c.send("GET", "/v1/edges", nil); bytes.Contains(all.body, []byte(ownToken("victim"))) {
		t.Errorf("a token is shown: %s", all.body)
	}
	// After a restart of the server, own tokens are still known.
	c.stop()
	again := newCloud(t, withClock(clock), withDir(c.dir))
	again.beat(victim.ID, cloudv1.Heartbeat{})
	must[*cloudv1.Meta](t)(again.with(ownToken("victim")).Meta(t.Context()))
}

// TestOneMachinePerName checks that a second machine with the token and the name of an edge is refused until the first one
// is offline.
func TestOneMachinePerName(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock), func(o *server.Options) { o.EdgeTokens = map[string]string{"edge-1": "one"} })
	ctx := t.Context()
	register := func(machine string) (*cloudv1.Edge, error) {
		spec := cloudv1.EdgeSpec{Name: "edge-1", Token: ownToken(machine)}
		return c.with("one").RegisterEdge(ctx, spec, cloudapi.WriteOptions{})
	}
	beat := func(id, machine string) error {
		_, err := c.with(ownToken(machine)).Heartbeat(ctx, id, cloudv1.Heartbeat{})
		return err
	}
	refused := func(what, code string, err error) {
		t.Helper()
		if !cloudapi.HasCode(err, code) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	accepted := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	e, err := register("one")
	accepted("first machine", err)
	_, err = register("two")
	refused("second machine", cloudv1.CodeConflict, err)
	refused("its heartbeat", cloudv1.CodeUnauthenticated, beat(e.ID, "two"))
	_, err = register("one")
	accepted("restart", err)
	accepted("heartbeat", beat(e.ID, "one"))

	eventually(t, "the edge is offline", func() bool {
		clock.Step(time.Second)
		return c.edgeState(e.ID) == cloudv1.EdgeOffline
	})
	_, err = register("two")
	accepted("second machine, while the first one is offline", err)
	refused("heartbeat of the first one, before the second one's", cloudv1.CodeUnauthenticated, beat(e.ID, "one"))
	accepted("its heartbeat", beat(e.ID, "two"))
}

// TestHeartbeats checks that what an edge reports is shown, and that it writes nothing to the disk unless it is news.
func TestHeartbeats(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	e := c.register("edge-1")
	before := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision
	fault := cloudv1.EdgeFault{LoadBalancerID: "lb-1", ListenerKey: "tcp/443", Detail: "certificate cert-1 does not exist"}
	got := c.beat(e.ID, cloudv1.Heartbeat{AppliedRevision: before, Faults: []cloudv1.EdgeFault{fault}})
	diff(t, "first reply", &cloudv1.HeartbeatReply{Complete: false, IntervalMS: 2000}, got)
	news := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision
	if news == before {
		t.Error("those who follow changes do not learn of a fault")
	}
	health, counters := []cloudv1.MemberHealth{}, []cloudv1.ListenerCounter{}
	got = c.beat(e.ID, cloudv1.Heartbeat{AppliedRevision: before, Faults: []cloudv1.EdgeFault{fault}, Health: &health, Counters: &counters})
	diff(t, "complete", true, got.Complete)
	diff(t, "complete", true, c.beat(e.ID, cloudv1.Heartbeat{AppliedRevision: before, Faults: []cloudv1.EdgeFault{fault}}).Complete)
	read := must[*cloudv1.Edge](t)(c.client.Edge(t.Context(), e.ID))
	diff(t, "applied revision", numberOf(before), read.AppliedRevision)
	diff(t, "faults", []cloudv1.EdgeFault{fault}, read.Faults)
	diff(t, "time of the heartbeat", clock.Now(), *read.HeartbeatAt)
	diff(t, "time of the news", clock.Now(), *read.HealthChangedAt)
	diff(t, "revision of the cloud", news, must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision)

	c.beat(e.ID, cloudv1.Heartbeat{AppliedRevision: numberOf(before) + "0"})
	read = must[*cloudv1.Edge](t)(c.client.Edge(t.Context(), e.ID))
	diff(t, "applied revision of an edge that is ahead of the cloud", "0", read.AppliedRevision)
	diff(t, "faults", []cloudv1.EdgeFault{}, read.Faults)
	_, err := c.heartbeat(e.ID, cloudv1.Heartbeat{AppliedRevision: "x"})
	if !cloudapi.HasCode(err, cloudv1.CodeInvalid) {
		t.Errorf("a malformed revision: %v", err)
	}
	many := make([]cloudv1.EdgeFault, 20001)
	if _, err := c.heartbeat(e.ID, cloudv1.Heartbeat{Faults: many}); !cloudapi.HasCode(err, cloudv1.CodeInvalid) {
		t.Errorf("too many faults: %v", err)
	}
	huge := []cloudv1.MemberHealth{{State: "online", Detail: strings.Repeat("x", 33<<20)}}
	_, err = c.heartbeat(e.ID, cloudv1.Heartbeat{Health: &huge})
	if answer, ok := errors.AsType[*cloudapi.Error](err); !ok || answer.Status != 413 {
		t.Errorf("a body of 33 MiB: %v", err)
	}

	// The output of a program that rejects a configuration can be long.
	fault.Detail = strings.Repeat("x", 2000)
	c.beat(e.ID, cloudv1.Heartbeat{AppliedRevision: before, Faults: []cloudv1.EdgeFault{fault}})
	read = must[*cloudv1.Edge](t)(c.client.Edge(t.Context(), e.ID))
	diff(t, "bytes of a long fault", 1024, len(read.Faults[0].Detail))
}

// TestHostileHeartbeats checks that what an edge sends is bounded, and that none of it is believed that is not valid.
func TestHostileHeartbeats(t *testing.T) {
	c := newCloud(t)
	path := "/v1/edges/" + c.register("edge-1").ID + ":heartbeat"
	long := strings.Repeat("x", 300)
	for body, pointer := range map[string]string{
		`{"applied_revision":"-1"}`: "/applied_revision",
		`{"applied_revision":"1","health":[{"state":"online","family":"ipv4","pool_key":"` + long + `"}]}`: "/health/0",
		`{"applied_revision":"1","health":[{"state":"fine","family":"ipv4"}]}`:                             "/health/0/state",
		`{"applied_revision":"1","health":[{"state":"online","family":"ipv5"}]}`:                           "/health/0/family",
		`{"applied_revision":"1","faults":[{"load_balancer_id":"` + long + `"}]}`:                          "/faults/0",
		`{"applied_revision":"1","announced":["10.0.0.1","<b>"]}`:                                          "/announced/1",
		`{"applied_revision":"1","counters":[{"family":"ipv5"}]}`:                                          "/counters/0/family",
	} {
		got := c.send("POST", path, body, "Authorization", "Bearer "+ownToken("edge-1")).want(t, 422, cloudv1.CodeInvalid)
		diff(t, "invalid fields", []string{pointer}, got.pointers())
	}
	for _, body := range []string{
		`{"health":{}}`, `{"health":[1]}`, `{"counters":[{"accepted":-1}]}`, `[]`, `{"faults":[{}`,
		`{"health":[` + strings.Repeat("{},", 100_000) + `{}]}`,
		`{"faults":[` + strings.Repeat("{},", 10<<20) + `{}]}`,
	} {
		answer := c.send("POST", path, body, "Authorization", "Bearer "+ownToken("edge-1"))
		if answer.status != 400 && answer.status != 422 {
			t.Errorf("%.30s: status %d", body, answer.status)
		}
	}
}

// TestLargeHeartbeats checks that an edge with many members does not take seconds of the server with each change of one.
func TestLargeHeartbeats(t *testing.T) {
	c := newCloud(t)
	e := c.register("edge-1")
	health := make([]cloudv1.MemberHealth, 50_000)
	for i := range health {
		health[i] = cloudv1.MemberHealth{
			LoadBalancerID: "lb-1", PoolKey: "tcp/80", Family: cloudv1.FamilyIPv4, MemberKey: strconv.Itoa(i), State: "online",
		}
	}
	raw, err := json.Marshal(cloudv1.Heartbeat{AppliedRevision: "1", Health: &health})
	if err != nil {
		t.Fatal(err)
	}
	// The usual client of these tests checks requests itself, which takes longer than the server.
	allocations := testing.AllocsPerRun(1, func() {
		request, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/v1/edges/"+e.ID+":heartbeat", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+ownToken("edge-1"))
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != 200 {
			t.Errorf("status %d, error %v", answer.StatusCode, err)
		}
	})
	// Time depends on the machine. Decoded into maps, it would take 20 allocations a member.
	if limit := 10.0 * float64(len(health)); allocations > limit {
		t.Errorf("%.0f allocations, want at most %.0f", allocations, limit)
	}
}

// TestHeartbeatsAreNotLimited checks that the requests of others cannot make an edge count as offline.
func TestHeartbeatsAreNotLimited(t *testing.T) {
	c := newCloud(t, func(o *server.Options) { o.Limits = handler.RateLimits{Read: 100, Write: 1} })
	e := c.register("edge-1")
	for range 5 {
		c.beat(e.ID, cloudv1.Heartbeat{})
	}
	if _, err := c.registration.RegisterEdge(t.Context(), cloudv1.EdgeSpec{Name: "edge-2", Token: ownToken("edge-2")}, cloudapi.WriteOptions{}); err == nil {
		t.Fatal("the limit does not apply to writes")
	}
	c.beat(e.ID, cloudv1.Heartbeat{})
}

func TestOffline(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	e := c.register("edge-1")
	since := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision
	for range 10 {
		clock.Step(5 * time.Second)
		c.beat(e.ID, cloudv1.Heartbeat{})
		diff(t, "state", cloudv1.EdgeActive, c.edgeState(e.ID))
	}
	diff(t, "changes while heartbeats arrive", 0, len(c.changes(since, cloudv1.KindEdge).Items))
	goOffline := func() {
		t.Helper()
		eventually(t, "it is offline", func() bool {
			clock.Step(time.Second)
			return c.edgeState(e.ID) == cloudv1.EdgeOffline
		})
	}
	goOffline()
	diff(t, "changes", []string{"edge " + e.ID + " upsert"}, short(c.changes(since, cloudv1.KindEdge)))
	diff(t, "state after it has registered, and before a heartbeat", cloudv1.EdgeOffline, c.register("edge-1").State)
	c.beat(e.ID, cloudv1.Heartbeat{})
	diff(t, "state", cloudv1.EdgeActive, c.edgeState(e.ID))

	// After a restart of the server, the edge has the time of three intervals for a heartbeat.
	c.stop()
	clock.Step(time.Hour)
	c = newCloud(t, withClock(clock), withDir(c.dir))
	clock.Step(5 * time.Second)
	diff(t, "state after a restart of the server", cloudv1.EdgeActive, c.edgeState(e.ID))
	diff(t, "complete after a restart of the server", false, c.beat(e.ID, cloudv1.Heartbeat{}).Complete)
	goOffline()
}
