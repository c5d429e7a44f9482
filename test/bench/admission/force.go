package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// forceLimit bounds how long the API server takes to notice a change of webhooks or policies.
const forceLimit = time.Minute

// enforce puts a configuration into force and returns when each of its parts has an effect.
func (b *bench) enforce(ctx context.Context, c *configuration) error {
	for _, object := range c.objects {
		created, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("put %s into force: unexpected object %T", c.name, object)
		}
		if err := b.Client.Create(ctx, created); err != nil {
			return fmt.Errorf("put %s into force: %w", c.name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, forceLimit)
	defer cancel()
	return env.Poll(ctx, c.name+" to be in force", func(ctx context.Context) error {
		for _, annotations := range c.denied {
			if err := b.denies(ctx, c.namespace, annotations); err != nil {
				return err
			}
		}
		svc := service(c.namespace, nil)
		if err := b.Client.Create(ctx, svc, client.DryRunAll); err != nil {
			return err
		}
		if got := svc.Annotations[maxQPS]; got != c.maxQPS {
			return fmt.Errorf("a created Service has %s=%q; want %q", maxQPS, got, c.maxQPS)
		}
		return nil
	})
}

// denies returns nil if a Service with the annotations is denied because of one of them.
func (b *bench) denies(ctx context.Context, namespace string, annotations map[string]string) error {
	err := b.Client.Create(ctx, service(namespace, annotations), client.DryRunAll)
	if err == nil {
		return fmt.Errorf("a Service with %v is not denied", annotations)
	}
	for key := range annotations {
		// An API server or webhook that does not work does not name the annotation.
		if strings.Contains(err.Error(), key) {
			return nil
		}
	}
	return fmt.Errorf("a Service with %v is not denied, but fails: %w", annotations, err)
}

// lift removes what enforce has created, and returns when it has no effect any more.
func (b *bench) lift(ctx context.Context, c *configuration) error {
	for _, object := range c.objects {
		if err := client.IgnoreNotFound(b.Client.Delete(ctx, object)); err != nil {
			return fmt.Errorf("remove %s: %w", c.name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, forceLimit)
	defer cancel()
	return env.Poll(ctx, c.name+" to be removed", func(ctx context.Context) error {
		for _, annotations := range c.denied {
			svc := service(c.namespace, annotations)
			want := svc.Annotations[maxQPS]
			if err := b.Client.Create(ctx, svc, client.DryRunAll); err != nil {
				return err
			}
			if got := svc.Annotations[maxQPS]; got != want {
				return fmt.Errorf("a created Service still gets %s=%q", maxQPS, got)
			}
		}
		return nil
	})
}
