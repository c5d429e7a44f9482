package env

import (
	"context"
	"fmt"
	"time"

	"quaymaster.dev/test/harness/process"
)

// Server is a program of the project with a readiness endpoint.
type Server struct {
	*process.Process
	// URL is the base URL of the controllers' health and metrics endpoints.
	URL string

	env   *Env
	name  string
	path  string
	args  []string
	ready func(context.Context) error
}

// startServer starts a program of the project and waits until it is ready.
func (e *Env) startServer(ctx context.Context, s *Server) error {
	path, err := Program(s.path)
	if err != nil {
		return err
	}
	s.env, s.path = e, path
	return s.Restart(ctx)
}

// Replace makes the next start run another program with the same arguments.
func (s *Server) Replace(path string) { s.path = path }

// Restart starts the program again with the same arguments after Stop or Kill, and waits until it is ready.
func (s *Server) Restart(ctx context.Context) error {
	if s.Process != nil && s.Exit() == nil {
		return fmt.Errorf("start %s: it is still running", s.name)
	}
	if err := s.Launch(); err != nil {
		return err
	}
	return s.WaitReady(ctx, startLimit)
}

// Launch starts the program without waiting for it.
func (s *Server) Launch() error {
	p, err := s.env.Start(s.name, s.path, s.args...)
	if err != nil {
		return err
	}
	s.Process = p
	return nil
}

// WaitReady waits until the program is ready. It fails if the program ends or the limit expires.
func (s *Server) WaitReady(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return Poll(ctx, s.name, s.ready, s.Process)
}

// Ready probes the program once, as a kubelet would, and returns nil if it is ready.
func (s *Server) Ready(ctx context.Context) error { return s.ready(ctx) }
