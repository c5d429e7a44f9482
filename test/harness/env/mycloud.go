package env

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

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
	m.Server = Server{
		name: "mycloud",
		path: "mycloud",
		args: append([]string{
			"serve",
			"--listen=" + address,
			"--data-dir=" + data,
			"--inventory=" + inventory,
			"--token-file=" + m.TokenFile,
		}, args...),
		ready: probe(m.Endpoint + "/healthz"),
	}
	return m, e.startServer(ctx, &m.Server)
}
