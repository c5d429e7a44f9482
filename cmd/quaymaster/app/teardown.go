package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider/teardown"
)

// teardownUserAgent names the command in the logs of the API server and of the cloud.
const teardownUserAgent = "quaymaster-teardown"

// teardownOptions are the flags of quaymaster teardown.
type teardownOptions struct {
	kubeconfig, cloudConfig, clusterUID string
	dryRun, yes                         bool
	ignoreServices, ignoreControllers   bool
	includeProtected                    bool
}

func newTeardownCommand() *cobra.Command {
	o := &teardownOptions{}
	cmd := &cobra.Command{
		Use:   "teardown",
		Short: "Delete from the cloud what this cluster owns there",
		Long: "Delete from the cloud what this cluster owns there: load balancers, node groups and routes with the tag\n" +
			"quaymaster.dev/cluster-uid of this cluster. It is for clusters that go away, after Services and controllers.\n\n" +
			"It only lists unless --yes is given. Load balancers that were retained bear no such tag and are never touched;\n" +
			"protected ones stay unless --include-protected is given. It succeeds only if nothing is left.",
		Example: "  quaymaster teardown --cloud-config=cloud.yaml --kubeconfig=admin.kubeconfig\n" +
			"  quaymaster teardown --cloud-config=cloud.yaml --kubeconfig=admin.kubeconfig --yes",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd.Flags().Changed); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *teardownOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; empty inside a cluster")
	fs.StringVar(&o.cloudConfig, "cloud-config", "", "`file` with the cloud config")
	fs.StringVar(&o.clusterUID, "cluster-uid", "", "`UID` of the namespace kube-system, for a cluster that is gone already; needs --ignore-services")
	fs.BoolVar(&o.dryRun, "dry-run", true, "list only; --yes ends it")
	fs.BoolVar(&o.yes, "yes", false, "delete")
	fs.BoolVar(&o.ignoreServices, "ignore-services", false, "go on though the cluster has Services with load balancers of ours")
	fs.BoolVar(&o.ignoreControllers, "ignore-controllers", false, "go on though controllers run, which would make what they miss anew")
	fs.BoolVar(&o.includeProtected, "include-protected", false, "end the deletion protection of load balancers that have it")
}

// validate finds every mistake in the flags.
func (o *teardownOptions) validate(given func(flag string) bool) error {
	var errs []error
	if o.cloudConfig == "" {
		errs = append(errs, errors.New("--cloud-config: must name the cloud config file"))
	}
	if o.clusterUID != "" && !o.ignoreServices {
		errs = append(errs, errors.New("--cluster-uid: needs --ignore-services, since the API server is not asked for any"))
	}
	if o.clusterUID != "" && o.kubeconfig != "" {
		errs = append(errs, errors.New("--cluster-uid, --kubeconfig: must not both be given: the UID is read from the cluster"))
	}
	switch {
	case given("dry-run") && o.dryRun && o.yes:
		errs = append(errs, errors.New("--dry-run, --yes: must not both be given"))
	case !o.dryRun && !o.yes:
		errs = append(errs, errors.New("--dry-run=false: say --yes to delete"))
	}
	if len(errs) > 0 {
		return command.Usage(joinLine(errs))
	}
	return nil
}

func (o *teardownOptions) run(ctx context.Context, out io.Writer) error {
	cfg, err := config.Load(o.cloudConfig)
	if err != nil {
		return fmt.Errorf("--cloud-config: %w", err)
	}
	client, err := cloudClient(cfg, teardownUserAgent, cloudTimeout, nil)
	if err != nil {
		return fmt.Errorf("--cloud-config: %w", err)
	}
	uid, wishes := o.clusterUID, teardown.Wishes{}
	if uid == "" {
		rc, err := restConfig(o.kubeconfig)
		if err != nil {
			return err
		}
		rc.UserAgent = teardownUserAgent + "/" + version.Version()
		api, err := kubernetes.NewForConfig(rc)
		if err != nil {
			return fmt.Errorf("--kubeconfig: %w", err)
		}
		if uid, wishes.Retained, err = o.askCluster(ctx, api, cfg.LoadBalancerClass); err != nil {
			return err
		}
	}
	wishes.IncludeProtected = o.includeProtected
	found, err := teardown.Take(ctx, client, uid)
	if err != nil {
		return err
	}
	plan := teardown.Plan(found, wishes)
	if !o.yes {
		return list(out, plan, uid)
	}
	return execute(ctx, out, client, plan, uid)
}

// list tells what would go.
func list(out io.Writer, plan []teardown.Item, uid string) error {
	if len(plan) == 0 {
		_, err := fmt.Fprintf(out, "cluster %s owns nothing in the cloud\n", uid)
		return err
	}
	if err := table(out, plan, func(int) string { return "would be deleted" }); err != nil {
		return err
	}
	return fmt.Errorf("cluster %s owns %d objects in the cloud; say --yes to delete them", uid, len(plan))
}

// execute deletes, and looks what is left.
func execute(ctx context.Context, out io.Writer, client *cloudapi.Client, plan []teardown.Item, uid string) error {
	failed := teardown.Execute(ctx, client, plan)
	if err := table(out, plan, func(i int) string {
		if failed[i] != nil {
			return "failed: " + failed[i].Error()
		}
		return "deleted"
	}); err != nil {
		return err
	}
	left, err := teardown.Take(ctx, client, uid)
	if err != nil {
		return fmt.Errorf("look what is left: %w", err)
	}
	if n := len(left.LoadBalancers) + len(left.NodeGroups) + len(left.Routes); n > 0 {
		return fmt.Errorf("cluster %s still owns %d objects in the cloud; see why above, and repeat the command", uid, n)
	}
	_, err = fmt.Fprintf(out, "cluster %s owns nothing in the cloud\n", uid)
	return err
}

// table shows the plan with what became of each item that was not to be kept.
func table(out io.Writer, plan []teardown.Item, fate func(int) string) error {
	if len(plan) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "KIND\tID\tNAME\tDETAIL\tFATE")
	for i, item := range plan {
		what := "kept: " + item.Keep
		if item.Keep == "" {
			what = fate(i)
		}
		_, _ = fmt.Fprintln(w, strings.Join([]string{item.Kind, item.ID, item.Name, item.Detail, what}, "\t"))
	}
	return w.Flush()
}
