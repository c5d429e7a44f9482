package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/clusterca"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/leadership"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
)

// teardownUserAgent identifies the command in the logs of the API server and of the cloud.
const teardownUserAgent = "quaymaster-teardown"

// teardownOptions holds the flags of quaymaster teardown.
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
		Short: "Delete the cloud objects that this cluster owns",
		Long: "Delete the cloud objects that this cluster owns: load balancers, node groups and routes with the tag\n" +
			"quaymaster.dev/cluster-uid of this cluster. Run it when a cluster is decommissioned, after deleting\n" +
			"its Services and uninstalling the controllers.\n\n" +
			"Without --yes it only lists the objects. Retained load balancers do not carry the tag and are never\n" +
			"touched; protected load balancers are kept unless --include-protected is set. The command succeeds\n" +
			"only if no object is left.",
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
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; leave empty inside a cluster")
	fs.StringVar(&o.cloudConfig, "cloud-config", "", "cloud config `file` (required)")
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
	if o.clusterUID != "" && o.kubeconfig != "" {
		errs = append(errs, errors.New("--cluster-uid must not be combined with --kubeconfig"))
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
	cfg, err := config.Load(o.cloudConfig)
	if err != nil {
		return fmt.Errorf("--cloud-config: %w", err)
	}
	client, err := cloudapi.New(connect.Cloud(cfg, teardownUserAgent))
	if err != nil {
		return fmt.Errorf("--cloud-config: %w", err)
	}
	uid, wishes := o.clusterUID, teardown.Wishes{IncludeProtected: o.includeProtected}
	var cluster *kubernetes.Clientset
	var observer *clusterca.Observer
	if uid == "" {
		rc, err := connect.APIServer(o.kubeconfig)
		if err != nil {
			return err
		}
		rc.UserAgent = teardownUserAgent + "/" + version.Version()
		observer = clusterca.Observe(rc)
		if cluster, err = kubernetes.NewForConfig(rc); err != nil {
			return fmt.Errorf("--kubeconfig: %w", err)
		}
		if uid, err = ownership.NewCluster(cluster.CoreV1()).UID(ctx); err != nil {
			return fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	found, err := teardown.Take(ctx, client, uid)
	if err != nil {
		return err
	}
	held, err := recorded(ctx, client, uid)
	if err != nil {
		return err
	}
	if cluster != nil {
		own := review.Own(cfg.LoadBalancerClass, cfg.DefaultClass)
		if wishes.Retained, err = o.inspectCluster(ctx, cluster, own, found); err != nil {
			return err
		}
		if err := checkHolder(held, uid, observer); err != nil {
			return err
		}
	}
	plan := teardown.Plan(found, wishes.Keep)
	if !o.yes {
		return list(out, plan, uid)
	}
	if err := execute(ctx, out, client, plan, uid); err != nil || held == nil {
		return err
	}
	return client.DeleteHolder(ctx, uid, cloudapi.WriteOptions{IfMatch: held.Revision})
}

// recorded returns the record of the cluster that holds the UID, or nil if there is none.
func recorded(ctx context.Context, client *cloudapi.Client, uid string) (*cloudv1.ClusterHolder, error) {
	held, err := holder.Read(ctx, client, uid)
	if cloudapi.HasCode(err, cloudv1.CodeUnsupported) {
		return nil, nil
	}
	return held, err
}

// checkHolder fails if the record, which may be nil, is that of another cluster than that of the observer: the objects
// with the UID are the other cluster's.
func checkHolder(held *cloudv1.ClusterHolder, uid string, observer *clusterca.Observer) error {
	if held == nil {
		return nil
	}
	own, err := observer.Identity()
	if err != nil {
		return err
	}
	if !slices.Contains(held.Fingerprints, own.Proven) {
		return fmt.Errorf("cluster UID %s is held by %s; its objects are not those of this cluster, which has the "+
			"fingerprint %s; if they are, run quayctl takeover first", uid, holder.Describe(held), own.Proven)
	}
	return nil
}

// list prints what would be deleted. It fails if that is anything, so that the exit code shows whether objects are
// left.
func list(out io.Writer, plan []teardown.Item, uid string) error {
	if len(plan) == 0 {
		_, err := fmt.Fprintf(out, "cluster %s owns no objects in the cloud\n", uid)
		return err
	}
	if err := table(out, plan, func(int) string { return "would be deleted" }); err != nil {
		return err
	}
	return fmt.Errorf("cluster %s owns %d objects in the cloud; set --yes to delete them", uid, len(plan))
}

// execute deletes the objects and checks that none is left.
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
		return fmt.Errorf("check for remaining objects: %w", err)
	}
	if n := len(left.LoadBalancers) + len(left.NodeGroups) + len(left.Routes); n > 0 {
		return fmt.Errorf("cluster %s still owns %d objects in the cloud; fix the problems listed above and run the "+
			"command again", uid, n)
	}
	_, err = fmt.Fprintf(out, "cluster %s owns no objects in the cloud\n", uid)
	return err
}

// table prints the plan with the outcome of each item that is not kept.
func table(out io.Writer, plan []teardown.Item, outcome func(int) string) error {
	if len(plan) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "KIND\tID\tNAME\tDETAIL\tOUTCOME")
	for i, item := range plan {
		what := "kept: " + item.Keep
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
	ctx context.Context, api kubernetes.Interface, own review.Reviewer, found teardown.Inventory,
) (retained map[string]string, err error) {
	// Of all types: the load balancer of one that was changed may still be there.
	services, err := api.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	ours, retained := ownServices(services.Items, own, found)
	if len(ours) > 0 && !o.ignoreServices {
		return nil, fmt.Errorf("%d Services still use load balancers of this cluster: %s; delete them while the "+
			"controllers are running, or set --ignore-services",
			len(ours), summary(ours))
	}
	if o.ignoreControllers {
		return retained, nil
	}
	state, err := leadership.Read(ctx, api, leadership.Namespace, leadership.CloudLease)
	if err != nil {
		return nil, err
	}
	if state.Held {
		return nil, fmt.Errorf("the controllers are still running: %s holds the lease %s/%s, which expires some "+
			"seconds after it stops; uninstall them first, or set --ignore-controllers",
			state.Holder, leadership.Namespace, leadership.CloudLease)
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

func summary(names []string) string {
	if len(names) > namedServices {
		return strings.Join(names[:namedServices], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
