package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/store"
	cloudtest "quaymaster.dev/test/harness/cloud"
)

// toldStore is a state whose other servers can be out of reach.
type toldStore struct {
	store.Store

	mu sync.Mutex
	// err is the error of telling others, and current that of following them.
	err, current error
	last         map[string]json.RawMessage
}

func (s *toldStore) Tell(_ context.Context, topic, _ string, message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.last[topic] = message
	}
	return s.err
}

func (s *toldStore) Current(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *toldStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// details returns what other servers know of an edge.
func (s *toldStore) details(t *testing.T) (d struct {
	Health    []cloudv1.MemberHealth `json:"health"`
	Announced []string               `json:"announced"`
}) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if raw := s.last["details"]; raw != nil {
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// withTold lets a server share its state.
func withTold(t *testing.T, told *toldStore) setting {
	t.Helper()
	if cloudtest.InEtcd() {
		t.Skip("the state is in etcd")
	}
	return func(o *server.Options) {
		o.EncryptionKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
		o.Store = func(o server.Options) (store.Store, error) {
			file, err := store.Open(filepath.Join(o.DataDir, server.StateFile), o.Clock)
			told.Store = file
			return told, err
		}
	}
}

// TestUnreachable: who has no token does not learn why the state cannot be reached.
func TestUnreachable(t *testing.T) {
	told := &toldStore{last: map[string]json.RawMessage{}}
	c := newCloud(t, withTold(t, told))
	told.mu.Lock()
	told.current = fmt.Errorf("%w: dial tcp 10.9.8.7:2379: connection refused", store.ErrUnavailable)
	told.mu.Unlock()
	for name, got := range map[string]answer{
		"readiness": c.send(http.MethodGet, "/readyz", nil, "Authorization", ""),
		"a guess":   c.send(http.MethodGet, "/v1/meta", nil, "Authorization", "Bearer guess"),
	} {
		if got.status != http.StatusServiceUnavailable || strings.Contains(string(got.body), "10.9.8.7") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	c.send(http.MethodGet, "/v1/meta", nil).want(t, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
}

// TestUntold: a server that could not tell others what an edge has reported says so, so that the edge reports everything
// again, to any of them; and it tells them later.
func TestUntold(t *testing.T) {
	told := &toldStore{last: map[string]json.RawMessage{}}
	c := newCloud(t, withTold(t, told))
	lb := c.createLB(tree("web"))
	edge := c.register("edge-1").ID
	full := cloudv1.Heartbeat{
		Health:   &[]cloudv1.MemberHealth{{LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: "ipv4", MemberKey: "a", State: cloudv1.OperatingOnline}},
		Counters: &[]cloudv1.ListenerCounter{}, Announced: &[]string{"203.0.113.1"},
	}
	eventually(t, "the server tells others", func() bool { return c.beat(edge, full).Complete && len(told.details(t).Health) == 1 })

	told.fail(errors.New("out of reach"))
	full.Announced = &[]string{"203.0.113.2"}
	diff(t, "complete while others are out of reach", false, c.beat(edge, full).Complete)
	diff(t, "complete while others still do not know it", false, c.beat(edge, cloudv1.Heartbeat{}).Complete)
	diff(t, "what others know", []string{"203.0.113.1"}, told.details(t).Announced)
	told.fail(nil)
	diff(t, "complete", true, c.beat(edge, cloudv1.Heartbeat{}).Complete)
	diff(t, "what others know later", []string{"203.0.113.2"}, told.details(t).Announced)
}

// TestAnnouncedBound: an edge reports as many addresses as the API allows, and not one more.
func TestAnnouncedBound(t *testing.T) {
	c := newCloud(t)
	edge := c.register("edge-1").ID
	var addresses []string
	for i := range cloudv1.MaxAnnounced {
		addresses = append(addresses, fmt.Sprintf("203.0.%d.%d", i/250, i%250))
	}
	c.beat(edge, cloudv1.Heartbeat{Announced: &addresses})
	addresses = append(addresses, "203.0.255.255")
	got := c.send(http.MethodPost, "/v1/edges/"+edge+":heartbeat", cloudv1.Heartbeat{Announced: &addresses}, "Authorization", "Bearer "+ownToken("edge-1"))
	if got.status != http.StatusBadRequest && got.status != http.StatusUnprocessableEntity {
		t.Errorf("one more: %d %s", got.status, got.body)
	}
	bad := c.send(http.MethodPost, "/v1/edges/"+edge+":heartbeat", `{"announced":["203.0.113.1","there","fe80::1%eth0"]}`, "Authorization", "Bearer "+ownToken("edge-1"))
	diff(t, "no addresses", []string{"/announced/1", "/announced/2"}, bad.want(t, http.StatusUnprocessableEntity, cloudv1.CodeInvalid).pointers())
}
