package etcd

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/mycloud/server/store"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

// BenchmarkUpdate compares an update with a plain transaction of etcd of the same operations, and with a read.
func BenchmarkUpdate(b *testing.B) {
	cluster := etcdtest.Start(b, 3)
	s, err := Open(Options{
		Config: clientv3.Config{Endpoints: cluster.Endpoints()}, Prefix: prefix, Dir: b.TempDir(), Clock: clock.RealClock{},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	value := strings.Repeat("x", 1024)
	set := func(n int) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			for i := range 10 {
				if err := store.Seeded.Set(tx, fmt.Sprint(i), fmt.Sprint(n, value)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	b.Run("update", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			if err := s.Update(set(n)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			ops := []clientv3.Op{clientv3.OpPut("/plain/head", fmt.Sprint(n))}
			for i := range 10 {
				ops = append(ops, clientv3.OpPut(fmt.Sprint("/plain/", i), fmt.Sprint(n, value)))
			}
			if _, err := s.client.Txn(b.Context()).Then(ops...).Commit(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("current", func(b *testing.B) {
		for b.Loop() {
			if err := s.Current(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
