package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/access"
	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/tool/doctor/webhooks"
)

// probePoll is the time between two attempts: permissions that were granted a moment ago are not in effect on every API
// server yet.
const probePoll = time.Second

// probeOptions holds the flags of quayctl probe.
type probeOptions struct {
	access.Cluster

	namespace, class, lease string
	timeout                 time.Duration
}

func newProbeCommand() *cobra.Command {
	o := &probeOptions{}
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Check that webhooks are called and the controllers have a leader",
		Long: "Check that the API server calls the webhooks and that the controllers have a leader. The webhooks must\n" +
			"deny a Service with a mistake, which is sent as a dry run. The chart runs this for helm test, because it\n" +
			"needs fewer rights than quayctl doctor, which finds out why it fails.",
		Example: "  quayctl probe --namespace=quaymaster-system --lease=kube-system/cloud-controller-manager",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.namespace == "" && o.lease == "" {
				return command.Usagef("set --namespace, --lease or both")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	o.Cluster.AddFlags(fs)
	fs.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of the Service; empty to skip the webhooks")
	fs.StringVar(&o.class, "load-balancer-class", "", "`class` of the Service; empty for none")
	fs.StringVar(&o.lease, "lease", "", "`namespace/name` of the controllers' lease; empty to skip the controllers")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long failed checks are repeated")
	return cmd
}

func (o *probeOptions) run(ctx context.Context, out io.Writer) error {
	cfg, err := o.RESTConfig()
	if err != nil {
		return err
	}
	// A call that hangs leaves time for retries.
	cfg.Timeout = min(cfg.Timeout, o.timeout/4)
	api, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	p := probe{api: api, out: out, poll: probePoll, wait: o.timeout}
	var errs []error
	if o.namespace != "" {
		errs = append(errs, p.repeat(ctx, "the API server calls the webhooks: an invalid Service is denied",
			func(ctx context.Context) error { return p.webhooks(ctx, o.namespace, o.class) }))
	}
	if o.lease != "" {
		errs = append(errs, p.repeat(ctx, "the controllers have a leader",
			func(ctx context.Context) error { return p.leader(ctx, o.lease) }))
	}
	return errors.Join(errs...)
}

// probe checks an installation and prints a line for each check that passes.
type probe struct {
	api        kubernetes.Interface
	out        io.Writer
	poll, wait time.Duration
}

// repeat calls check until it passes, at most for the time of the probe, and then prints the line.
func (p probe) repeat(ctx context.Context, passed string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, p.poll, p.wait, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("giving up after %s: %w", p.wait, last)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.out, passed)
	return err
}

// webhooks returns an error unless the webhooks deny a Service that they must deny, whatever catalogs are enabled.
func (p probe) webhooks(ctx context.Context, namespace, class string) error {
	_, err := webhooks.DryRun(ctx, p.api, namespace, class, map[string]string{webhooks.Refused: "quayctl-probe"})
	switch {
	case err == nil:
		return fmt.Errorf("an invalid Service was admitted in namespace %s: the API server does not call the webhooks, or "+
			"none answers; quayctl doctor finds out why", namespace)
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), webhooks.Refused):
		return nil
	}
	return fmt.Errorf("create an invalid Service in namespace %s as a dry run: %w", namespace, err)
}

// leader returns an error unless the lease is held.
func (p probe) leader(ctx context.Context, lease string) error {
	namespace, name, _ := strings.Cut(lease, "/")
	state, err := leadership.Read(ctx, p.api, namespace, name)
	if err != nil {
		return fmt.Errorf("read the lease %s: %w", lease, err)
	}
	if !state.Held {
		return fmt.Errorf("the controllers have no leader: the lease %s is not held; see the logs of their pods", lease)
	}
	return nil
}
