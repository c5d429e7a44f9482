// Package cloud_test measures how the cost of the cloud's API grows with its number of objects, on a file and on etcd.
package cloud_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/etcd"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

var (
	sizes = flag.String("sizes", "", "numbers of load balancers, such as 1000,10000,100000; the others are ratios to the first")
	times = flag.Int("times", 200, "number of writes one after the other")
)

const (
	token = "sesame"
	// edges follow all changes, and send heartbeats.
	edges = 50
	// A cluster has perCluster load balancers and members machines.
	perCluster, members = 500, 50
	// writers write at the same time for busy.
	writers, busy = 8, 5 * time.Second
	// key encrypts nothing here.
	key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	// batch is the number of objects in a transaction that adds them.
	batch = 200
)

// TestScale prints a table for each store: what operations cost with the first number of load balancers, and the ratio of that to
// the cost with the others.
func TestScale(t *testing.T) {
	if *sizes == "" {
		t.Skip("set -sizes, see make bench-cloud")
	}
	for _, kind := range []string{"file", "etcd"} {
		var all []*result
		for text := range strings.SplitSeq(*sizes, ",") {
			n, err := strconv.Atoi(text)
			must(t, err)
			t.Run(fmt.Sprintf("%s/%d", kind, n), func(t *testing.T) { all = append(all, measure(t, kind, n)) })
		}
		table(os.Stdout, kind, all)
	}
}

// result has the measures of a size by name, in the order of names.
type result struct {
	size  int
	names []string
	value map[string]float64
}

func (r *result) add(name string, value float64) {
	r.names, r.value[name] = append(r.names, name), value
}

// took adds percentiles in milliseconds.
func (r *result) took(name string, all []time.Duration) {
	slices.Sort(all)
	for _, p := range []int{50, 99} {
		r.add(fmt.Sprintf("%s p%d, ms", name, p), float64(all[min(len(all)-1, len(all)*p/100)].Microseconds())/1000)
	}
}

// table writes the results of a store.
func table(w io.Writer, kind string, all []*result) {
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format, args...) } // a builder has no errors
	line("\n%s:\n\n| measure | %d |", kind, all[0].size)
	for _, r := range all[1:] {
		line(" %d | ratio |", r.size)
	}
	line("\n|---|%s\n", strings.Repeat("---|", 2*len(all)-1))
	for _, name := range all[0].names {
		line("| %s | %.4g |", name, all[0].value[name])
		for _, r := range all[1:] {
			line(" %.4g | %.2f |", r.value[name], r.value[name]/all[0].value[name])
		}
		line("\n")
	}
	_, _ = io.WriteString(w, b.String())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// measure measures a cloud with a number of load balancers.
func measure(t *testing.T, kind string, size int) *result {
	t.Helper()
	o := server.Options{
		DataDir: t.TempDir(), Token: token, EdgeToken: "edges", EncryptionKey: key, Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler),
		MemberNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}
	open := func(o server.Options) (store.Store, error) {
		return store.Open(filepath.Join(o.DataDir, server.StateFile), o.Clock)
	}
	if kind == "etcd" {
		cluster := etcdtest.Start(t, 3)
		open = func(o server.Options) (store.Store, error) {
			return etcd.Open(etcd.Options{
				Config: clientv3.Config{Endpoints: cluster.Endpoints()}, Prefix: "/cloud/", Dir: o.DataDir, Clock: o.Clock, Logger: o.Logger,
			})
		}
		o.Store = open
	}
	r := &result{size: size, value: map[string]float64{}}
	st, err := open(o)
	must(t, err)
	ids := seed(t, st, size)
	must(t, st.Close())
	start := time.Now()
	s, err := server.Open(o)
	must(t, err)
	r.add("start, s", time.Since(start).Seconds())
	front := httptest.NewServer(s.Handler())
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	defer func() {
		stop()
		front.CloseClientConnections()
		front.Close()
		running.Wait()
		must(t, s.Close())
	}()
	w := &world{T: t, result: r, endpoint: front.URL, ids: ids}
	w.client = w.with(token)
	w.lists()
	w.writes("write")
	w.follow(ctx, &running)
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.add("heap of server and clients, MiB", float64(memory.HeapAlloc)/(1<<20))
	if file, err := os.Stat(filepath.Join(o.DataDir, server.StateFile)); err == nil {
		r.add("file, MiB", float64(file.Size())/(1<<20))
	}
	return r
}

// seed adds objects to a state, and returns the ids of the load balancers.
func seed(t *testing.T, st store.Store, size int) []string {
	t.Helper()
	clusters := max(1, size/perCluster)
	add := func(n int, put func(tx *store.Tx, i int) error) {
		t.Helper()
		for i := 0; i < n; i += batch {
			must(t, st.Update(func(tx *store.Tx) error {
				for j := i; j < min(n, i+batch); j++ {
					if err := put(tx, j); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	add(1, func(tx *store.Tx, _ int) error {
		_, region := store.Regions.Put(tx, &cloudv1.Region{Object: cloudv1.Object{ID: "r", Name: "r"}})
		_, zone := store.Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: "z", Name: "z"}, Region: "r"})
		return cmp.Or(region, zone)
	})
	address := func(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) }
	add(clusters*members, func(tx *store.Tx, i int) error {
		id := fmt.Sprintf("i-%06d", i)
		_, err := store.Instances.Put(tx, &cloudv1.Instance{
			Object: cloudv1.Object{ID: id, Name: id}, Hostname: id, Zone: "z", Region: "r", State: cloudv1.InstanceRunning,
			Addresses: []cloudv1.InstanceAddress{{Type: "internal", Family: cloudv1.FamilyIPv4, Address: address(i)}},
		})
		return err
	})
	add(clusters, func(tx *store.Tx, c int) error {
		g := &cloudv1.NodeGroup{Object: cloudv1.Object{ID: fmt.Sprintf("ng-%d", c), Name: fmt.Sprintf("ng-%d", c), Tags: tags(c)}}
		for i := c * members; i < (c+1)*members; i++ {
			g.Members = append(g.Members, cloudv1.GroupMember{
				Key: fmt.Sprintf("i-%06d", i), InstanceID: fmt.Sprintf("i-%06d", i), Weight: 1, State: cloudv1.MemberActive,
				Addresses: []cloudv1.MemberAddress{{Family: cloudv1.FamilyIPv4, Address: address(i)}},
			})
		}
		_, err := store.NodeGroups.Put(tx, g)
		return err
	})
	ids := make([]string, size)
	add(size, func(tx *store.Tx, i int) error {
		ids[i] = fmt.Sprintf("lb-%06d", i)
		lb := &cloudv1.LoadBalancer{Object: cloudv1.Object{ID: ids[i], Name: ids[i], Tags: tags(i % clusters)}, LoadBalancerFields: spec(i, clusters)}
		lb.VIPs[0].Address = fmt.Sprintf("100.%d.%d.%d", 64+i>>16, i>>8&255, i&255)
		lb.ProvisioningState = cloudv1.ProvisioningActive
		_, err := store.LoadBalancers.Put(tx, lb)
		return err
	})
	return ids
}

func tags(cluster int) map[string]string {
	return map[string]string{"quaymaster.dev/cluster-uid": fmt.Sprint("cluster-", cluster)}
}

func spec(i, clusters int) cloudv1.LoadBalancerFields {
	return cloudv1.LoadBalancerFields{
		Scheme:    cloudv1.SchemePublic,
		VIPs:      []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: cloudv1.VIPModeVIP}},
		Listeners: []cloudv1.Listener{{Key: "tcp/80", Protocol: cloudv1.ProtocolTCP, Port: 80, PoolKey: "tcp/80"}},
		Pools: []cloudv1.Pool{{
			Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolTCP, Algorithm: cloudv1.AlgorithmRoundRobin, TargetPort: 30080,
			NodeGroupID:   fmt.Sprintf("ng-%d", i%clusters),
			HealthMonitor: &cloudv1.HealthMonitor{Type: cloudv1.ProtocolTCP, IntervalMS: 10000, TimeoutMS: 5000, Rise: 2, Fall: 3},
		}},
	}
}

// world is a cloud that is measured.
type world struct {
	*testing.T
	*result

	endpoint string
	client   *cloudapi.Client
	ids      []string
	// qps is the limit that the last write has set: one that changes nothing would cost nothing.
	qps atomic.Int64
}

func (w *world) with(secret string) *cloudapi.Client {
	w.Helper()
	c, err := cloudapi.New(cloudapi.Options{Endpoint: w.endpoint, Token: cloudapi.StaticToken(secret), QuotaShare: 1})
	must(w.T, err)
	return c
}

// lists reads all load balancers, and those of a cluster.
func (w *world) lists() {
	w.Helper()
	list := func(name string, o cloudapi.ListOptions) {
		best := time.Hour
		for range 3 {
			start := time.Now()
			_, err := w.client.ListLoadBalancers(w.Context(), o)
			must(w.T, err)
			best = min(best, time.Since(start))
		}
		w.add(name+", ms", float64(best.Microseconds())/1000)
	}
	list("list all", cloudapi.ListOptions{})
	list("list those of a cluster", cloudapi.ListOptions{Tags: tags(0)})
}

// writes changes load balancers one after the other, and then several at a time.
func (w *world) writes(name string) {
	w.Helper()
	var all []time.Duration
	for n := range *times {
		all = append(all, w.write(w.ids[n*7919%len(w.ids)]))
	}
	w.took(name, all)
	var count atomic.Int64
	var writing sync.WaitGroup
	end := time.Now().Add(busy)
	for i := range writers {
		writing.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				w.write(w.ids[(n*writers+i)*31%len(w.ids)])
				count.Add(1)
			}
		})
	}
	writing.Wait()
	w.add(fmt.Sprintf("%s, per second with %d at a time", name, writers), float64(count.Load())/busy.Seconds())
}

// write changes a load balancer, and returns how long that took without reading it.
func (w *world) write(id string) time.Duration {
	ctx := w.Context()
	for {
		lb, err := w.client.LoadBalancer(ctx, id)
		if err != nil {
			w.Error(err)
			return 0
		}
		s := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
		s.Listeners[0].MaxQPS = int(w.qps.Add(1))
		start := time.Now()
		_, _, err = w.client.UpdateLoadBalancer(ctx, id, s, cloudapi.WriteOptions{IfMatch: lb.Revision})
		if cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
			continue // another writer was faster
		}
		if err != nil {
			w.Error(err)
		}
		return time.Since(start)
	}
}

// follow measures writes again while edges follow all changes and send heartbeats, and how long changes take to arrive.
func (w *world) follow(ctx context.Context, running *sync.WaitGroup) {
	w.Helper()
	followed := make([]atomic.Uint64, edges)
	var mu sync.Mutex
	var arrived []time.Duration
	var last atomic.Int64
	for i := range edges {
		name := fmt.Sprint("edge-", i)
		secret := strings.Repeat("s", 26) + name
		edge, err := w.with("edges").RegisterEdge(ctx, cloudv1.EdgeSpec{Name: name, Token: secret}, cloudapi.WriteOptions{})
		must(w.T, err)
		client := w.with(secret)
		meta, err := client.Meta(ctx)
		must(w.T, err)
		running.Go(func() {
			since := meta.Revision
			for ctx.Err() == nil {
				changes, err := client.Changes(ctx, since, []string{cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup, cloudv1.KindEdge}, 30*time.Second)
				if err != nil {
					continue
				}
				since = changes.Revision
				number, _, _ := strings.Cut(since, ".")
				n, _ := strconv.ParseUint(number, 10, 64)
				followed[i].Store(n)
				if at := last.Load(); at > 0 && len(changes.Items) > 0 {
					mu.Lock()
					arrived = append(arrived, time.Duration(time.Now().UnixNano()-at))
					mu.Unlock()
				}
			}
		})
		running.Go(func() {
			for ctx.Err() == nil {
				applied := ""
				if n := followed[i].Load(); n > 0 {
					applied = strconv.FormatUint(n, 10)
				}
				_, _ = client.Heartbeat(ctx, edge.ID, cloudv1.Heartbeat{AppliedRevision: applied})
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Second):
				}
			}
		})
	}
	time.Sleep(2 * time.Second)
	for n := range *times / 4 {
		last.Store(time.Now().UnixNano())
		w.write(w.ids[n*104_729%len(w.ids)])
		// All edges have it before the next one.
		time.Sleep(100 * time.Millisecond)
	}
	mu.Lock()
	feed := slices.Clone(arrived)
	mu.Unlock()
	last.Store(0)
	w.took(fmt.Sprintf("change at %d edges", edges), feed)
	w.writes(fmt.Sprintf("write with %d edges", edges))
}
