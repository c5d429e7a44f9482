package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/access"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
)

// teardownOptions holds the flags of quayctl teardown.
type teardownOptions struct {
	clusterInCloud

	clusterUID                        string
	dryRun, yes                       bool
	ignoreServices, ignoreControllers bool
	includeProtected                  bool
}

func newTeardownCommand() *cobra.Command {
	o := &teardownOptions{}
	cmd := &cobra.Command{
		Use:   "teardown",
		Short: "Delete the cloud objects that this cluster owns",
		Long: "Delete the cloud objects that this cluster owns: load balancers, node groups and routes with the tag\n" +
			"quaymaster.dev/cluster-uid of this cluster. Run it when a cluster is decommissioned, after deleting\n" +
			"its Services and uninstalling the controllers.\n\n" +
			"Without --yes it only lists the objects. Retained load balancers do not carry the tag and are never\n" +
			"touched; protected load balancers are kept unless --include-protected is set.\n\n" +
			"Exit code 0: no object is left; 1: objects are left, or would be deleted with --yes, or an error;\n" +
			"2: wrong usage.",
		Example: "  quayctl teardown --cloud-config=cloud.yaml --kubeconfig=admin.kubeconfig\n" +
			"  quayctl teardown --cloud-config=cloud.yaml --kubeconfig=admin.kubeconfig --yes",
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
	o.clusterInCloud.addFlags(fs)
	fs.StringVar(&o.clusterUID, "cluster-uid", "",
		"`UID` of the kube-system namespace of a cluster that no longer exists; requires --ignore-services")
	fs.BoolVar(&o.dryRun, "dry-run", true, "only list the objects; --yes turns it off")
	fs.BoolVar(&o.yes, "yes", false, "delete the objects")
	fs.BoolVar(&o.ignoreServices, "ignore-services", false,
		"continue although Services of the cluster still use its load balancers")
	fs.BoolVar(&o.ignoreControllers, "ignore-controllers", false,
		"continue although the controllers are running, which may recreate deleted objects")
	fs.BoolVar(&o.includeProtected, "include-protected", false,
		"also delete load balancers with deletion protection, by removing the protection")
}

// validate returns every problem in the flags as one error.
func (o *teardownOptions) validate(given func(flag string) bool) error {
	var errs []error
	if o.cloudConfig == "" {
		errs = append(errs, errors.New("--cloud-config is required: name the cloud config file"))
	}
	if o.clusterUID != "" && !o.ignoreServices {
		errs = append(errs, errors.New("--cluster-uid requires --ignore-services: Services cannot be checked"))
	}
	if o.clusterUID != "" && o.Cluster != (access.Cluster{}) {
		errs = append(errs, errors.New("--cluster-uid must not be combined with --kubeconfig or --context"))
	}
	switch {
	case given("dry-run") && o.dryRun && o.yes:
		errs = append(errs, errors.New("--dry-run must not be combined with --yes"))
	case !o.dryRun && !o.yes:
		errs = append(errs, errors.New("--dry-run=false requires --yes"))
	}
	if len(errs) > 0 {
		return command.Usage(command.JoinLine(errs))
	}
	return nil
}

func (o *teardownOptions) run(ctx context.Context, out io.Writer) error {
	m, err := o.member(ctx)
	if err != nil {
		return err
	}
	found, err := teardown.Take(ctx, m.cloud, m.uid)
	if err != nil {
		return err
	}
	held, _, err := holder.Find(ctx, m.cloud, m.uid)
	if err != nil {
		return err
	}
	wishes := teardown.Wishes{IncludeProtected: o.includeProtected}
	if m.api != nil {
		if wishes.Retained, err = o.inspectCluster(ctx, m, found); err != nil {
			return err
		}
		if err := m.mayWrite(held); err != nil {
			return err
		}
	}
	plan := teardown.Plan(found, wishes.Keep)
	if !o.yes {
		return listOwned(out, plan, m.uid)
	}
	if err := deleteOwned(ctx, out, m.cloud, plan, m.uid); err != nil || held == nil {
		return err
	}
	return m.cloud.DeleteHolder(ctx, m.uid, cloudapi.WriteOptions{IfMatch: held.Revision})
}

// member returns the cluster; without a client of its API server if it no longer exists.
func (o *teardownOptions) member(ctx context.Context) (*member, error) {
	if o.clusterUID == "" {
		return o.own(ctx)
	}
	cfg, client, err := access.Cloud(o.cloudConfig, nil)
	return &member{uid: o.clusterUID, cfg: cfg, cloud: client}, err
}

// listOwned prints what would be deleted. It fails if that is anything, so that the exit code shows whether objects are
// left.
func listOwned(out io.Writer, plan []teardown.Item, uid string) error {
	if len(plan) == 0 {
		_, err := fmt.Fprintf(out, "cluster %s owns no objects in the cloud\n", uid)
		return err
	}
	if err := showPlan(out, plan, "kept", func(int) string { return "would be deleted" }); err != nil {
		return err
	}
	return fmt.Errorf("cluster %s owns %d objects in the cloud; set --yes to delete them", uid, len(plan))
}

// deleteOwned deletes the objects and checks that none is left.
func deleteOwned(ctx context.Context, out io.Writer, client *cloudapi.Client, plan []teardown.Item, uid string) error {
	failed := teardown.Execute(ctx, client, plan)
	if err := showPlan(out, plan, "kept", func(i int) string {
		if failed[i] != nil {
			return "failed: " + failed[i].Error()
		}
		return "deleted"
	}); err != nil {
		return err
	}
	left, err := teardown.Take(ctx, client, uid)
	if err != nil {
		return fmt.Errorf("check for remaining objects: %w", err)
	}
	if n := len(left.LoadBalancers) + len(left.NodeGroups) + len(left.Routes); n > 0 {
		return fmt.Errorf("cluster %s still owns %d objects in the cloud; fix the problems listed above and run the "+
			"command again", uid, n)
	}
	_, err = fmt.Fprintf(out, "cluster %s owns no objects in the cloud\n", uid)
	return err
}

// showPlan prints a plan with the outcome of each item. Of those that are kept, it prints why, after a word.
func showPlan(out io.Writer, plan []teardown.Item, kept string, outcome func(int) string) error {
	if len(plan) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "KIND\tID\tNAME\tDETAIL\tOUTCOME")
	for i, item := range plan {
		what := kept + ": " + item.Keep
		if item.Keep == "" {
			what = outcome(i)
		}
		_, _ = fmt.Fprintln(w, strings.Join([]string{item.Kind, item.ID, item.Name, item.Detail, what}, "\t"))
	}
	return w.Flush()
}

// namedServices is how many Services an error lists.
const namedServices = 3

// inspectCluster returns the Services whose load balancers are retained. It fails while the cluster is in use: its
// Services would lose their load balancers, or the controllers would recreate them.
func (o *teardownOptions) inspectCluster(
	ctx context.Context, m *member, found teardown.Inventory,
) (retained map[string]string, err error) {
	// Of all types: the load balancer of one that was changed may still be there.
	services, err := m.api.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	ours, retained := ownServices(services.Items, review.Own(m.cfg.LoadBalancerClass, m.cfg.DefaultClass), found)
	if len(ours) > 0 && !o.ignoreServices {
		return nil, fmt.Errorf("%d Services still use load balancers of this cluster: %s; delete them while the "+
			"controllers are running, or set --ignore-services",
			len(ours), firstOf(ours))
	}
	if o.ignoreControllers {
		return retained, nil
	}
	state, err := leadership.Read(ctx, m.api, o.namespace, leadership.CloudLease)
	if err != nil {
		return nil, err
	}
	if state.Held {
		return nil, fmt.Errorf("the controllers are still running: %s holds the lease %s/%s, which expires some "+
			"seconds after it stops; uninstall them first, or set --ignore-controllers",
			state.Holder, o.namespace, leadership.CloudLease)
	}
	return retained, nil
}

// ownServices returns the names of the Services that we handle, hold or that have a load balancer, and, by UID,
// those whose load balancers are retained.
func ownServices(
	services []corev1.Service, own review.Reviewer, found teardown.Inventory,
) (ours []string, retained map[string]string) {
	has := map[string]bool{}
	for i := range found.LoadBalancers {
		has[found.LoadBalancers[i].Tags[ownership.ServiceUID]] = true
	}
	retained = map[string]string{}
	for i := range services {
		svc := &services[i]
		// A Service keeps its load balancer when the classes in the cloud config change.
		if !service.Held(svc) && !own.Owned(svc) && !has[string(svc.UID)] {
			continue
		}
		name := svc.Namespace + "/" + svc.Name
		ours = append(ours, name)
		if teardown.Retains(svc) {
			retained[string(svc.UID)] = name
		}
	}
	return ours, retained
}

func firstOf(names []string) string {
	if len(names) > namedServices {
		return strings.Join(names[:namedServices], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
