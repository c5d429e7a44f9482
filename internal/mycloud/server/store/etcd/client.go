package etcd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// newClient returns a client, which connects when it is used.
func newClient(config clientv3.Config) (*clientv3.Client, error) {
	// etcd accepts a ping every five seconds.
	config.DialKeepAliveTime, config.DialKeepAliveTimeout = 6*time.Second, 3*time.Second
	// What fails is returned, and logged where it matters.
	config.Logger = zap.NewNop()
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd %v: %w", config.Endpoints, err)
	}
	return client, nil
}

// permanent reports whether a request fails however often it is sent.
func permanent(err error) bool {
	for _, e := range []error{
		rpctypes.ErrCompacted, rpctypes.ErrFutureRev, rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed,
		rpctypes.ErrUserEmpty, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps, rpctypes.ErrNoSpace, rpctypes.ErrDuplicateKey,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Files are the files with which a server proves to etcd who it is, and knows etcd. All are optional.
type Files struct {
	// CA has the authorities of etcd's certificate; without it, those of the system are trusted.
	CA string
	// Cert and Key are the client certificate, which is read again for every connection.
	Cert, Key string
	// User is the name of a user of etcd, and Password the file with the password.
	User, Password string
}

// Parse returns the options of a state at a URL: etcd://HOST:PORT,…/PREFIX, or etcds:// for TLS, which a file for TLS
// implies.
func Parse(url string, f Files) (Options, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	hosts, prefix, _ := strings.Cut(rest, "/")
	if scheme != "etcd" && scheme != "etcds" || hosts == "" {
		return Options{}, fmt.Errorf("%q: must be etcd://HOST:PORT,…/PREFIX, or etcds:// for TLS", url)
	}
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		prefix = "mycloud"
	}
	o := Options{Prefix: "/" + prefix + "/", Config: clientv3.Config{Username: f.User}}
	secure := scheme == "etcds" || f.CA != "" || f.Cert != "" || f.Key != ""
	for host := range strings.SplitSeq(hosts, ",") {
		if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
			return Options{}, fmt.Errorf("%q: %q must be HOST:PORT", url, host)
		}
		scheme := "http://"
		if secure {
			scheme = "https://"
		}
		o.Config.Endpoints = append(o.Config.Endpoints, scheme+host)
	}
	if secure {
		if (f.Cert == "") != (f.Key == "") {
			return Options{}, errors.New("the client certificate and its key must both be set, or neither")
		}
		tls, err := (&transport.TLSInfo{TrustedCAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key}).ClientConfig()
		if err != nil {
			return Options{}, fmt.Errorf("TLS files of etcd: %w", err)
		}
		o.Config.TLS = tls
	}
	if (f.User == "") != (f.Password == "") {
		return Options{}, errors.New("the user of etcd and the file with the password must both be set, or neither")
	}
	if f.Password != "" {
		password, err := os.ReadFile(f.Password)
		if err != nil {
			return Options{}, fmt.Errorf("password of etcd: %w", err)
		}
		o.Config.Password = strings.TrimSpace(string(password))
	}
	return o, nil
}
