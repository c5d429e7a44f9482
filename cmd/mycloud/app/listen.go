package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/mycloud/server/api"
)

// listenOptions holds the flags that say where and how the server serves.
type listenOptions struct {
	address, cert, key, clientCA string
	insecure                     bool
}

func (o *listenOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.address, "listen", api.DefaultAddress, "address to listen on; port 0 selects a free port")
	f.StringVar(&o.cert, "tls-cert-file", "",
		"file with the certificate to serve HTTPS with, and those of intermediate authorities; requires --tls-key-file; "+
			"files that change are used for new connections")
	f.StringVar(&o.key, "tls-key-file", "", "file with the key of the certificate")
	f.StringVar(&o.clientCA, "client-ca-file", "",
		"file with the authorities whose client certificates are accepted instead of tokens: the common name is the name, and the "+
			"organization mycloud:read, mycloud:write, mycloud:edge or mycloud:admin the role; a file that changes is used for new connections")
	f.BoolVar(&o.insecure, "allow-insecure-http", false,
		"serve plain HTTP on an address that is not local, so that clients send their tokens in the clear")
}

// tlsConfig returns the configuration of TLS; nil for plain HTTP.
func (o *listenOptions) tlsConfig(logger *slog.Logger) (*tls.Config, error) {
	if (o.cert == "") != (o.key == "") {
		return nil, command.Usagef("--tls-cert-file and --tls-key-file must be set together")
	}
	if o.cert == "" && o.clientCA != "" {
		return nil, command.Usagef("--client-ca-file requires --tls-cert-file and --tls-key-file")
	}
	if o.cert == "" {
		return nil, nil //nolint:nilnil // plain HTTP
	}
	config, err := transport.TLSInfo{CertFile: o.cert, KeyFile: o.key}.ServerConfig()
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file %s, --tls-key-file %s: %w; provide a certificate and its key in PEM", o.cert, o.key, err)
	}
	if o.clientCA != "" {
		if err := acceptClients(config, o.clientCA, logger); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	return config, nil
}

// listen opens the listener.
func (o *listenOptions) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", o.address)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w; choose a different address, or port 0 for a free port", o.address, err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); o.cert == "" && !o.insecure && ok && !at.IP.IsLoopback() {
		_ = listener.Close()
		return nil, command.Usagef("--listen %s: clients would send their tokens in the clear; set --tls-cert-file and --tls-key-file, "+
			"listen on a loopback address, or set --allow-insecure-http", o.address)
	}
	return listener, nil
}

// serveOn handles the requests of connections until the server is shut down.
func serveOn(listener net.Listener, server *http.Server) error {
	if server.TLSConfig == nil {
		return server.Serve(listener)
	}
	return server.ServeTLS(listener, "", "")
}
