package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/mycloud"
	"quaymaster.dev/internal/mycloud/inventory"
)

const (
	// stopWait is how long the server waits for open requests when it stops.
	stopWait = 10 * time.Second
	// answerWait is longer than the API holds any response.
	answerWait = 90 * time.Second
)

// serveOptions holds the flags of serve.
type serveOptions struct {
	listen, dataDir, inventory, tokenFile string
	jobDuration                           time.Duration
	logRequests                           bool
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a cloud's control plane",
		Long: "Runs a cloud's control plane over HTTP. A token is required in --token-file or " + tokenVariable + ".\n" +
			"The state is kept in --data-dir; every acknowledged write is on disk.",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8090", "address to listen on; port 0 selects a free port")
	f.StringVar(&o.dataDir, "data-dir", "", "directory of the cloud's state; created if it does not exist (required)")
	f.StringVar(&o.inventory, "inventory", "", "YAML file with the initial objects of the cloud")
	f.StringVar(
		&o.tokenFile, "token-file", "", "file with the bearer token that clients must send; overrides "+tokenVariable,
	)
	f.DurationVar(
		&o.jobDuration, "job-duration", 0,
		"how long writes of load balancers take; 0 means that they complete before the response",
	)
	f.BoolVar(&o.logRequests, "log-requests", false, "log every request")
	return cmd
}

func (o serveOptions) run(ctx context.Context, stderr io.Writer) error {
	if o.dataDir == "" {
		return command.Usagef("--data-dir is required; set it to a directory for the cloud's state")
	}
	if o.jobDuration < 0 {
		return command.Usagef("--job-duration %s: must not be negative", o.jobDuration)
	}
	token, err := o.token()
	if err != nil {
		return err
	}
	var inv *inventory.Inventory
	if o.inventory != "" {
		if inv, err = inventory.Load(o.inventory); err != nil {
			return fmt.Errorf("--inventory: %w", err)
		}
	}
	level := slog.LevelInfo
	if o.logRequests {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w; choose another address, or port 0 for a free port", o.listen, err)
	}
	server, err := mycloud.Open(mycloud.Options{
		DataDir: o.dataDir, Inventory: inv, Token: token, JobDuration: o.jobDuration, Logger: logger,
	})
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("--data-dir: %w", err)
	}
	err = serve(ctx, server, listener, logger)
	return errors.Join(err, server.Close())
}

// serve handles requests until ctx is done, and then waits a while for open ones.
func serve(ctx context.Context, server *mycloud.Server, listener net.Listener, logger *slog.Logger) error {
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { server.Run(work) })

	hs := &http.Server{
		Handler:           server.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      answerWait,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return work },
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	wg.Go(func() { failed <- hs.Serve(listener) })
	logger.InfoContext(ctx, "Serving the mycloud API", "endpoint", "http://"+listener.Addr().String())
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

// token reads the token that clients must send.
func (o serveOptions) token() (string, error) {
	if o.tokenFile != "" {
		t, err := cloudapi.TokenFile(o.tokenFile)()
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return t, nil
	}
	if t := strings.TrimSpace(os.Getenv(tokenVariable)); t != "" {
		return t, nil
	}
	return "", fmt.Errorf("token is required; set --token-file or %s", tokenVariable)
}
