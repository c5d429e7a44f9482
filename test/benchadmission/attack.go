package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"quaymaster.dev/test/adversarial"
	"quaymaster.dev/test/benchadmission/machine"
	"quaymaster.dev/test/env"
)

const (
	// victims is the number of clients that create ordinary Services during an attack. More would only show that the
	// attacker takes one of a few cores.
	victims = 1
	// attackConnections is the number of connections to the webhook that an attack keeps open, or tries to.
	attackConnections = 150
	// attackStart is how long an attack goes on before its effect is measured.
	attackStart = 500 * time.Millisecond
	// attackersNamespace is where hostile Services are created.
	attackersNamespace = "attacker"
	// memoryInterval is how often the webhook's memory is read during an attack.
	memoryInterval = 20 * time.Millisecond
	// directCalls is how often each hostile Service is reviewed alone.
	directCalls = 3
)

// attack slows down ordinary creates, or tries to.
type attack struct {
	name string
	// args are the arguments of the attacker; nil for no attack.
	args []string
	// review is the AdmissionReview of a hostile Service; nil for attacks on the server.
	review []byte

	// Creates during the attack compared with undisturbed ones of the same round, and the same without webhooks.
	p50, p99, throughput, unhookedP99 []float64
	// extra is the memory that the webhook uses in addition, in bytes.
	extra int64
	// failures is the number of ordinary creates that failed.
	failures int
	// call is the greatest CPU time of a call.
	call time.Duration
}

// attack runs all attacks on Quaymaster.
func (b *bench) attack(ctx context.Context, r *report) error {
	i := slices.IndexFunc(b.configurations, func(c *configuration) bool { return c.name == quaymaster })
	if i < 0 || b.options.attackRounds == 0 {
		return nil
	}
	c := b.configurations[i]
	r.attacks = b.attacks(c)
	if err := b.makeNamespace(ctx, attackersNamespace); err != nil {
		return err
	}
	for round := range b.options.attackRounds {
		for _, of := range []*configuration{c, b.configurations[0]} {
			fmt.Fprintf(b.progress, "attacks, round %d of %d: %s\n", round+1, b.options.attackRounds, of.name)
			if err := b.enforce(ctx, of); err != nil {
				return err
			}
			if err := errors.Join(b.attackRound(ctx, of, r.attacks), b.lift(ctx, of)); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(b.progress, "reviewing hostile Services one by one")
	return b.callDirectly(ctx, c, r.attacks)
}

func (b *bench) attacks(c *configuration) []*attack {
	var list []*attack
	for _, object := range adversarial.Objects() {
		list = append(list, &attack{name: object.Name, review: adversarial.Review(object.Service), args: []string{
			"-object=" + object.Name, "-kubeconfig=" + b.DeveloperKubeconfig, "-namespace=" + attackersNamespace,
		}})
	}
	for _, a := range adversarial.Attacks() {
		args := []string{
			"-attack=" + a.Name, "-address=" + c.server.address(), "-path=/validate-service", "-ca=" + b.Authority(),
			"-connections=" + strconv.Itoa(attackConnections),
		}
		if b.options.isolated {
			// The webhook must not confuse the attacker with the API server.
			args = append(args, "-from="+attackersAddress.String())
		}
		list = append(list, &attack{name: a.Name, args: args})
	}
	return list
}

// attackRound measures creates without an attack and during each one, in random order. Without webhooks, only hostile
// Services are tried.
func (b *bench) attackRound(ctx context.Context, c *configuration, list []*attack) error {
	undisturbed := &attack{}
	order := append(slices.Clone(list), undisturbed)
	if c.server == nil {
		order = slices.DeleteFunc(order, func(a *attack) bool { return a.args != nil && a.review == nil })
	}
	shuffle(order)
	samples := map[*attack]*sample{}
	for _, a := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := b.attacked(ctx, c, a)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		samples[a] = s
	}
	for _, a := range order {
		ratio := func(f figure) float64 { return samples[a].figures[f] / samples[undisturbed].figures[f] }
		switch {
		case a == undisturbed:
		case c.server == nil:
			a.unhookedP99 = append(a.unhookedP99, ratio(p99))
		default:
			a.p50, a.p99 = append(a.p50, ratio(p50)), append(a.p99, ratio(p99))
			a.throughput = append(a.throughput, ratio(throughput))
			a.failures += len(samples[a].errors)
		}
	}
	return nil
}

// attacked measures ordinary creates during an attack, and the webhook's memory.
func (b *bench) attacked(ctx context.Context, c *configuration, a *attack) (_ *sample, err error) {
	before := int64(0)
	if c.server != nil {
		memory, err := machine.MemoryOf(c.server.PID())
		if err != nil {
			return nil, err
		}
		before = memory.Resident
	}
	if a.args != nil {
		program, err := env.Program("bench/attacker")
		if err != nil {
			return nil, err
		}
		attacker, err := b.Start("attacker", program, a.args...)
		if err != nil {
			return nil, err
		}
		defer attacker.Kill()
		if err := sleep(ctx, attackStart); err != nil {
			return nil, err
		}
		if err := attacker.Exit(); err != nil {
			return nil, err
		}
	}
	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	if c.server != nil {
		running.Go(func() {
			for sleep(watching, memoryInterval) == nil {
				if memory, err := machine.MemoryOf(c.server.PID()); err == nil {
					a.extra = max(a.extra, memory.Resident-before)
				}
			}
		})
	}
	s, err := b.sample(ctx, c, loadBalancers, victims)
	stop()
	running.Wait()
	return s, err
}

// callDirectly has the webhook review each hostile Service alone and records its CPU time.
func (b *bench) callDirectly(ctx context.Context, c *configuration, list []*attack) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.ca)
	client := &http.Client{Timeout: requestLimit, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
	for _, a := range list {
		if a.review == nil {
			continue
		}
		for _, path := range []string{"/mutate-service", "/validate-service"} {
			for range directCalls {
				before, err := machine.CPU(c.server.PID())
				if err != nil {
					return err
				}
				if err := callAnyway(ctx, client, c.server.url(path), a.review); err != nil {
					return fmt.Errorf("review %s: %w", a.name, err)
				}
				after, err := machine.CPU(c.server.PID())
				if err != nil {
					return err
				}
				a.call = max(a.call, after-before)
			}
		}
	}
	return nil
}

// callAnyway sends a review and accepts every answer.
func callAnyway(ctx context.Context, client *http.Client, url string, body []byte) error {
	_, _, err := post(ctx, client, url+"?timeout=10s", body)
	return err
}
