package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	admissionregistrationv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/version"
)

const (
	// uninstallUserAgent names the command in the logs of the API server.
	uninstallUserAgent = "quaymaster-uninstall"
	// uninstallWait is how long to try, every uninstallPoll. Rights that were made a moment ago are not known everywhere yet.
	uninstallWait = time.Minute
	uninstallPoll = 2 * time.Second
)

// uninstallOptions are the flags of quaymaster uninstall.
type uninstallOptions struct{ kubeconfig, mutating, validating string }

func newUninstallCommand() *cobra.Command {
	o := &uninstallOptions{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Delete the webhook configurations",
		Long: "Delete the webhook configurations, so that the API server stops calling webhooks that are about to go. It is the first\n" +
			"step of a removal, which Helm takes before it deletes the release. What is not there is no error.",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.mutating == "" && o.validating == "" {
				return command.Usagef("--mutating-webhook-configuration, --validating-webhook-configuration: one of them must name what to delete")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; empty inside a cluster")
	fs.StringVar(&o.mutating, "mutating-webhook-configuration", "", "`name` of the MutatingWebhookConfiguration; empty for none")
	fs.StringVar(&o.validating, "validating-webhook-configuration", "", "`name` of the ValidatingWebhookConfiguration; empty for none")
	return cmd
}

func (o *uninstallOptions) run(ctx context.Context, out io.Writer) error {
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	cfg.UserAgent = uninstallUserAgent + "/" + version.Version()
	// A call that hangs leaves time for another.
	cfg.Timeout = uninstallWait / 4
	api, err := admissionregistrationv1.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	u := uninstall{out: out, poll: uninstallPoll, wait: uninstallWait}
	// The second goes even if the first does not.
	return errors.Join(
		u.remove(ctx, "MutatingWebhookConfiguration", o.mutating, api.MutatingWebhookConfigurations().Delete),
		u.remove(ctx, "ValidatingWebhookConfiguration", o.validating, api.ValidatingWebhookConfigurations().Delete),
	)
}

// uninstall deletes objects and tells of each in a line.
type uninstall struct {
	out        io.Writer
	poll, wait time.Duration
}

func (u uninstall) remove(
	ctx context.Context, kind, name string, remove func(context.Context, string, metav1.DeleteOptions) error,
) error {
	if name == "" {
		return nil
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, u.poll, u.wait, true, func(ctx context.Context) (bool, error) {
		last = remove(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsUnauthorized(last) {
			return false, fmt.Errorf("delete %s %s: the API server refuses the credentials: %w", kind, name, last)
		}
		return last == nil || apierrors.IsNotFound(last), nil
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("delete %s %s: tried for %s: %w; repeat it, or delete it with kubectl", kind, name, u.wait, last)
	}
	if err != nil {
		return err
	}
	if apierrors.IsNotFound(last) {
		_, err = fmt.Fprintf(u.out, "%s %s is not there\n", kind, name)
		return err
	}
	_, err = fmt.Fprintf(u.out, "%s %s is deleted\n", kind, name)
	return err
}
