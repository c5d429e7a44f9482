package cloud

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/etcd"
	"quaymaster.dev/test/harness/env"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

// OpenServer opens a server. Without a store, its state is in its data directory, or in etcd if env.EtcdVariable is set.
func OpenServer(t *testing.T, o server.Options) (*server.Server, error) {
	t.Helper()
	if o.Store == nil && InEtcd() {
		o.Store = StoreOf(o.DataDir)
	}
	return server.Open(o)
}

// InEtcd reports whether servers have their states in etcd.
func InEtcd() bool { return env.Etcd() != "" }

// StoreOf opens the state in etcd of a server with a data directory.
func StoreOf(dataDir string) func(server.Options) (store.Store, error) {
	return func(o server.Options) (store.Store, error) {
		return etcd.Open(etcd.Options{
			Config: clientv3.Config{Endpoints: []string{env.Etcd()}}, Prefix: etcdtest.Prefix(dataDir), Dir: o.DataDir, Clock: o.Clock,
			Logger: o.Logger,
		})
	}
}
