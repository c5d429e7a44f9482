package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/connections"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/api"
	"quaymaster.dev/internal/mycloud/server/api/audit"
	"quaymaster.dev/internal/mycloud/server/api/handler"
	"quaymaster.dev/internal/mycloud/server/certificate"
	"quaymaster.dev/internal/mycloud/server/fault"
	"quaymaster.dev/internal/mycloud/server/inventory"
)

const (
	// stopWait is how long the server waits for open requests when it stops.
	stopWait = 10 * time.Second
	// answerWait is longer than the API holds any response.
	answerWait = 90 * time.Second
	// mostConnections is many times what edges and clusters need, and otherFiles what the server needs besides connections.
	mostConnections, otherFiles = 10_000, 64
)

// serveOptions holds the flags of serve.
type serveOptions struct {
	listen                   listenOptions
	dataDir, inventory       string
	tokenFile, edgeTokenFile string
	encryptionKeyFile        string
	memberNetworks           []string
	protectedNetworks        []string
	jobDuration              time.Duration
	logRequests              bool
	metrics                  string
	limits                   handler.RateLimits
	quotas                   map[string]int
	faults                   string
	faultEndpoint            bool
	store                    storeOptions
	audit                    audit.Options
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a cloud's control plane",
		Long: "Runs a cloud's control plane over HTTPS, or HTTP on a loopback address. A token is required in --token-file or " + tokenVariable + ".\n" +
			"The state is kept in --data-dir, or in etcd, where several servers share it; every acknowledged write is on disk.\n" +
			"A page to look at, which needs the token, is at /ui/ of its address.\n" +
			"Traffic is carried by edges, which register with a token of their own: --edge-token-file or " + edgeTokenVariable + ".\n" +
			"Without it there are no edges, and the operating state of load balancers is unknown.",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	f := cmd.Flags()
	o.listen.addFlags(f)
	f.StringVar(&o.dataDir, "data-dir", "", "directory of the cloud's state; created if it does not exist (required)")
	o.store.addFlags(f)
	f.StringVar(&o.inventory, "inventory", "", "YAML file with the initial objects of the cloud")
	f.StringVar(
		&o.tokenFile, "token-file", "", "file with the bearer token that clients must send; overrides "+tokenVariable,
	)
	f.StringVar(
		&o.edgeTokenFile, "edge-token-file", "",
		"file with the bearer token with which edges register, or lines NAME TOKEN for single edges; overrides "+
			edgeTokenVariable+"; empty for no edges",
	)
	f.StringVar(
		&o.encryptionKeyFile, "encryption-key-file", "",
		"file with the key that encrypts the private keys of certificates: 32 bytes in base64; if empty, encryption.key in "+
			"--data-dir, which is created: then a copy of --data-dir is enough to read the private keys",
	)
	f.StringSliceVar(
		&o.memberNetworks, "member-network", nil,
		"networks that members may have addresses of, besides those of instances: edges send traffic and probes there",
	)
	f.StringSliceVar(
		&o.protectedNetworks, "protected-network", nil,
		"networks in those of --member-network that no member may have an address of, such as those of routers; the addresses "+
			"of this machine, of edges and of load balancers are always protected",
	)
	f.DurationVar(
		&o.jobDuration, "job-duration", 0,
		"how long writes of load balancers take; 0 means that they complete before the response",
	)
	f.IntVar(
		&o.limits.Read, "read-limit", 0,
		"reads per minute that are allowed; 0 means unlimited, and responses do not mention a limit",
	)
	f.IntVar(
		&o.limits.Write, "write-limit", 0,
		"writes per minute that are allowed; 0 means unlimited, and responses do not mention a limit",
	)
	f.StringToIntVar(
		&o.quotas, "quota", nil,
		"maximum number of objects by kind, such as load-balancer=100,node-group=10; kinds: "+
			strings.Join(api.QuotaKinds(), ", "),
	)
	f.StringVar(&o.faults, "faults", "", "YAML file with a plan of faults to inject, for tests of clients")
	f.BoolVar(
		&o.faultEndpoint, "fault-endpoint", false,
		"let clients read, replace and delete the plan of faults at /admin/faults; for tests of clients",
	)
	f.StringVar(&o.audit.File, "audit-log-file", "", "file to which a line of JSON is appended for every write; empty for none")
	f.IntVar(&o.audit.MaxMegabytes, "audit-log-max-size", 100,
		"size in megabytes at which the audit log is renamed and begins again")
	f.IntVar(&o.audit.MaxBackups, "audit-log-max-backups", 10, "number of renamed audit logs that are kept, at least 1")
	f.StringVar(&o.metrics, "metrics-listen", "0", "address of /metrics, such as 127.0.0.1:9128; 0 for none")
	f.BoolVar(&o.logRequests, "log-requests", false, "log every request")
	return cmd
}

func (o serveOptions) run(ctx context.Context, stderr io.Writer) error {
	if o.dataDir == "" {
		return command.Usagef("--data-dir is required; set it to a directory for the cloud's state")
	}
	if o.store.url != "" && o.encryptionKeyFile == "" {
		return command.Usagef("--store requires --encryption-key-file: all servers that share a state need the same key")
	}
	openStore, err := o.store.opener()
	if err != nil {
		return err
	}
	if o.jobDuration < 0 {
		return command.Usagef("--job-duration %s: must not be negative", o.jobDuration)
	}
	if o.limits.Read < 0 || o.limits.Write < 0 {
		return command.Usagef("--read-limit and --write-limit must not be negative")
	}
	for _, kind := range slices.Sorted(maps.Keys(o.quotas)) {
		if !slices.Contains(api.QuotaKinds(), kind) || o.quotas[kind] < 0 {
			return command.Usagef("--quota %s=%d: must be a number of objects of one of the kinds %s",
				kind, o.quotas[kind], strings.Join(api.QuotaKinds(), ", "))
		}
	}
	if o.audit.MaxMegabytes < 1 || o.audit.MaxBackups < 1 {
		// The library would take 0 as another size, and as no limit.
		return command.Usagef("--audit-log-max-size and --audit-log-max-backups must be at least 1")
	}
	memberNetworks, err := parseNetworks("--member-network", o.memberNetworks)
	if err != nil {
		return err
	}
	protectedNetworks, err := parseNetworks("--protected-network", o.protectedNetworks)
	if err != nil {
		return err
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("read the addresses of this machine: %w", err)
	}
	for _, text := range own {
		if address, err := netip.ParsePrefix(text.String()); err == nil {
			protectedNetworks = append(protectedNetworks, netip.PrefixFrom(address.Addr(), address.Addr().BitLen()))
		}
	}
	token, err := readToken("--token-file", o.tokenFile, tokenVariable)
	if err != nil {
		return err
	}
	if token == "" {
		return fmt.Errorf("token is required; set --token-file or %s", tokenVariable)
	}
	edgeToken, edgeTokens, err := readEdgeTokens(o.edgeTokenFile, token)
	if err != nil {
		return err
	}
	encryptionKey := ""
	if o.encryptionKeyFile != "" {
		if encryptionKey, err = certificate.LoadKey(o.encryptionKeyFile); err != nil {
			return fmt.Errorf("--encryption-key-file: %w", err)
		}
	}
	var inv *inventory.Inventory
	if o.inventory != "" {
		if inv, err = inventory.Load(o.inventory); err != nil {
			return fmt.Errorf("--inventory: %w", err)
		}
	}
	faults := fault.New(clock.RealClock{})
	if o.faults != "" {
		if err := loadFaults(faults, o.faults); err != nil {
			return fmt.Errorf("--faults: %w", err)
		}
	}
	level := slog.LevelInfo
	if o.logRequests {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	auditLog, err := o.openAudit(logger)
	if err != nil {
		return fmt.Errorf("--audit-log-file: %w", err)
	}
	defer func() { _ = auditLog.Close() }()
	encryption, err := o.listen.tlsConfig(logger)
	if err != nil {
		return err
	}
	listener, err := o.listen.listen(ctx)
	if err != nil {
		return err
	}
	server, err := server.Open(server.Options{
		DataDir: o.dataDir, Store: openStore, Inventory: inv, Token: token, EdgeToken: edgeToken, EdgeTokens: edgeTokens,
		EncryptionKey: encryptionKey, MemberNetworks: memberNetworks, ProtectedNetworks: protectedNetworks, JobDuration: o.jobDuration, Limits: o.limits, Quotas: o.quotas,
		Faults: faults, FaultEndpoint: o.faultEndpoint, Audit: auditLog, Logger: logger,
	})
	if err != nil {
		_ = listener.Close()
		flag := "--data-dir"
		if o.store.url != "" {
			flag = "--store"
		}
		return fmt.Errorf("%s: %w", flag, err)
	}
	collectors := []prometheus.Collector{server}
	if auditLog != nil {
		collectors = append(collectors, auditLog)
	}
	err = o.serve(ctx, server, listener, encryption, collectors, logger)
	return errors.Join(err, server.Close())
}

// openAudit opens the audit log, if there is one.
func (o *serveOptions) openAudit(logger *slog.Logger) (*audit.Log, error) {
	if o.audit.File == "" {
		return nil, nil //nolint:nilnil // no log
	}
	settings := o.audit
	settings.Logger = logger
	return audit.Open(settings)
}

// parseNetworks parses the networks of a flag.
func parseNetworks(flag string, texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, command.Usagef("%s %q: must be a network such as 10.0.0.0/24", flag, text)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// loadFaults sets the plan of a file.
func loadFaults(faults *fault.Injector, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	plan, err := fault.Parse(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return faults.Set(plan)
}

// serve handles requests until ctx is done, and then waits a while for open ones.
func (o serveOptions) serve(
	ctx context.Context, server *server.Server, listener net.Listener, encryption *tls.Config,
	collectors []prometheus.Collector, logger *slog.Logger,
) error {
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { server.Run(work) })
	if o.metrics != "0" {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors...)
		if err := serveMetrics(work, &wg, o.metrics, registry); err != nil {
			return fmt.Errorf("--metrics-listen: %w", err)
		}
	}

	most, err := maxConnections()
	if err != nil {
		return err
	}
	bound := connections.NewBound(listener, most, func() {})
	hs := &http.Server{
		Handler:           server.Handler(),
		TLSConfig:         encryption,
		ConnState:         bound.Observe,
		ConnContext:       bound.Context,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      answerWait,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return work },
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	wg.Go(func() { failed <- serveOn(bound, hs) })
	scheme := "http://"
	if encryption != nil {
		scheme = "https://"
	}
	logger.InfoContext(ctx, "Serving the mycloud API", "endpoint", scheme+listener.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	logger.InfoContext(ctx, "Stopping")
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if err := hs.Shutdown(last); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// maxConnections returns how many connections the server may have, so that it has files left for its state.
func maxConnections() (int, error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	if files.Cur < 2*otherFiles {
		return 0, fmt.Errorf("the limit of open files is %d; it must be at least %d", files.Cur, 2*otherFiles)
	}
	return int(min(files.Cur-otherFiles, mostConnections)), nil
}

// readToken reads a token from the file of a flag or from an environment variable. It returns an empty string if neither
// is set.
func readToken(flag, file, variable string) (string, error) {
	if file == "" {
		return strings.TrimSpace(os.Getenv(variable)), nil
	}
	t, err := cloudapi.TokenFile(file)()
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return t, nil
}
