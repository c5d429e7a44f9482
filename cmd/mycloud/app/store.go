package app

import (
	"fmt"

	"github.com/spf13/pflag"

	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/etcd"
)

// storeOptions holds the flags that select the store.
type storeOptions struct {
	url   string
	files etcd.Files
}

func (o *storeOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(
		&o.url, "store", "",
		"where several servers share the state: etcd://HOST:PORT,HOST:PORT/PREFIX, or etcds:// for TLS; empty for a file in --data-dir",
	)
	f.StringVar(&o.files.CA, "etcd-ca-file", "", "file with the authorities of etcd's certificate; empty for those of the system")
	f.StringVar(&o.files.Cert, "etcd-cert-file", "", "file with the client certificate for etcd; requires --etcd-key-file")
	f.StringVar(&o.files.Key, "etcd-key-file", "", "file with the key of the client certificate for etcd")
	f.StringVar(&o.files.User, "etcd-user", "", "user of etcd; requires --etcd-password-file")
	f.StringVar(&o.files.Password, "etcd-password-file", "", "file with the password of the user of etcd")
}

// options returns where the state is in etcd.
func (o *storeOptions) options() (etcd.Options, error) {
	e, err := etcd.Parse(o.url, o.files)
	if err != nil {
		return e, fmt.Errorf("--store: %w", err)
	}
	return e, nil
}

// opener returns what opens the state; nil for the file in the data directory.
func (o *storeOptions) opener() (func(server.Options) (store.Store, error), error) {
	if o.url == "" {
		return nil, nil //nolint:nilnil // the default
	}
	e, err := o.options()
	if err != nil {
		return nil, err
	}
	return func(s server.Options) (store.Store, error) {
		e.Dir, e.Clock, e.Logger = s.DataDir, s.Clock, s.Logger
		return etcd.Open(e)
	}, nil
}
