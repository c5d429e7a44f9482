package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/conformance"
	"quaymaster.dev/test/harness/env"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

const prefix = "/cloud/"

func options(t *testing.T, c *etcdtest.Cluster) Options {
	t.Helper()
	return Options{
		Config: clientv3.Config{Endpoints: c.Endpoints()}, Prefix: prefix, Dir: t.TempDir(), Clock: clock.RealClock{},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func opened(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t *testing.T, s store.Store, id string) {
	t.Helper()
	if err := s.Update(putZone(id)); err != nil {
		t.Fatal(err)
	}
}

func putZone(id string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		_, err := store.Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: id}})
		return err
	}
}

// zones returns the zones of a state, and its revision.
func zones(t *testing.T, s store.Store) (ids, revision string) {
	t.Helper()
	err := s.View(func(tx *store.Tx) error {
		revision = tx.Revision()
		return store.Zones.Each(tx, func(z *cloudv1.Zone) error {
			ids += z.ID
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, revision
}

func TestConformance(t *testing.T) {
	cluster := etcdtest.Start(t, 1)
	conformance.Test(t, func(t *testing.T, c clock.PassiveClock) store.Store {
		t.Helper()
		o := options(t, cluster)
		o.Clock, o.Prefix = c, "/"+t.Name()+"/"
		return opened(t, o)
	})
}

// packages are those whose tests TestUsers runs.
var packages = flag.String("packages", "quaymaster.dev/internal/mycloud/server", "packages whose tests TestUsers runs, separated by spaces")

// TestUsers runs tests that use a cloud, with its state in etcd.
func TestUsers(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-vet=off", "-count=1", "-p=1"}, strings.Fields(*packages)...)...)
	cmd.Env = append(os.Environ(), env.EtcdVariable+"=http://"+cluster.Endpoints()[0])
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// TestAllPages: a server reads the whole state when it starts, of however many pages, and values of several parts.
func TestAllPages(t *testing.T) {
	t.Parallel()
	const updates, each, large = 12, 1000, 3
	cluster := etcdtest.Start(t, 1)
	a := opened(t, options(t, cluster))
	for n := range updates {
		err := a.Update(func(tx *store.Tx) error {
			for i := range each {
				if _, err := store.Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: fmt.Sprintf("%d-%d", n, i)}}); err != nil {
					return err
				}
			}
			for i := range large {
				if err := store.Seeded.Set(tx, fmt.Sprintf("%d/%d", n, i), strings.Repeat("x", partBytes+partBytes*i/2)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b := opened(t, options(t, cluster))
	if err := a.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	contents := func(s *Store) (all []store.Write) {
		if err := s.copy.Writes(func(w store.Write) error {
			all = append(all, w)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	want, got := contents(a), contents(b)
	if len(want) <= listedKeys || !reflect.DeepEqual(want, got) {
		t.Errorf("a new server has %d keys, which must be equal to %d, more than %d", len(got), len(want), listedKeys)
	}
}

// TestServersShareAState: every server sees what the others commit, under the same revisions.
func TestServersShareAState(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	a, b := opened(t, options(t, cluster)), opened(t, options(t, cluster))
	changed := b.Changed()
	put(t, a, "a")
	if err := b.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("Changed did not fire at the other server")
	}
	put(t, b, "b")
	if err := a.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids, revision := zones(t, a)
	if others, other := zones(t, b); ids != "ab" || ids != others || revision != other {
		t.Errorf("one server has %s at %s, and the other %s at %s", ids, revision, others, other)
	}
}

// TestFence: a server that no longer leads cannot write as a leader, though it does not know yet.
func TestFence(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	a, b := opened(t, options(t, cluster)), opened(t, options(t, cluster))
	leading := make(chan store.Store)
	lead := func(ctx context.Context, s store.Store) {
		leading <- s
		<-ctx.Done()
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Lead(ctx, lead)
	}()
	first := <-leading
	put(t, first, "a")
	// The lease has ended, as that of a server that was stopped for long.
	if _, err := a.client.Delete(t.Context(), prefix+termKeys, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	otherDone := make(chan struct{})
	go func() {
		defer close(otherDone)
		b.Lead(ctx, lead)
	}()
	second := <-leading
	if err := first.Update(putZone("late")); !errors.Is(err, errNotLeader) {
		t.Errorf("an update of a former leader: %v", err)
	}
	put(t, second, "b")
	if ids, _ := zones(t, b); ids != "ab" {
		t.Errorf("zones %s", ids)
	}
	stop()
	<-done
	<-otherDone
}

// TestStagedCommits: a commit that is larger than a transaction of etcd is visible at once, and completed by others if its
// server dies.
func TestStagedCommits(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	a, b := opened(t, options(t, cluster)), opened(t, options(t, cluster))
	put(t, a, "a")
	c, release := a.hold()
	defer release()
	var at position
	writes, err := c.Try(func(tx *store.Tx) error {
		at = a.positionOf(c)
		for i := range 3 * batchOperations {
			if err := store.Seeded.Set(tx, strconv.Itoa(i), "x"); err != nil {
				return err
			}
		}
		return store.Zones.Delete(tx, "a")
	})
	if err != nil {
		t.Fatal(err)
	}
	next := head{Commit: at.head.Commit + 1, ID: a.name + "-staged", After: at.head.ID}
	for i, batch := range batchesOf(writes) {
		raw, err := json.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.client.Put(t.Context(), prefix+next.staged(i), string(raw)); err != nil {
			t.Fatal(err)
		}
		next.Staged++
	}
	check := func(s *Store) {
		t.Helper()
		if err := s.Current(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := s.View(func(tx *store.Tx) error {
			all, err := store.Seeded.All(tx)
			if len(all) != 3*batchOperations || store.Zones.Has(tx, "a") {
				t.Errorf("%d values, and the zone exists: %t", len(all), store.Zones.Has(tx, "a"))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if done, err := a.advance(t.Context(), c, at, next, nil, nil); !done || err != nil {
		t.Fatal(done, err)
	}
	check(a)
	check(b)
	check(opened(t, options(t, cluster)))
	put(t, b, "b")
	check(a)
	check(opened(t, options(t, cluster)))
	left, err := a.client.Get(t.Context(), prefix+stagedKeys, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || left.Count != 0 {
		t.Errorf("%d batches are left, %v", left.Count, err)
	}
}

// TestRestoredEtcd: a server notices that etcd was restored to an earlier state, and reads it again. Revisions of the state
// that was lost are unknown then.
func TestRestoredEtcd(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	s := opened(t, options(t, cluster))
	put(t, s, "a")
	ctx := t.Context()
	backup, err := s.client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "b")
	_, lost := zones(t, s)
	if _, err := s.client.Delete(ctx, prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	for _, kv := range backup.Kvs {
		if _, err := s.client.Put(ctx, string(kv.Key), string(kv.Value)); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err = s.Update(putZone("c")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if ids, _ := zones(t, s); ids != "ac" {
		t.Errorf("zones %s", ids)
	}
	err = s.View(func(tx *store.Tx) error {
		_, err := tx.Changes(lost)
		return err
	})
	if !errors.Is(err, store.ErrUnknownRevision) {
		t.Errorf("changes after a lost revision: %v", err)
	}
}

// TestRestoredFiles: a server goes on while etcd is restored from a backup of its files. The state is the same, but etcd
// counts from an earlier revision than the server has heard of, because other keys have changed since.
func TestRestoredFiles(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	member := cluster.Members[0]
	s := opened(t, options(t, cluster))
	put(t, s, "a")
	member.Kill()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(member.Dir)); err != nil {
		t.Fatal(err)
	}
	member.Start()
	for range 100 {
		for end := time.Now().Add(20 * time.Second); ; {
			err := s.Tell(t.Context(), "test", "x", []byte("y"))
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	// The watch hears of the revision.
	time.Sleep(2 * time.Second)
	member.Kill()
	if err := errors.Join(os.RemoveAll(member.Dir), os.CopyFS(member.Dir, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	member.Start()
	put(t, opened(t, options(t, cluster)), "b")
	for end := time.Now().Add(20 * time.Second); ; {
		err := s.Current(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if ids, _ := zones(t, s); ids != "ab" {
		t.Errorf("zones %s", ids)
	}
}

// TestOutage: without etcd, a server acknowledges nothing, and what it has can still be read.
func TestOutage(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	s := opened(t, options(t, cluster))
	put(t, s, "a")
	cluster.Members[0].Kill()
	for name, call := range map[string]func() error{
		"update": func() error { return s.Update(putZone("b")) }, "current": func() error { return s.Current(t.Context()) },
	} {
		if err := call(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ids, _ := zones(t, s); ids != "a" {
		t.Errorf("zones %s", ids)
	}
	cluster.Members[0].Start()
	for end := time.Now().Add(20 * time.Second); s.Update(putZone("c")) != nil; {
		if time.Now().After(end) {
			t.Fatal("updates fail after the outage")
		}
	}
	if ids, _ := zones(t, s); ids != "ac" {
		t.Errorf("zones %s", ids)
	}
}

// TestCloseLeavesNothing counts goroutines and files.
func TestCloseLeavesNothing(t *testing.T) {
	cluster := etcdtest.Start(t, 1)
	o := options(t, cluster)
	open := func() {
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "a")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open()
	before := runtime.NumGoroutine()
	for range 5 {
		open()
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// TestMove moves a state with values of all sizes from a file to etcd and back.
func TestMove(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	path := filepath.Join(t.TempDir(), "state.db")
	file, err := store.Open(path, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, "a")
	err = file.Update(func(tx *store.Tx) error {
		for i, n := range []int{0, 1, inlineBytes + 1, 2*partBytes + 1} {
			if err := store.Seeded.Set(tx, fmt.Sprint("a/", i), strings.Repeat("x", n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	o := options(t, cluster)
	content := func(c *store.Copy) string {
		var all strings.Builder
		if err := c.Writes(func(w store.Write) error {
			_, err := fmt.Fprintf(&all, "%s %q %d %.5s\n", w.Bucket, w.Key, len(w.Value), w.Value)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return all.String()
	}
	from, err := store.OpenBackup(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := Write(t.Context(), o, from); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), o, from); !errors.Is(err, errExists) {
		t.Errorf("over a state: %v", err)
	}
	// A write meanwhile is not lost.
	s := opened(t, o)
	err = Take(t.Context(), o, func(*store.Copy) error { return s.Update(putZone("b")) })
	if err == nil || !strings.Contains(err.Error(), "has changed meanwhile") {
		t.Errorf("taking a state that changes: %v", err)
	}
	if err := s.Update(func(tx *store.Tx) error { return store.Zones.Delete(tx, "b") }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var read string
	if err := Read(o, func(c *store.Copy) error { read = content(c); return nil }); err != nil {
		t.Fatal(err)
	}
	err = Take(t.Context(), o, func(c *store.Copy) error {
		if taken := content(c); taken != read || !strings.Contains(taken, `seeded "a/3" 1048577 xxxxx`) {
			t.Errorf("the state is\n%s", taken)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Read(o, func(*store.Copy) error { return nil }); err == nil {
		t.Error("the state exists after it was taken")
	}
}
