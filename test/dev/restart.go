package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"quaymaster.dev/test/harness/env"
)

const (
	// soon is the run time below which a termination counts as a failed start.
	soon = 10 * time.Second
	// tries is how many failed starts in a row end the demonstration.
	tries = 3
)

// keepRunning restarts a program whenever it terminates, as a Deployment would, so that users can try killing it. It
// returns when the context ends, or with the program's exit error if the program does not stay up.
func keepRunning(ctx context.Context, server *env.Server, out io.Writer) error {
	for short := 0; ; {
		began := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-server.Done():
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > soon {
			short = 0
		}
		if short++; short > tries {
			return server.Exit()
		}
		fmt.Fprintf(out, "… %s terminated (%s); restarting it\n", server.Name(), server.How())
		if err := server.Launch(); err != nil {
			return err
		}
	}
}
