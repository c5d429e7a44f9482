package etcd_test

import (
	"log/slog"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/conformance"
	"quaymaster.dev/internal/mycloud/server/store/etcd"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

func open(t *testing.T, endpoints []string, prefix string, c clock.PassiveClock) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(etcd.Options{
		Config: clientv3.Config{Endpoints: endpoints}, Prefix: prefix, Dir: t.TempDir(), Clock: c,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	cluster := etcdtest.Start(t, 1)
	conformance.Test(t, func(t *testing.T, c clock.PassiveClock) store.Store {
		t.Helper()
		return open(t, cluster.Endpoints(), "/"+t.Name()+"/", c)
	})
}
