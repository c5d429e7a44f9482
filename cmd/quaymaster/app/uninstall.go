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
	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/internal/version"
)

const (
	// uninstallUserAgent identifies the command in the logs of the API server.
	uninstallUserAgent = "quaymaster-uninstall"
	// uninstallWait is how long deletion is retried, every uninstallPoll: permissions that were granted a moment ago
	// are not in effect on every API server yet.
	uninstallWait = time.Minute
	uninstallPoll = 2 * time.Second
)

// uninstallOptions holds the flags of quaymaster uninstall.
type uninstallOptions struct{ kubeconfig, mutating, validating string }

func newUninstallCommand() *cobra.Command {
	o := &uninstallOptions{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Delete the webhook configurations",
		Long: "Delete the webhook configurations, so that the API server stops calling webhooks that are about to\n" +
			"be removed. The chart runs this as a Helm hook before it deletes the release. A configuration that\n" +
			"does not exist is not an error.",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.mutating == "" && o.validating == "" {
				return command.Usagef("set --mutating-webhook-configuration, --validating-webhook-configuration " +
					"or both")
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; leave empty inside a cluster")
	fs.StringVar(&o.mutating, "mutating-webhook-configuration", "",
		"`name` of the MutatingWebhookConfiguration; empty for none")
	fs.StringVar(&o.validating, "validating-webhook-configuration", "",
		"`name` of the ValidatingWebhookConfiguration; empty for none")
	return cmd
}

func (o *uninstallOptions) run(ctx context.Context, out io.Writer) error {
	cfg, err := connect.APIServer(o.kubeconfig)
	if err != nil {
		return err
	}
	cfg.UserAgent = uninstallUserAgent + "/" + version.Version()
	// A call that hangs leaves time for retries.
	cfg.Timeout = uninstallWait / 4
	api, err := admissionregistrationv1.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	u := uninstall{out: out, poll: uninstallPoll, wait: uninstallWait}
	// Delete the second one even if deleting the first one fails.
	return errors.Join(
		u.remove(ctx, "MutatingWebhookConfiguration", o.mutating, api.MutatingWebhookConfigurations().Delete),
		u.remove(ctx, "ValidatingWebhookConfiguration", o.validating, api.ValidatingWebhookConfigurations().Delete),
	)
}

// uninstall deletes objects and prints a line for each.
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
			return false, fmt.Errorf("delete %s %s: the API server rejects the credentials: %w", kind, name, last)
		}
		return last == nil || apierrors.IsNotFound(last), nil
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("delete %s %s: giving up after %s: %w; run the command again, or delete the object with "+
			"kubectl", kind, name, u.wait, last)
	}
	if err != nil {
		return err
	}
	if apierrors.IsNotFound(last) {
		_, err = fmt.Fprintf(u.out, "%s %s not found\n", kind, name)
		return err
	}
	_, err = fmt.Fprintf(u.out, "%s %s deleted\n", kind, name)
	return err
}
