package env

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// EtcdVariable is the environment variable with the endpoint of an etcd. With it, the clouds of tests have their states there.
const EtcdVariable = "MYCLOUD_TEST_ETCD"

// Etcd returns the endpoint of the etcd with the states of clouds; empty if they are in files.
func Etcd() string { return os.Getenv(EtcdVariable) }

// keySize is the size of the key that encrypts secrets in the cloud's state, in bytes.
const keySize = 32

// Mycloud is the running reference cloud.
type Mycloud struct {
	Server
	// Endpoint is the base URL of its API, without the version.
	Endpoint string
	// Token authenticates clients; TokenFile contains it.
	Token, TokenFile string
}

// StartMycloud runs the reference cloud with its state below Dir and the instances, addresses and volumes of an
// inventory file; an empty name means the example inventory. args are appended and take precedence.
func (e *Env) StartMycloud(ctx context.Context, inventory string, args ...string) (*Mycloud, error) {
	if inventory == "" {
		root, err := Root()
		if err != nil {
			return nil, err
		}
		inventory = filepath.Join(root, "examples", "inventory.yaml")
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	m := &Mycloud{
		Endpoint:  "http://" + address,
		Token:     rand.Text(),
		TokenFile: e.path("mycloud.token"),
	}
	if err := os.WriteFile(m.TokenFile, []byte(m.Token+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write the cloud's token: %w", err)
	}
	data := e.path("mycloud")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("create the cloud's data directory: %w", err)
	}
	serve := []string{
		"serve",
		"--listen=" + address,
		"--data-dir=" + data,
		"--inventory=" + inventory,
		"--token-file=" + m.TokenFile,
	}
	for _, arg := range args {
		if dir, ok := strings.CutPrefix(arg, "--data-dir="); ok {
			data = dir
		}
	}
	if at := Etcd(); at != "" {
		key := e.path("mycloud.key")
		if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString(make([]byte, keySize))), 0o600); err != nil {
			return nil, fmt.Errorf("write the cloud's encryption key: %w", err)
		}
		serve = append(serve, "--store="+strings.Replace(at, "http://", "etcd://", 1)+data, "--encryption-key-file="+key)
	}
	m.Server = Server{
		name:  "mycloud",
		path:  "mycloud",
		args:  append(serve, args...),
		ready: probe(m.Endpoint + "/healthz"),
	}
	return m, e.startServer(ctx, &m.Server)
}
