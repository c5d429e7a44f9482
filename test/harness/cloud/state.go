package cloud

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/etcd"
	"quaymaster.dev/test/harness/env"
)

// prefixFile is in the data directory of a server whose state is in etcd, and has the prefix of its keys.
const prefixFile = "prefix"

// OpenServer opens a server. Its state is in its data directory, or in etcd if env.EtcdVariable is set.
func OpenServer(t *testing.T, o server.Options) (*server.Server, error) {
	t.Helper()
	if env.Etcd() == "" {
		return server.Open(o)
	}
	if _, err := os.Stat(filepath.Join(o.DataDir, prefixFile)); err != nil {
		writePrefix(t, o.DataDir)
	}
	prefix := prefixOf(t, o.DataDir)
	o.Store = func(o server.Options) (store.Store, error) {
		return etcd.Open(etcd.Options{Config: etcdConfig(), Prefix: prefix, Dir: o.DataDir, Clock: o.Clock, Logger: o.Logger})
	}
	return server.Open(o)
}

// CopyState copies the state of a server that is stopped, with its data directory.
func CopyState(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if env.Etcd() == "" {
		return
	}
	writePrefix(t, to)
	client := newClient(t)
	for key, value := range KeysOf(t, from) {
		if _, err := client.Put(t.Context(), prefixOf(t, to)+key, value); err != nil {
			t.Fatal(err)
		}
	}
}

// KeysOf returns the values of a state in etcd by their keys, without the prefix.
func KeysOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	prefix := prefixOf(t, dir)
	resp, err := newClient(t).Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range resp.Kvs {
		all[strings.TrimPrefix(string(kv.Key), prefix)] = string(kv.Value)
	}
	return all
}

// writePrefix gives the server with a data directory a state of its own.
func writePrefix(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, prefixFile), []byte(dir+"/"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func prefixOf(t *testing.T, dir string) string {
	t.Helper()
	prefix, err := os.ReadFile(filepath.Join(dir, prefixFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(prefix)
}

func newClient(t *testing.T) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(etcdConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func etcdConfig() clientv3.Config { return clientv3.Config{Endpoints: []string{env.Etcd()}} }
