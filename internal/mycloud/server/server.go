// Package server is the reference implementation of the mycloud API: a cloud's control plane on one machine, for
// development, tests and demonstrations. Its state is durable. The packets of load balancers are moved by edges.
package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/durable"
	"quaymaster.dev/internal/mycloud/server/api"
	"quaymaster.dev/internal/mycloud/server/api/audit"
	"quaymaster.dev/internal/mycloud/server/api/handler"
	"quaymaster.dev/internal/mycloud/server/api/members"
	"quaymaster.dev/internal/mycloud/server/certificate"
	"quaymaster.dev/internal/mycloud/server/fault"
	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/internal/mycloud/server/jobs"
	"quaymaster.dev/internal/mycloud/server/store"
)

const (
	// heartbeatInterval is the time between heartbeats of an edge.
	heartbeatInterval = 2 * time.Second
	// StateFile is the file of the state in the data directory.
	StateFile = "state.db"
	// encryptionKeyFile is in the data directory unless there is a key elsewhere.
	encryptionKeyFile = "encryption.key"
)

// Options configures a Server.
type Options struct {
	// DataDir is the directory of the state. It is created if it does not exist.
	DataDir string
	// Store opens the state elsewhere than in DataDir. Servers that share it have the same EncryptionKey.
	Store func(Options) (store.Store, error)
	// Inventory has the initial objects of the cloud; if nil, none are added.
	Inventory *inventory.Inventory
	// Limits are the rate limits.
	Limits handler.RateLimits
	// Quotas has the maximum number of objects by kind, one of api.QuotaKinds; other kinds have no limit.
	Quotas map[string]int
	// Token is the bearer token that clients must send.
	Token string
	// EdgeToken is the bearer token of edges, which must not be Token. Without it, only edges in EdgeTokens exist.
	EdgeToken string
	// EdgeTokens are tokens by the name of the only edge that may use them.
	EdgeTokens map[string]string
	// MemberNetworks are the networks that members may have addresses of, besides those of instances.
	MemberNetworks []netip.Prefix
	// ProtectedNetworks are networks that no member may have an address of, such as those of routers, unless it is that of an
	// instance.
	ProtectedNetworks []netip.Prefix
	// HeartbeatInterval is the time between heartbeats of an edge; it defaults to two seconds.
	HeartbeatInterval time.Duration
	// EncryptionKey encrypts the key pairs of certificates: 32 bytes in base64. If empty, it is in a file in DataDir, which
	// is created if it does not exist.
	EncryptionKey string
	// JobDuration is how long writes of load balancers take, besides the time that edges need; 0 means that without edges
	// they complete before the response.
	JobDuration time.Duration
	// Faults injects faults into requests and jobs; if nil, there are none. Load balancers whose last job failed are in
	// state error.
	Faults *fault.Injector
	// FaultEndpoint serves /admin/faults, through which clients with the token can replace the plan of Faults.
	FaultEndpoint bool
	// Audit keeps who writes what; it may be nil.
	Audit *audit.Log
	// Clock defaults to the real clock.
	Clock clock.Clock
	// Logger defaults to one that discards everything.
	Logger *slog.Logger
}

// Server is the control plane of a cloud.
type Server struct {
	store store.Store
	// shared is true if other servers may have the same state.
	shared bool
	api    *api.API
	runner jobs.Runner
	clock  clock.Clock
	logger *slog.Logger
}

// Open opens the state and adds the inventory.
func Open(o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Faults == nil {
		o.Faults = fault.New(o.Clock)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.HeartbeatInterval == 0 {
		o.HeartbeatInterval = heartbeatInterval
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	shared := o.Store != nil
	if !shared {
		o.Store = openFile
	}
	st, err := o.Store(o)
	if err != nil {
		return nil, err
	}
	if err := durable.Sync(o.DataDir); err != nil {
		_ = st.Close()
		return nil, fmt.Errorf("create state: %w", err)
	}
	// Nothing is written before the key is known to be that of the state.
	cipher, err := o.cipher(st)
	if err != nil {
		_ = st.Close()
		return nil, err
	}
	if o.Inventory != nil {
		if err := st.Update(o.Inventory.Seed); err != nil {
			_ = st.Close()
			return nil, fmt.Errorf("add the inventory: %w", err)
		}
	}
	var admin http.Handler
	if o.FaultEndpoint {
		admin = o.Faults
	}
	a := api.New(api.Options{
		Store: st, Dir: o.DataDir, Replicated: shared, Clock: o.Clock, JobDuration: o.JobDuration, Limits: o.Limits, Quotas: o.Quotas,
		Faults: o.Faults.Wrap, Audit: o.Audit, Admin: admin, Token: o.Token, EdgeToken: o.EdgeToken, EdgeTokens: o.EdgeTokens,
		Members:           members.Rules{Networks: o.MemberNetworks, Protected: o.ProtectedNetworks},
		HeartbeatInterval: o.HeartbeatInterval, Cipher: cipher, Logger: o.Logger,
	})
	if err := a.Edges.Load(); err != nil {
		_ = st.Close()
		return nil, err
	}
	return &Server{
		store: st, shared: shared, api: a, clock: o.Clock, logger: o.Logger,
		runner: jobs.Runner{
			Clock: o.Clock, Duration: o.JobDuration, Finish: a.LoadBalancers.FinishJob, Logger: o.Logger,
			Work: func(ctx context.Context, j *cloudv1.Job) *cloudv1.Problem {
				if injected := o.Faults.Work(ctx, j); injected != nil {
					return injected
				}
				return a.LoadBalancers.AwaitEdges(ctx, j)
			},
		},
	}, nil
}

// openFile opens the state in the data directory.
func openFile(o Options) (store.Store, error) {
	return store.Open(filepath.Join(o.DataDir, StateFile), o.Clock)
}

// cipher returns the cipher of key pairs, and an error if those of the state were encrypted with another key. Only for a
// state without key pairs, it creates a key.
func (o *Options) cipher(st store.Store) (*certificate.Cipher, error) {
	id, sealed, err := sealedKeyPair(st)
	if err != nil {
		return nil, err
	}
	key := o.EncryptionKey
	if key == "" {
		if key, err = o.storedKey(sealed != ""); err != nil {
			return nil, err
		}
	}
	c, err := certificate.NewCipher(key)
	if err != nil || sealed == "" {
		return c, err
	}
	_, err = c.Open(id, sealed)
	return c, err
}

// storedKey returns the key in the data directory. It creates one unless the state needs the one it was written with.
func (o *Options) storedKey(needed bool) (string, error) {
	path := filepath.Join(o.DataDir, encryptionKeyFile)
	if !needed {
		return certificate.LoadOrCreateKey(path)
	}
	key, err := certificate.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: the private keys of certificates in state.db are encrypted with it; restore the file, or "+
			"name the key's file in --encryption-key-file", err)
	}
	return key, err
}

// sealedKeyPair returns an encrypted key pair of the state and the certificate that it belongs to; empty without one.
func sealedKeyPair(st store.Store) (id, sealed string, err error) {
	err = st.View(func(tx *store.Tx) error {
		all, err := store.KeyPairs.All(tx)
		if err != nil || len(all) == 0 {
			return err
		}
		id, sealed = all[0].Key, all[0].Value
		return nil
	})
	return id, sealed, err
}

// Handler returns the HTTP handler of the API.
func (s *Server) Handler() http.Handler { return s.api.Handler() }

// Run runs jobs, watches edges and deletes expired records until ctx is done. Of servers that share a state, one does.
func (s *Server) Run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	if s.shared {
		listening.Go(func() { s.api.Edges.Listen(ctx) })
	}
	listening.Go(func() { s.api.History.Run(ctx) })
	listening.Go(func() { s.api.Tokens.RecordUses(ctx) })
	s.store.Lead(ctx, func(ctx context.Context, st store.Store) {
		runner := s.runner
		runner.Store = st
		var wg sync.WaitGroup
		wg.Go(func() { runner.Run(ctx) })
		wg.Go(func() { s.api.Edges.Watch(ctx, st) })
		wg.Go(func() { s.api.LoadBalancers.Repair(ctx, st) })
		wg.Go(func() { s.clear(ctx, st) })
		wg.Wait()
	})
}

// Close closes the state. Run must have returned.
func (s *Server) Close() error { return s.store.Close() }
