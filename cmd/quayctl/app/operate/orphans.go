package operate

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/provider/teardown"
)

// orphansOptions holds the flags of quayctl orphans.
type orphansOptions struct {
	clusterInCloud

	remove, all, yes bool
}

func newOrphansCommand() *cobra.Command {
	o := &orphansOptions{}
	cmd := &cobra.Command{
		Use:   "orphans [--delete (ID... | --all)]",
		Short: "List load balancers without a Service, or delete them",
		Long: "List the load balancers of this cluster that no Service uses, or delete those that are named. They\n" +
			"come from finalizers that were removed by force, and from restored backups of etcd. The controllers\n" +
			"keep them, because their addresses may be in use: look for these in DNS and in firewalls first.\n\n" +
			"A load balancer that was adopted, has deletion protection, whose address a Service publishes, or whose\n" +
			"Service has retain-on-delete is kept; the list says what to do. Before anything is deleted, the command\n" +
			"asks for confirmation, and looks again.",
		Example: "  quayctl orphans --cloud-config=cloud.yaml\n" +
			"  quayctl orphans --cloud-config=cloud.yaml --delete lb-4f6f0a8d1c2b3e59\n" +
			"  quayctl orphans --cloud-config=cloud.yaml --delete --all --yes",
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.remove, "delete", false, "delete the load balancers with the IDs that are given, or all with --all")
	cmd.Flags().BoolVar(&o.all, "all", false, "delete all that need not be kept")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask for confirmation")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := o.validate(ids); err != nil {
			return err
		}
		m, err := o.own(cmd.Context())
		if err != nil {
			return err
		}
		if o.remove {
			return o.delete(cmd.Context(), m, ids, cmd.InOrStdin(), cmd.OutOrStdout())
		}
		found, err := m.orphans(cmd.Context())
		if err != nil {
			return err
		}
		return listOrphans(cmd.OutOrStdout(), found)
	}
	return cmd
}

// validate returns every problem of flags and arguments as one error.
func (o *orphansOptions) validate(ids []string) error {
	var problems []string
	if !o.remove && (len(ids) > 0 || o.all || o.yes) {
		problems = append(problems, "IDs, --all and --yes require --delete")
	}
	if o.remove && o.all == (len(ids) > 0) {
		problems = append(problems, "--delete requires either IDs of load balancers or --all")
	}
	if len(problems) > 0 {
		return command.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

// orphans returns the orphans of the cluster, if it is the holder of its UID: what a copy of a cluster takes for orphans
// may belong to Services of the original.
func (m *member) orphans(ctx context.Context) ([]orphans.Orphan, error) {
	held, _, err := holder.Find(ctx, m.cloud, m.uid)
	if err != nil {
		return nil, err
	}
	if err := m.mayWrite(held); err != nil {
		return nil, err
	}
	own := review.Own(m.cfg.LoadBalancerClass, m.cfg.DefaultClass)
	found, err := orphans.List(ctx, m.cloud, m.api.CoreV1(), m.uid, own.Owned)
	slices.SortFunc(found, func(a, b orphans.Orphan) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

// DescribeOrphans returns a line about each load balancer of a cluster that no Service uses.
func DescribeOrphans(
	ctx context.Context, api kubernetes.Interface, client *cloudapi.Client, cfg config.Config, identity func() (clusterca.Identity, error),
) ([]string, error) {
	m := &member{api: api, cloud: client, cfg: cfg}
	if err := m.identify(ctx, identity); err != nil {
		return nil, err
	}
	found, err := m.orphans(ctx)
	var lines []string
	for _, o := range found {
		lines = append(lines, fmt.Sprintf("%s (%s) with %s: %s", o.ID, o.Name, strings.Join(o.Addresses(), ","), o.Reason()))
	}
	return lines, err
}

func listOrphans(out io.Writer, found []orphans.Orphan) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "every load balancer of this cluster has a Service")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tADDRESSES\tCREATED\tUPDATED\tSERVICE\tKEPT")
	for _, o := range found {
		svc, kept := "-", "-"
		if o.Service != nil {
			svc = fmt.Sprintf("%s/%s (%s)", o.Service.Namespace, o.Service.Name, o.Service.Spec.Type)
		}
		if why := o.Keep(); why != "" {
			kept = why
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.ID, o.Name, strings.Join(o.Addresses(), ","),
			o.CreatedAt.UTC().Format(time.RFC3339), o.UpdatedAt.UTC().Format(time.RFC3339), svc, kept)
	}
	return table.Flush()
}

// delete deletes the chosen orphans. The operator may take long to confirm, so they are listed again afterwards.
func (o *orphansOptions) delete(ctx context.Context, m *member, ids []string, in io.Reader, out io.Writer) error {
	found, err := m.orphans(ctx)
	if err != nil {
		return err
	}
	if o.all {
		for _, orphan := range found {
			if orphan.Keep() == "" {
				ids = append(ids, orphan.ID)
			}
		}
	}
	chosen, err := choose(found, ids)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		_, err := fmt.Fprintln(out, "there is nothing to delete")
		return err
	}
	if err := listOrphans(out, chosen); err != nil {
		return err
	}
	if !o.yes {
		if err := confirm(in, out, "These load balancers will be deleted. Their addresses cannot be restored."); err != nil {
			return err
		}
		if found, err = m.orphans(ctx); err != nil {
			return err
		}
		if chosen, err = choose(found, ids); err != nil {
			return err
		}
	}
	plan, failed := orphans.Plan(chosen), 0
	for i, err := range teardown.Execute(ctx, m.cloud, plan) {
		outcome := "deleted"
		if err != nil {
			failed++
			outcome = "failed: " + err.Error()
		}
		fmt.Fprintf(out, "%s (%s): %s\n", plan[i].Name, plan[i].ID, outcome)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d load balancers were not deleted; correct the problems listed above and run the command again",
			failed, len(plan))
	}
	return nil
}

// choose returns the orphans with the IDs. All of them must be orphans that may be deleted.
func choose(found []orphans.Orphan, ids []string) ([]orphans.Orphan, error) {
	var chosen []orphans.Orphan
	var problems []error
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		at := slices.IndexFunc(found, func(o orphans.Orphan) bool { return o.ID == id })
		switch {
		case at < 0:
			problems = append(problems, fmt.Errorf("load balancer %s is not an orphan of this cluster", id))
		case found[at].Keep() != "":
			problems = append(problems, fmt.Errorf("load balancer %s is kept: %s", id, found[at].Keep()))
		default:
			chosen = append(chosen, found[at])
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("nothing was deleted: %w", command.JoinLine(problems))
	}
	return chosen, nil
}
