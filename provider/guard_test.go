package provider_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider"
	"quaymaster.dev/test/cloud"
)

// guarded is a provider in a cluster with the Nodes of the test.
type guarded struct {
	cloudprovider.InstancesV2

	t        *testing.T
	cloud    *cloud.Cloud
	provider *provider.Provider
	nodes    cache.Indexer
	clock    *clocktesting.FakePassiveClock
	events   chan string
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	// A full recorder would block.
	recorder := record.NewFakeRecorder(1000)
	g := &guarded{
		t: t, cloud: cloud.Start(t, 0), clock: clocktesting.NewFakePassiveClock(time.Now()), events: recorder.Events,
	}
	g.provider = provider.New(provider.Options{Cloud: g.cloud.Client, Recorder: recorder, Clock: g.clock})
	g.InstancesV2, _ = g.provider.InstancesV2()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	g.provider.SetInformers(factory)
	g.nodes = factory.Core().V1().Nodes().Informer().GetIndexer()
	return g
}

// add adds a Node that is not ready.
func (g *guarded) add(name, providerID string) *corev1.Node {
	g.t.Helper()
	n := node(name, providerID)
	n.UID = types.UID("uid of " + name)
	g.put(n)
	return n
}

func (g *guarded) put(n *corev1.Node) {
	g.t.Helper()
	if err := g.nodes.Update(n); err != nil {
		g.t.Fatal(err)
	}
}

// ask checks each Node, as the lifecycle controller does every few seconds.
func (g *guarded) ask(nodes ...*corev1.Node) {
	g.t.Helper()
	for _, n := range nodes {
		if exists, err := g.InstanceExists(g.t.Context(), n); err == nil && !exists {
			g.t.Errorf("%s is reported as gone", n.Name)
		}
	}
}

// held is the number of held Nodes by reason.
type held struct{ tooMany, unknownHostname, unknownInstance int }

// expect compares the numbers of held Nodes and the Events since the last call.
func (g *guarded) expect(when string, count held, events ...string) {
	g.t.Helper()
	want := fmt.Sprintf(`
# HELP quaymaster_node_deletions_held Nodes that are kept although the cloud reports no machine for them, by reason.
# TYPE quaymaster_node_deletions_held gauge
quaymaster_node_deletions_held{reason="too-many"} %d
quaymaster_node_deletions_held{reason="unknown-hostname"} %d
quaymaster_node_deletions_held{reason="unknown-instance"} %d
`, count.tooMany, count.unknownHostname, count.unknownInstance)
	if err := testutil.CollectAndCompare(g.provider.Metrics(), strings.NewReader(want)); err != nil {
		g.t.Errorf("%s: %v", when, err)
	}
	for _, event := range events {
		select {
		case got := <-g.events:
			if !strings.Contains(got, event) {
				g.t.Errorf("%s: Event %q lacks %q", when, got, event)
			}
		default:
			g.t.Errorf("%s: no Event with %q", when, event)
		}
	}
	if len(g.events) > 0 {
		g.t.Errorf("%s: another Event: %s", when, <-g.events)
	}
}

func TestNodesWhoseDeletionIsHeld(t *testing.T) {
	g := newGuarded(t)
	g.expect("at first", held{})
	unknown, nameless := g.add("node-9", "mycloud://i-node-9"), g.add("node-8", "")
	g.ask(unknown, nameless, g.add("node-1", "mycloud://i-node-1"), g.add("foreign", "aws:///eu/i-1"))
	g.expect("without machines", held{unknownHostname: 1, unknownInstance: 1},
		"Warning DeletionHeld The cloud has no instance mycloud://i-node-9", "no instance has its name")
	g.cloud.Calls()
	g.ask(unknown, nameless)
	g.expect("asked again", held{unknownHostname: 1, unknownInstance: 1})
	if calls := g.cloud.Calls(); len(calls) != 2 {
		t.Errorf("%d calls, want one a question: %v", len(calls), calls)
	}

	g.cloud.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		return true
	})
	g.ask(unknown, g.add("node-2", "mycloud://i-node-2"))
	g.expect("during an outage, which proves nothing", held{unknownHostname: 1, unknownInstance: 1})
	g.cloud.Intercept(nil)

	again := unknown.DeepCopy()
	again.UID = "another Node of that name"
	g.put(again)
	g.expect("after the Node was deleted and made again", held{unknownHostname: 1})
	g.ask(again)
	g.expect("the new Node is held, too", held{unknownHostname: 1, unknownInstance: 1}, "mycloud://i-node-9")
	if err := g.nodes.Delete(again); err != nil {
		t.Fatal(err)
	}
	g.expect("after the Node was deleted", held{unknownHostname: 1})

	ready := nameless.DeepCopy()
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	g.put(ready)
	g.expect("the Node is ready again", held{})
}

// A Node is no longer held if the cloud returns its machine again, or a tombstone of it.
func TestHoldsEndWithTheCloudsWord(t *testing.T) {
	for name, word := range map[string]func(t *testing.T, c *cloud.Cloud){
		"it runs": func(*testing.T, *cloud.Cloud) {},
		"it is deleted": func(t *testing.T, c *cloud.Cloud) {
			t.Helper()
			if _, err := c.Client.DeleteInstance(t.Context(), "i-node-1", cloudapi.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			n := g.add("node-1", "mycloud://i-node-1")
			g.cloud.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				cloud.Problem(w, http.StatusNotFound, cloudv1.CodeResourceNotFound)
				return true
			})
			g.ask(n)
			g.expect("before", held{unknownInstance: 1}, "mycloud://i-node-1")
			g.cloud.Intercept(nil)
			word(t, g.cloud)
			if _, err := g.InstanceExists(t.Context(), n); err != nil {
				t.Error(err)
			}
			g.expect("after", held{})
		})
	}
}
