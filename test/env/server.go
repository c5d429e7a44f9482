package env

import (
	"context"
	"fmt"
	"time"

	"quaymaster.dev/test/process"
)

// Server is a program of the project that runs beside the control plane and tells whether it is ready.
type Server struct {
	*process.Process
	// URL is where the controllers serve health and metrics.
	URL string

	env   *Env
	name  string
	path  string
	args  []string
	ready func(context.Context) error
}

// startServer runs a program of the project and waits until it is ready.
func (e *Env) startServer(ctx context.Context, s *Server) error {
	path, err := Program(s.path)
	if err != nil {
		return err
	}
	s.env, s.path = e, path
	return s.Restart(ctx)
}

// Restart starts the program again after Stop or Kill, with the same arguments, and waits until it is ready.
func (s *Server) Restart(ctx context.Context) error {
	if s.Process != nil && s.Exit() == nil {
		return fmt.Errorf("start %s: it still runs", s.name)
	}
	if err := s.Launch(); err != nil {
		return err
	}
	return s.WaitReady(ctx, startLimit)
}

// Launch starts the program and does not wait.
func (s *Server) Launch() error {
	p, err := s.env.Start(s.name, s.path, s.args...)
	if err != nil {
		return err
	}
	s.Process = p
	return nil
}

// WaitReady blocks until the program is ready. It fails when the program ends or the time is over.
func (s *Server) WaitReady(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return Poll(ctx, s.name, s.ready, s.Process)
}

// Ready asks once whether the program is ready, as a kubelet's probe does.
func (s *Server) Ready(ctx context.Context) error { return s.ready(ctx) }
