package cloudapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// newer is a load balancer of a cloud that knows more than this client.
const newer = `{"id":"lb-1","name":"web","tags":{"a":"1"},"revision":"7","scheme":"public",
	"provisioning_state":"active","operating_state":"online","created_at":"2026-03-01T12:00:00Z",
	"updated_at":"2026-03-01T12:00:00Z","logging":{"bucket":"b","rate":0.10000000000000000001},
	"network":{"vpc_id":"vpc-1","mtu":9000},
	"vips":[{"id":"vip-1","family":"ipv4","address":"192.0.2.1","mode":"vip","dns":"web.example.com"}],
	"listeners":[
		{"key":"tcp/80","protocol":"tcp","port":80,"pool_key":"tcp/80","waf":{"rules":["r1"]}},
		{"key":"tcp/443","protocol":"https","port":443,"pool_key":"tcp/443","tls":{"certificate_ids":["c"],"alpn":["h2"]}},
		{"key":"tcp/99","protocol":"tcp","port":99,"pool_key":"tcp/99","waf":{"rules":["gone"]}}],
	"pools":[
		{"key":"tcp/80","family":"ipv6","protocol":"tcp","algorithm":"round_robin","target_port":1,"slow_start_s":6},
		{"key":"tcp/80","family":"ipv4","protocol":"tcp","algorithm":"round_robin","target_port":1,"slow_start_s":4,
			"members":[{"key":"m1","address":"10.0.0.1","port":1,"weight":1,"state":"active","backup":true}],
			"health_monitor":{"type":"tcp","interval_ms":1,"timeout_ms":1,"rise":1,"fall":1,"sni":"x"}}]}`

// TestUpdatesKeepWhatTheyDoNotKnow tests that an update of the whole tree erases no setting that is newer than this
// client, wherever it is in the tree and whatever the order of lists, but also adds nothing to what the update removes.
func TestUpdatesKeepWhatTheyDoNotKnow(t *testing.T) {
	var sent []byte
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			sent, _ = io.ReadAll(r.Body)
		}
		body := newer
		if r.URL.Path == "/v1/load-balancers" {
			body = `{"items":[` + newer + `],"revision":"7","complete":true,"hint":1}`
		}
		answer(200, asJSON, body)(w, r)
	})
	read := map[string]func() *cloudv1.LoadBalancer{
		"one": func() *cloudv1.LoadBalancer {
			lb, err := c.LoadBalancer(t.Context(), "lb-1")
			if err != nil {
				t.Fatal(err)
			}
			return lb
		},
		"from a list": func() *cloudv1.LoadBalancer {
			list, err := c.ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return &list.Items[0]
		},
		"response of a write": func() *cloudv1.LoadBalancer {
			lb, _, err := c.PatchLoadBalancer(t.Context(), "lb-1", cloudv1.LoadBalancerPatch{}, cloudapi.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return lb
		},
	}
	for name, read := range read {
		t.Run(name, func(t *testing.T) {
			base := read()
			spec := cloudv1.LoadBalancerSpec{Name: "renamed", Tags: base.Tags, LoadBalancerFields: base.LoadBalancerFields}
			// Another order, a listener less, one without TLS, and a new one.
			spec.Listeners = []cloudv1.Listener{
				{Key: "tcp/443", Protocol: "tcp", Port: 443, PoolKey: "tcp/443"}, base.Listeners[0],
				{Key: "tcp/8080", Protocol: "tcp", Port: 8080, PoolKey: "tcp/80"},
			}
			spec.Pools = []cloudv1.Pool{base.Pools[1], base.Pools[0]}
			if _, _, err := c.UpdateLoadBalancer(t.Context(), "lb-1", spec, cloudapi.WriteOptions{Base: base}); err != nil {
				t.Fatal(err)
			}
			want := `{"name":"renamed","tags":{"a":"1"},"scheme":"public",
				"logging":{"bucket":"b","rate":0.10000000000000000001},
				"network":{"vpc_id":"vpc-1","mtu":9000},
				"vips":[{"id":"vip-1","family":"ipv4","address":"192.0.2.1","mode":"vip","dns":"web.example.com"}],
				"listeners":[{"key":"tcp/443","protocol":"tcp","port":443,"pool_key":"tcp/443"},
					{"key":"tcp/80","protocol":"tcp","port":80,"pool_key":"tcp/80","waf":{"rules":["r1"]}},
					{"key":"tcp/8080","protocol":"tcp","port":8080,"pool_key":"tcp/80"}],
				"pools":[
					{"key":"tcp/80","family":"ipv4","protocol":"tcp","algorithm":"round_robin","target_port":1,"slow_start_s":4,
						"members":[{"key":"m1","address":"10.0.0.1","port":1,"weight":1,"state":"active","backup":true}],
						"health_monitor":{"type":"tcp","interval_ms":1,"timeout_ms":1,"rise":1,"fall":1,"sni":"x"}},
					{"key":"tcp/80","family":"ipv6","protocol":"tcp","algorithm":"round_robin","target_port":1,"slow_start_s":6}]}`
			if diff := cmp.Diff(parsed(t, []byte(want)), parsed(t, sent)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// Without members that the client does not know, nothing is kept, and the body is what it always was.
func TestUpdatesOfWhatTheyKnow(t *testing.T) {
	var sent []byte
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		answer(200, asJSON, `{"id":"lb-1","name":"web"}`)(w, r)
	})
	base, err := c.LoadBalancer(t.Context(), "lb-1")
	if err != nil || base.Unknown != nil {
		t.Fatalf("%s, %v", base.Unknown, err)
	}
	spec := cloudv1.LoadBalancerSpec{Name: "web"}
	if _, _, err := c.UpdateLoadBalancer(t.Context(), "lb-1", spec, cloudapi.WriteOptions{Base: base}); err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(spec)
	if !bytes.Equal(sent, want) {
		t.Errorf("body %s, want %s", sent, want)
	}
}

// A load balancer that cannot be decoded fails a list of what is decoded, but not one of what is known to exist.
func TestUndecodable(t *testing.T) {
	const item = `{"id":"lb-2","name":"odd","tags":{"a":"1"},"revision":"8","scheme":"public","listeners":"many"}`
	body := `{"items":[` + newer + `,` + item + `],"revision":"8","complete":true}`
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) { answer(200, asJSON, body)(w, r) })
	if _, err := c.ListLoadBalancers(t.Context(), cloudapi.ListOptions{}); err == nil {
		t.Error("no error")
	}
	list, err := c.ListKnownLoadBalancers(t.Context(), cloudapi.ListOptions{})
	if err != nil || len(list.Items) != 2 || list.Items[0].Undecodable != "" {
		t.Fatalf("%+v, %v, want both", list, err)
	}
	odd := list.Items[1]
	if odd.Undecodable == "" {
		t.Error("nothing says why it could not be decoded")
	}
	odd.Undecodable = ""
	want := cloudv1.LoadBalancer{Object: cloudv1.Object{ID: "lb-2", Name: "odd", Tags: map[string]string{"a": "1"}, Revision: "8"}}
	if diff := cmp.Diff(want, odd); diff != "" {
		t.Errorf("unexpected load balancer (-want +got):\n%s", diff)
	}
	body = `{"items":[{"id":7}],"revision":"8","complete":true}`
	if _, err := c.ListKnownLoadBalancers(t.Context(), cloudapi.ListOptions{}); err == nil {
		t.Error("no error for an object without id")
	}
}

func parsed(t *testing.T, data []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return value
}
