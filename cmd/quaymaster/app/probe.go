package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/webhook/service"
)

const (
	// probeUserAgent identifies the command in the logs of the API server.
	probeUserAgent = "quaymaster-probe"
	// probePoll is the time between two attempts: permissions that were granted a moment ago are not in effect on every
	// API server yet.
	probePoll = time.Second
)

// probeOptions holds the flags of quaymaster probe.
type probeOptions struct {
	kubeconfig, namespace, class, lease string
	timeout                             time.Duration
}

func newProbeCommand() *cobra.Command {
	o := &probeOptions{}
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Check that the API server calls the webhooks and that the controllers have a leader",
		Long: "Check that the API server calls the webhooks and that the controllers have a leader. The webhooks must\n" +
			"deny a Service with a mistake, which is sent as a dry run. The chart runs this for helm test; quayctl\n" +
			"doctor finds out why it fails.",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.namespace == "" && o.lease == "" {
				return command.Usagef("set --namespace, --lease or both")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; leave empty inside a cluster")
	fs.StringVar(&o.namespace, "namespace", "", "`namespace` of the Service; empty to skip the webhooks")
	fs.StringVar(&o.class, "load-balancer-class", "", "`class` of the Service; empty for none")
	fs.StringVar(&o.lease, "lease", "", "`namespace/name` of the controllers' lease; empty to skip the controllers")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long failed checks are repeated")
	return cmd
}

func (o *probeOptions) run(ctx context.Context, out io.Writer) error {
	cfg, err := connect.APIServer(o.kubeconfig)
	if err != nil {
		return err
	}
	cfg.UserAgent = probeUserAgent + "/" + version.Version()
	// A call that hangs leaves time for retries.
	cfg.Timeout = o.timeout / 4
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
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: probeUserAgent, Annotations: map[string]string{service.AnnotationProbe: probeUserAgent},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if class != "" {
		svc.Spec.LoadBalancerClass = &class
	}
	_, err := p.api.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return fmt.Errorf("an invalid Service was admitted in namespace %s: the API server does not call the webhooks, or "+
			"none answers; quayctl doctor finds out why", namespace)
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), service.AnnotationProbe):
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
