package etcd

import (
	"os"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"quaymaster.dev/test/harness/env"
)

// Prefix returns the prefix of the keys of a cloud's state in the etcd of env.EtcdVariable.
func Prefix(dataDir string) string { return dataDir + "/" }

// CopyState copies the data directory of a cloud that is stopped to a new one, with the state in etcd if it is there.
func CopyState(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if env.Etcd() == "" {
		return
	}
	all := StateOf(t, from)
	client := connect(t)
	if _, err := client.Delete(t.Context(), Prefix(to), clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	for key, value := range all {
		if _, err := client.Put(t.Context(), Prefix(to)+key, value); err != nil {
			t.Fatal(err)
		}
	}
}

// StateOf returns the values of a cloud's state in etcd by their keys, without the prefix.
func StateOf(t testing.TB, dataDir string) map[string]string {
	t.Helper()
	resp, err := connect(t).Get(t.Context(), Prefix(dataDir), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range resp.Kvs {
		all[strings.TrimPrefix(string(kv.Key), Prefix(dataDir))] = string(kv.Value)
	}
	return all
}

func connect(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{env.Etcd()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
