package state_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/edge/state"
	"quaymaster.dev/test/harness/cloud"
)

// follow follows a cloud from a state, and returns channels with the states and the errors.
func follow(t *testing.T, c *cloud.Cloud, from *state.State) (<-chan *state.State, <-chan error) {
	t.Helper()
	return followWith(t, c, from, clock.RealClock{})
}

// followWith follows with a clock by which failures wait.
func followWith(
	t *testing.T, c *cloud.Cloud, from *state.State, by clock.WithTicker,
) (<-chan *state.State, <-chan error) {
	t.Helper()
	states, errs := make(chan *state.State, 100), make(chan error, 100)
	f := state.Follower{
		Cloud: c.EdgeClient(t), Clock: by, OnState: func(s *state.State) { states <- s },
		OnError: func(err error) {
			if err != nil {
				errs <- err
			}
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Follow(ctx, from)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return states, errs
}

func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing happened")
		panic("unreachable")
	}
}

func group(t *testing.T, c *cloud.Cloud, name string) *cloudv1.NodeGroup {
	t.Helper()
	g, err := c.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestFollow(t *testing.T) {
	c := cloud.Start(t, 0)
	first := group(t, c, "first")
	states, _ := follow(t, c, state.New())
	if s := next(t, states); len(s.NodeGroups) != 1 || s.NodeGroups[first.ID].Name != "first" {
		t.Fatalf("listed %+v", s.NodeGroups)
	}
	second := group(t, c, "second")
	s := next(t, states)
	for s.NodeGroups[second.ID] == nil {
		s = next(t, states)
	}
	if err := c.Client.DeleteNodeGroup(t.Context(), first.ID, cloudapi.WriteOptions{IfMatch: first.Revision}); err != nil {
		t.Fatal(err)
	}
	for s = next(t, states); s.NodeGroups[first.ID] != nil; {
		s = next(t, states)
	}
	path := filepath.Join(t.TempDir(), "state.json")
	if err := s.Save(path); err != nil {
		t.Fatal(err)
	}
	// What an interrupted write has left is replaced, too: it has private keys.
	if err := os.WriteFile(path+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(path); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, error %v", files, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	loaded, err := state.Load(path)
	if err != nil || !reflect.DeepEqual(s, loaded) {
		t.Errorf("loaded %+v, error %v, want %+v", loaded, err, s)
	}
}

// A cloud or a proxy that answers requests for changes at once, again and again, gets few requests.
func TestHostileFeed(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"always another page": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", cloudv1.MediaTypeJSON)
			_, _ = io.WriteString(w, `{"revision":"1","items":[],"more":true}`)
		},
		"never knows the revision": func(w http.ResponseWriter) {
			cloud.Problem(w, http.StatusGone, cloudv1.CodePageTokenExpired)
		},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 250
			c := cloud.Start(t, 0)
			var asked atomic.Int64
			enough := make(chan struct{})
			c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/v1/changes" {
					return false
				}
				if asked.Add(1) == most {
					close(enough)
				}
				answer(w)
				return true
			})
			clock := clocktesting.NewFakeClock(time.Now())
			f := state.Follower{
				Cloud: c.EdgeClient(t), Clock: clock, OnState: func(*state.State) {}, OnError: func(error) {},
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				f.Follow(ctx, state.New())
			}()
			defer func() {
				cancel()
				<-ended
			}()
			for !clock.HasWaiters() {
				select {
				case <-enough:
					t.Fatalf("%d requests without a pause", most)
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}

// A cloud that has lost its objects does not take the load balancers from the edge.
func TestLostCloud(t *testing.T) {
	c := cloud.Start(t, 0)
	s := state.New()
	s.Revision = "1000000"
	for _, id := range []string{"lb-1", "lb-2", "lb-3"} {
		s.LoadBalancers[id] = &cloudv1.LoadBalancer{Object: cloudv1.Object{ID: id}}
	}
	states, errs := follow(t, c, s)
	if err := next(t, errs); !strings.Contains(err.Error(), "lacks 3 of 3 load balancers") {
		t.Errorf("got error %v", err)
	}
	select {
	case got := <-states:
		t.Errorf("the state was replaced by %+v", got)
	default:
	}
}

// Nor does one that has lost their members.
func TestLostNodeGroups(t *testing.T) {
	c := cloud.Start(t, 0)
	s := state.New()
	s.Revision = "1000000"
	for _, id := range []string{"ng-1", "ng-2"} {
		s.NodeGroups[id] = &cloudv1.NodeGroup{Object: cloudv1.Object{ID: id}}
	}
	_, errs := follow(t, c, s)
	if err := next(t, errs); !strings.Contains(err.Error(), "lacks 2 of 2 node groups") {
		t.Errorf("got error %v", err)
	}
}

// One load balancer less is no disaster.
func TestForgottenDeletion(t *testing.T) {
	c := cloud.Start(t, 0)
	s := state.New()
	s.Revision = "1000000"
	s.LoadBalancers["lb-1"] = &cloudv1.LoadBalancer{Object: cloudv1.Object{ID: "lb-1"}}
	states, _ := follow(t, c, s)
	if got := next(t, states); len(got.LoadBalancers) != 0 {
		t.Errorf("got %+v", got.LoadBalancers)
	}
}
