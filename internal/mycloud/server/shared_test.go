package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/etcd"
)

// etcdVariable is the environment variable with the endpoint of an etcd. With it, all tests have their states there.
const etcdVariable = "MYCLOUD_TEST_ETCD"

// prefixFile is in the data directory of a cloud whose state is in etcd.
const prefixFile = "prefix"

// openServer opens a server. Its state is in etcd if there is one.
func openServer(t *testing.T, o server.Options) (*server.Server, error) {
	t.Helper()
	if os.Getenv(etcdVariable) == "" {
		return server.Open(o)
	}
	prefix, err := os.ReadFile(filepath.Join(o.DataDir, prefixFile))
	if err != nil {
		prefix = []byte(o.DataDir + "/")
		if err := os.WriteFile(filepath.Join(o.DataDir, prefixFile), prefix, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Store = func(o server.Options) (store.Store, error) {
		return etcd.Open(etcd.Options{Config: etcdConfig(), Prefix: string(prefix), Dir: o.DataDir, Clock: o.Clock, Logger: o.Logger})
	}
	return server.Open(o)
}

func etcdConfig() clientv3.Config {
	return clientv3.Config{Endpoints: []string{os.Getenv(etcdVariable)}}
}

// copyState copies the state of a cloud that is stopped, and its data directory.
func copyState(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if os.Getenv(etcdVariable) == "" {
		return
	}
	client := must[*clientv3.Client](t)(clientv3.New(etcdConfig()))
	defer client.Close()
	for key, value := range keysOf(t, client, from) {
		must[*clientv3.PutResponse](t)(client.Put(t.Context(), to+"/"+key, value))
	}
	if err := os.WriteFile(filepath.Join(to, prefixFile), []byte(to+"/"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rawState returns the state of a cloud that is stopped as it is on the disk.
func rawState(t *testing.T, dir string) []byte {
	t.Helper()
	if os.Getenv(etcdVariable) == "" {
		return must[[]byte](t)(os.ReadFile(filepath.Join(dir, "state.db")))
	}
	client := must[*clientv3.Client](t)(clientv3.New(etcdConfig()))
	defer client.Close()
	return fmt.Append(nil, keysOf(t, client, dir))
}

// keysOf returns the keys of a state in etcd without their prefix, and their values.
func keysOf(t *testing.T, client *clientv3.Client, dir string) map[string]string {
	t.Helper()
	prefix := string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, prefixFile))))
	all := map[string]string{}
	for _, kv := range must[*clientv3.GetResponse](t)(client.Get(t.Context(), prefix, clientv3.WithPrefix())).Kvs {
		all[strings.TrimPrefix(string(kv.Key), prefix)] = string(kv.Value)
	}
	return all
}
