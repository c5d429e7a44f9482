package edge_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// changes returns how many changes of listeners, and how many of members, a test makes.
func changes() int {
	if !*full {
		return 15
	}
	return 200
}

// addListener adds a listener for the pool of the first one, or removes it again.
func addListener(key string, port int32) func(*cloudv1.LoadBalancerSpec) {
	return func(s *cloudv1.LoadBalancerSpec) {
		if len(s.Listeners) > 1 {
			s.Listeners = s.Listeners[:1]
			return
		}
		added := s.Listeners[0]
		added.Key, added.Port = key, port
		s.Listeners = append(s.Listeners, added)
	}
}

// No change of listeners or members fails a request, breaks a connection or loses a packet.
func TestChangesUnderLoad(t *testing.T) {
	w := newWorld(t, 1, 3)
	direct, directAt := w.create(w.spec("direct", cloudv1.ProtocolTCP, 80))
	proxy, proxyAt := w.create(w.spec("proxy", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	web, webAt := w.create(w.spec("web", cloudv1.ProtocolHTTP, 80, mode(cloudv1.VIPModeProxy)))
	_, udpAt := w.create(w.spec("udp", cloudv1.ProtocolUDP, 53))
	longDirect, _ := w.long(directAt, 50)
	longProxy, _ := w.long(proxyAt, 50)
	// A machine that is too busy for this says nothing about edges.
	control := w.requests(netip.AddrPortFrom(w.Nodes[0].Inner4, backendPort), 150)
	loads := map[string]*load{
		"direct": w.requests(directAt, 150), "proxy": w.requests(proxyAt, 150), "http": w.httpRequests(webAt, 200),
		"long, direct": longDirect, "long, proxy": longProxy, "udp": w.packets(udpAt, 10, 100),
	}
	for i := range changes() {
		for _, id := range []string{direct.ID, proxy.ID, web.ID}[i%3 : i%3+1] {
			w.update(id, addListener("tcp/9000", 9000))
		}
		state := cloudv1.MemberDraining
		if i%2 == 1 {
			state = cloudv1.MemberActive
		}
		w.setMembers(cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{member(w.Nodes[2], state)}})
		time.Sleep(50 * time.Millisecond)
	}
	lost := map[string]error{}
	for name, l := range loads {
		if err := l.end(); err != nil {
			lost[name] = err
		}
		t.Logf("%s: %d, %d failed", name, l.sent.Load(), l.failed.Load())
	}
	if err := control.end(); err != nil {
		t.Skipf("the machine is too busy: without edges, %v; with edges, %v", err, lost)
	}
	for name, err := range lost {
		t.Errorf("%s: %v", name, err)
	}
}

// A member that drains keeps its connections and gets no new ones.
func TestDrain(t *testing.T) {
	for name, options := range map[string][]option{"direct": nil, "proxy": {mode(cloudv1.VIPModeProxy)}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 2)
			_, at := w.create(w.spec("web", cloudv1.ProtocolTCP, 80, options...))
			l, nodes := w.long(at, 40)
			if nodes["node1"] == 0 || nodes["node2"] == 0 {
				t.Fatalf("connections on %v", nodes)
			}
			w.setMembers(cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{member(w.Nodes[0], cloudv1.MemberDraining)}})
			w.eventually("no new connections", func() bool {
				for range 20 {
					if node, _, err := w.ask("tcp", at); err != nil || node == "node1" {
						return false
					}
				}
				return true
			})
			for range 60 {
				if node, _, err := w.ask("tcp", at); err != nil || node == "node1" {
					t.Fatalf("a new connection was answered by %q, error %v", node, err)
				}
			}
			if err := l.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A dead member gets nothing after interval times fall and a second, and the API shows it.
func TestDeadMember(t *testing.T) {
	w := newWorld(t, 1, 2)
	directLB, direct := w.create(w.spec("direct", cloudv1.ProtocolTCP, 80))
	_, proxy := w.create(w.spec("proxy", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	online := func(node string) bool {
		health, err := w.cloud.LoadBalancerHealth(w.Context(), directLB.ID)
		w.must(err)
		for _, m := range health.Pools[0].Members {
			if m.Key == node {
				return m.OperatingState == cloudv1.OperatingOnline
			}
		}
		return false
	}
	w.eventually("both are online", func() bool { return online("node1") && online("node2") })
	w.must(w.Nodes[0].Cut())
	// The interval is 1 s, with a timeout of half a second, and two probes must fail.
	time.Sleep(2*time.Second + 500*time.Millisecond + time.Second)
	for range 40 {
		_, _, err1 := w.ask("tcp", direct)
		_, _, err2 := w.ask("tcp", proxy)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("the API shows it", func() bool { return !online("node1") && online("node2") })
	w.must(w.Nodes[0].Restore())
	w.eventually("it is back", func() bool { return online("node1") })
}
