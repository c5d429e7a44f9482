package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"quaymaster.dev/test/adversarial"
	"quaymaster.dev/test/bench/admission/machine"
	"quaymaster.dev/test/bench/admission/results"
	"quaymaster.dev/test/harness/env"
)

const (
	// victims is the number of clients that create ordinary Services during an attack. More would only show that the
	// attacker takes one of a few cores.
	victims = 1
	// attackConnections is the number of connections to the webhook that an attack keeps open, or tries to.
	attackConnections = 150
	// attackStart is how long an attack goes on before its effect is measured.
	attackStart = 500 * time.Millisecond
	// undisturbed is the name of a measurement without an attack.
	undisturbed = "undisturbed"
	// attackersNamespace is where hostile Services are created.
	attackersNamespace = "attacker"
	// directCalls is how often each hostile Service is reviewed alone.
	directCalls = 3
	// directLimit bounds such a call.
	directLimit = 15 * time.Second
)

// attack slows down ordinary creates, or tries to.
type attack struct {
	name string
	// args are the arguments of the attacker; nil for no attack.
	args []string
	// direct is set for attacks on the server of the webhook.
	direct bool
}

// attack runs all attacks on Quaymaster, and those by hostile Services also without webhooks.
func (b *bench) attack(ctx context.Context) error {
	i := slices.IndexFunc(b.configurations, func(c *configuration) bool { return c.name == quaymaster })
	if i < 0 || b.options.attackRounds == 0 {
		return nil
	}
	c := b.configurations[i]
	if err := b.makeNamespace(ctx, attackersNamespace); err != nil {
		return err
	}
	for round := range b.options.attackRounds {
		for _, of := range []*configuration{c, b.configurations[0]} {
			fmt.Fprintf(b.progress, "attacks, round %d of %d: %s\n", round+1, b.options.attackRounds, of.name)
			if err := b.enforce(ctx, of); err != nil {
				return err
			}
			if err := errors.Join(b.attackRound(ctx, of, b.attacks(c.server)), b.lift(ctx, of)); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(b.progress, "reviewing hostile Services one by one")
	return b.callDirectly(ctx, c)
}

// attacks returns all attacks and an undisturbed measurement to compare with.
func (b *bench) attacks(s *server) []*attack {
	list := []*attack{{name: undisturbed}}
	for _, object := range adversarial.Objects() {
		list = append(list, &attack{name: object.Name, args: []string{
			"-object=" + object.Name, "-kubeconfig=" + b.DeveloperKubeconfig, "-namespace=" + attackersNamespace,
		}})
	}
	for _, a := range adversarial.Attacks() {
		list = append(list, &attack{name: a.Name, direct: true, args: []string{
			"-attack=" + a.Name, "-address=" + s.address(), "-path=/validate-service", "-ca=" + b.Authority(),
			"-connections=" + strconv.Itoa(attackConnections),
			// The webhook must not confuse the attacker with the API server.
			"-from=" + attackersAddress.String(),
		}})
	}
	return list
}

// attackRound measures ordinary creates during each attack, in random order.
func (b *bench) attackRound(ctx context.Context, c *configuration, list []*attack) error {
	shuffle(list)
	for _, a := range list {
		if c.server == nil && a.direct {
			continue
		}
		if err := b.attacked(ctx, c, a); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// attacked measures ordinary creates during an attack, and the memory that the webhook uses in addition.
func (b *bench) attacked(ctx context.Context, c *configuration, a *attack) error {
	var before machine.Memory
	if c.server != nil {
		var err error
		if err := machine.ResetPeak(c.server.PID()); err != nil {
			return err
		}
		if before, err = machine.MemoryOf(c.server.PID()); err != nil {
			return err
		}
	}
	ended := func() error { return nil }
	if a.args != nil {
		program, err := env.Program("bench/attacker")
		if err != nil {
			return err
		}
		attacker, err := b.Start("attacker", program, a.args...)
		if err != nil {
			return err
		}
		defer attacker.Kill()
		ended = attacker.Exit
	}
	// Without an attack, this leaves time for what is left of the last one.
	if err := sleep(ctx, attackStart); err != nil {
		return err
	}
	if err := ended(); err != nil {
		return err
	}
	s, err := b.sample(ctx, c, loadBalancers, victims)
	if err != nil {
		return err
	}
	figures := []results.Value{
		results.Seconds(s.Latencies.P50, "p50-sec"), results.Seconds(s.Latencies.P99, "p99-sec"),
		{Number: s.Throughput, Unit: "requests/s"}, {Number: float64(s.Requests) * (1 - s.Success), Unit: "failed"},
	}
	if c.server != nil {
		after, err := machine.MemoryOf(c.server.PID())
		if err != nil {
			return err
		}
		figures = append(figures, results.Value{Number: float64(after.Peak - before.Peak), Unit: "added-B"})
	}
	results.Write(b.out, fmt.Sprintf("Attacked/attack=%s/admission=%s", a.name, c.name), s.Requests, figures...)
	return nil
}

// callDirectly has the webhook review each hostile Service alone and measures its CPU time.
func (b *bench) callDirectly(ctx context.Context, c *configuration) error {
	client := b.caller(directLimit)
	for _, object := range adversarial.Objects() {
		review := adversarial.Review(object.Service)
		for _, path := range []string{"/mutate-service", "/validate-service"} {
			for range directCalls {
				before, err := machine.CPU(c.server.PID())
				if err != nil {
					return err
				}
				// Every answer is accepted.
				if _, err := post(ctx, client, c.server.url(path), review); err != nil {
					return fmt.Errorf("review %s: %w", object.Name, err)
				}
				after, err := machine.CPU(c.server.PID())
				if err != nil {
					return err
				}
				results.Write(b.out, "Hostile/service="+object.Name+"/path="+path[1:], 1,
					results.Seconds(after-before, "webhook-cpu-sec/op"))
			}
		}
	}
	return nil
}
