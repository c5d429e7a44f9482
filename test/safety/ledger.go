package safety

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
)

// believed is how long a controller may act on what the cloud has said before it was restored.
const believed = time.Minute

// ledger knows what the clusters of a site have in the cloud, and checks what they change there.
type ledger struct {
	site *site

	mu sync.Mutex
	// worlds are the clusters, copies included. The first one reports what no single cluster has broken.
	worlds []*world
	// assets are what the clusters have, by kind and ID.
	assets map[string]asset
	// holders are the Services whose load balancers have had an address since the last restore.
	holders map[string]map[types.UID]bool
	// machines are the deleted machines by their provider IDs. The time is the zero time, or when a restore brought the
	// machine back.
	machines map[string]time.Time
	// kept are the Services whose load balancers must not be deleted, because a restore of etcd has lost a Service whose
	// address is in use. stray are those whose load balancers no cluster is responsible for after a restore: they may stay.
	kept, stray map[types.UID]bool
	// restored is true once a restore may have made Services of different clusters publish the same address.
	restored bool
}

// asset is something in the cloud that a cluster owns.
type asset struct {
	kind, id, cluster string
	// service is the UID of the Service of a load balancer.
	service   types.UID
	addresses []string
	// content is everything that only the owner changes.
	content string
}

func newLedger(s *site) *ledger {
	return &ledger{
		site: s, holders: map[string]map[types.UID]bool{}, machines: map[string]time.Time{},
		kept: map[types.UID]bool{}, stray: map[types.UID]bool{},
	}
}

// clusters returns the clusters of the site.
func (l *ledger) clusters() []*world {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.worlds)
}

// violation reports a broken promise.
func (l *ledger) violation(format string, args ...any) { l.clusters()[0].violation(format, args...) }

// read reads what the clusters have from the cloud.
func (l *ledger) read() map[string]asset {
	run := l.site.enter()
	if run == nil {
		return nil
	}
	defer run.serving.Done()
	found := map[string]asset{}
	balancers := map[[2]string]string{}
	for _, lb := range list[cloudv1.LoadBalancer](l, run, "/v1/load-balancers?limit=500&expand=tree") {
		a := assetOf("load balancer", lb.ID, lb.Tags, cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields})
		a.service = types.UID(lb.Tags[ownership.ServiceUID])
		for _, vip := range lb.VIPs {
			a.addresses = append(a.addresses, vip.Address)
		}
		if a.service != "" {
			if other, twice := balancers[[2]string{a.cluster, string(a.service)}]; twice {
				l.violation("service %s has two load balancers, %s and %s", a.service, other, lb.ID)
			}
			balancers[[2]string{a.cluster, string(a.service)}] = lb.ID
		}
		if lb.ProvisioningState != cloudv1.ProvisioningPendingDelete {
			found[a.kind+" "+a.id] = a
		}
	}
	for _, group := range list[cloudv1.NodeGroup](l, run, "/v1/node-groups?limit=500") {
		a := assetOf("node group", group.ID, group.Tags, cloudv1.NodeGroupSpec{Name: group.Name, Tags: group.Tags, Members: group.Members})
		found[a.kind+" "+a.id] = a
	}
	for _, route := range list[cloudv1.Route](l, run, "/v1/route-tables/rt-main/routes?limit=500") {
		a := assetOf("route", route.Destination, route.Tags, cloudv1.RouteSpec{Tags: route.Tags, Destination: route.Destination, NextHop: route.NextHop})
		found[a.kind+" "+a.id] = a
	}
	return found
}

func assetOf(kind, id string, tags map[string]string, content any) asset {
	raw, err := json.Marshal(content)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return asset{kind: kind, id: id, cluster: tags[ownership.ClusterUID], content: string(raw)}
}

func list[T any](l *ledger, run *serverRun, path string) []T {
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
	request.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	run.handler.ServeHTTP(answer, request)
	var found cloudv1.List[T]
	if err := json.Unmarshal(answer.Body.Bytes(), &found); err != nil || answer.Code != http.StatusOK {
		l.violation("%s cannot be read: %d %s, %v", path, answer.Code, answer.Body, err)
	}
	return found.Items
}

// note remembers what the clusters have now, and returns what they had before.
func (l *ledger) note(now map[string]asset) (before map[string]asset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.assets = l.assets, now
	for _, a := range now {
		for _, address := range a.addresses {
			if l.holders[address] == nil {
				l.holders[address] = map[types.UID]bool{}
			}
			l.holders[address][a.service] = true
		}
	}
	return before
}

// wrote makes a write and checks what it has changed.
func (l *ledger) wrote(write func() int, r *http.Request) {
	if status := write(); status >= http.StatusBadRequest {
		return
	}
	now := l.read()
	if now == nil {
		return
	}
	before := l.note(now)
	uid, authority := fenceOf(r)
	if uid == "" {
		return // it is the test itself, or a command of an operator
	}
	if w := l.writer(uid, authority); w != nil && w.copied {
		l.violation("a copy of cluster %s has written: %s %s", uid, r.Method, r.URL.Path)
	}
	for key, was := range before {
		is, exists := now[key]
		switch {
		case exists && is.content == was.content:
			continue
		case was.cluster != "" && was.cluster != uid:
			l.violation("cluster %s has changed %s of cluster %s: %s is now %s", uid, key, was.cluster, was.content, is.content)
		case !exists && was.service != "":
			l.checkDeletion(uid, authority, was)
		}
	}
}

// fenceOf returns which cluster a write says that it is of.
func fenceOf(r *http.Request) (uid, authority string) {
	parts := strings.Split(r.Header.Get(cloudv1.HeaderFence), ";")
	for _, part := range parts[1:] {
		if value, ok := strings.CutPrefix(part, "holder="); ok {
			authority = value
		}
	}
	return parts[0], authority
}

// checkDeletion checks that a load balancer that a cluster has deleted is one that its user no longer wants.
func (l *ledger) checkDeletion(uid, authority string, lb asset) {
	l.mu.Lock()
	kept := l.kept[lb.service]
	l.mu.Unlock()
	if kept {
		l.violation("load balancer %s with %v is deleted, whose service %s is only missing in the backup", lb.id, lb.addresses, lb.service)
	}
	if w := l.writer(uid, authority); w != nil {
		w.checkDeletion(lb)
	}
}

// writer returns the cluster that a fence names, or nil.
func (l *ledger) writer(uid, authority string) *world {
	for _, w := range l.clusters() {
		if w.uid == uid && w.authority == authority {
			return w
		}
	}
	return nil
}

func (w *world) checkDeletion(lb asset) {
	w.mu.Lock()
	svc, given := w.services[lb.service], w.given[lb.service]
	w.mu.Unlock()
	if svc == nil || given || !ours(svc) || svc.DeletionTimestamp != nil {
		return
	}
	if strings.Contains(svc.Annotations[service.AnnotationRecord], lb.id) || slices.Equal(addresses(svc), lb.addresses) {
		w.violation("load balancer %s with %v is deleted, which %s uses", lb.id, lb.addresses, svc.Name)
	}
}

// checkPublication checks that no other Service publishes the addresses that a Service has begun to publish.
func (l *ledger) checkPublication(w *world, svc *corev1.Service, now []string) {
	l.mu.Lock()
	if !w.copied { // a copy does not take over what it publishes
		delete(l.kept, svc.UID)
		delete(l.stray, svc.UID)
	}
	restored := l.restored
	l.mu.Unlock()
	for _, other := range l.clusters() {
		if other != w && (restored || other.uid == w.uid) {
			continue
		}
		for uid, addresses := range other.publishes() {
			if uid != svc.UID && slices.ContainsFunc(now, func(a string) bool { return slices.Contains(addresses, a) }) {
				w.violation("%s publishes %v, as service %s already does", svc.Name, now, uid)
			}
		}
	}
}

// publishes returns the addresses that Services publish now and still want.
func (w *world) publishes() map[types.UID][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[types.UID][]string{}
	for uid, svc := range w.services {
		if list := addresses(svc); len(list) > 0 && ours(svc) && svc.DeletionTimestamp == nil {
			all[uid] = list
		}
	}
	return all
}

// taken reports whether a load balancer of another Service has had one of the addresses since the last restore, so that
// the Service could not keep it.
func (l *ledger) taken(addresses []string, uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range addresses {
		for holder := range l.holders[address] {
			if holder != uid {
				return true
			}
		}
	}
	return false
}

// mayStay reports whether a restore has left the load balancer of a Service behind.
func (l *ledger) mayStay(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[uid] || l.stray[uid]
}

// lose notes that a Service ends, or goes back in time, without the controllers having released its load balancer.
func (l *ledger) lose(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[uid] = true
}

func (l *ledger) deleteMachine(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.machines[providerid.Format(id)] = time.Time{}
}

// deletedMachine reports whether the machine of a Node is deleted, or was until a moment ago.
func (l *ledger) deletedMachine(providerID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	back, deleted := l.machines[providerID]
	return deleted && (back.IsZero() || time.Since(back) < believed)
}

// restoredEtcd is called after a cluster was restored from a backup. were are its Services before.
func (l *ledger) restoredEtcd(w *world, were map[types.UID]*corev1.Service) {
	now := l.read()
	l.note(now)
	w.mu.Lock()
	given := w.given
	w.mu.Unlock()
	w.reread()
	l.mu.Lock()
	defer l.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	l.restored = true
	has := map[types.UID]asset{}
	for _, a := range now {
		if a.cluster == w.uid && a.service != "" {
			has[a.service] = a
		}
	}
	for _, uid := range slices.Concat(
		slices.Collect(maps.Keys(has)), slices.Collect(maps.Keys(were)), slices.Collect(maps.Keys(w.services)),
	) {
		was, is := were[uid], w.services[uid]
		_, exists := has[uid]
		switch {
		case is != nil && (ours(is) && is.DeletionTimestamp == nil || protected(is)):
			// The controllers know of it: they keep it, or delete what its user has given up in the backup.
			delete(l.kept, uid)
			delete(l.stray, uid)
		case exists && was != nil && ours(was) && was.DeletionTimestamp == nil && len(addresses(was)) > 0:
			l.kept[uid] = true
		case exists || was != nil && protected(was):
			// If it does not exist, its creation may still be on its way to the cloud.
			l.stray[uid] = true
		}
	}
	for uid, svc := range w.services {
		if was := were[uid]; has[uid].service == "" && (was == nil || !ours(was) || given[uid]) || outdated(svc, has) {
			w.given[uid] = true
		}
	}
	w.deleted = nil
}

// restoredCloud is called after the cloud was restored from a backup.
func (l *ledger) restoredCloud(machines []cloudv1.Instance) {
	now := l.read()
	l.mu.Lock()
	l.holders = map[string]map[types.UID]bool{}
	l.mu.Unlock()
	l.note(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restored = true
	for _, m := range machines {
		id := providerid.Format(m.ID)
		back, deleted := l.machines[id]
		switch {
		case m.State == cloudv1.InstanceDeleted:
			l.machines[id] = time.Time{}
		case deleted && back.IsZero():
			l.machines[id] = time.Now()
		}
	}
	for _, w := range l.worlds {
		w.mu.Lock()
		for _, a := range now {
			svc := w.services[a.service]
			if a.cluster != w.uid || a.service == "" {
				continue
			}
			switch {
			case svc == nil || !ours(svc) || svc.DeletionTimestamp != nil:
				l.stray[a.service] = true
			case !slices.Equal(addresses(svc), a.addresses):
				w.given[a.service] = true
			}
		}
		w.mu.Unlock()
	}
}

// reread replaces what is known of the Services by what the API server has.
func (w *world) reread() {
	w.t.Helper()
	found, err := w.api.CoreV1().Services(metav1.NamespaceAll).List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.services = map[types.UID]*corev1.Service{}
	w.published = map[types.UID][]string{}
	given := map[types.UID]bool{}
	for i := range found.Items {
		svc := &found.Items[i]
		w.services[svc.UID] = svc
		if list := addresses(svc); len(list) > 0 {
			w.published[svc.UID] = list
		}
		given[svc.UID] = !ours(svc)
	}
	w.given = given
}

// outdated reports whether a backup is older than what the user has asked for since: then the cloud is right.
func outdated(svc *corev1.Service, has map[types.UID]asset) bool {
	lb, exists := has[svc.UID]
	return exists && !slices.Equal(lb.addresses, addresses(svc))
}

// copied is called after a cluster was copied from a backup.
func (l *ledger) copied(w *world) {
	has := map[types.UID]asset{}
	for _, a := range l.read() {
		if a.cluster == w.uid && a.service != "" {
			has[a.service] = a
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, svc := range w.services {
		if outdated(svc, has) {
			w.given[uid] = true
		}
	}
}
