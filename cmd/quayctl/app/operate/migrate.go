package operate

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/migrate"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
)

// migrateOptions holds the flags of quayctl migrate.
type migrateOptions struct {
	clusterInCloud

	from, fromID string
	yes          bool
}

func newMigrateCommand() *cobra.Command {
	o := &migrateOptions{}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move the load balancers of another cluster to this one",
		Long: "Move the load balancers of another cluster, which this one replaces, to the Services of this cluster\n" +
			"with the same namespaces and names. IDs and addresses stay. Node groups and routes move as well. The\n" +
			"controllers of the other cluster may no longer write to the cloud, and those of this cluster must not\n" +
			"run meanwhile.\n\n" +
			"Without --yes it only shows the plan. The command can be repeated after any interruption.",
		Example: "  quayctl migrate --from=0b9d4c2e-5a41-4c8f-9d3a-7d1f6f3b2a10 --cloud-config=cloud.yaml\n" +
			"  quayctl migrate --from=0b9d4c2e-5a41-4c8f-9d3a-7d1f6f3b2a10 --cloud-config=cloud.yaml --yes",
		Args: command.NoArguments,
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.from, "from", "", "`UID` of the kube-system namespace of the other cluster (required)")
	cmd.Flags().StringVar(&o.fromID, "from-cluster-id", "",
		"`clusterID` of the other cluster; if empty, the recorded one or, without a record, that of this cluster")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "carry out the plan")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.from == "" {
			return command.Usagef("--from is required: the UID of the kube-system namespace of the other cluster, which is " +
				"the value of the tag quaymaster.dev/cluster-uid of its load balancers")
		}
		m, err := o.own(cmd.Context())
		if err != nil {
			return err
		}
		if o.from == m.uid {
			return command.Usagef("--from must name a different cluster; %s is this one", m.uid)
		}
		return o.run(cmd.Context(), m, cmd.OutOrStdout())
	}
	return cmd
}

func (o *migrateOptions) run(ctx context.Context, m *member, out io.Writer) error {
	plan, claims, err := o.plan(ctx, m)
	if err != nil {
		return err
	}
	if former, recorded, err := holder.Find(ctx, m.cloud, o.from); err != nil {
		return err
	} else if len(plan) == 0 && recorded && former == nil {
		return fmt.Errorf("the cloud has never had a cluster with the UID %q; set --from to the value of the tag %s of its "+
			"load balancers", o.from, ownership.ClusterUID)
	}
	items, move := []teardown.Item(nil), 0
	for _, item := range plan {
		if items = append(items, item.Item); item.Keep == "" {
			move++
		}
	}
	if !o.yes || move == 0 {
		if err := showPlan(out, items, "stays", func(i int) string { return "will move" + toService(&plan[i]) }); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "objects of cluster %s to move: %d, to stay: %d; nothing was changed\n",
			o.from, move, len(plan)-move)
		return err
	}
	state, err := leadership.Read(ctx, m.api, o.namespace, leadership.CloudLease)
	if err != nil {
		return err
	}
	if state.Held {
		return fmt.Errorf("the controllers of this cluster are running: %s holds the lease %s/%s; scale them down, wait for "+
			"the lease to expire, and run the command again", state.Holder, o.namespace, leadership.CloudLease)
	}
	for _, claim := range claims {
		if err := claim(ctx); err != nil {
			return err
		}
	}
	migration := migrate.Migration{Cloud: m.cloud, Services: m.api.CoreV1(), From: o.from, To: m.uid}
	failed := migration.Execute(ctx, plan)
	problems := 0
	err = showPlan(out, items, "stays", func(i int) string {
		if failed[i] != nil {
			problems++
			return "failed: " + failed[i].Error()
		}
		return "moved" + toService(&plan[i])
	})
	if problems > 0 {
		return fmt.Errorf("%d of %d objects were not moved; correct the problems listed above and run the command again",
			problems, move)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "objects of cluster %s that moved: %d, that stay: %d; start the controllers of this cluster now\n",
		o.from, move, len(plan)-move)
	return err
}

// plan decides what moves, and what must be claimed before: both cluster UIDs, so that the other cluster writes no more.
func (o *migrateOptions) plan(ctx context.Context, m *member) ([]migrate.Item, []func(context.Context) error, error) {
	from, to := migrate.Cluster{UID: o.from, ID: o.fromID}, migrate.Cluster{UID: m.uid, ID: m.cfg.ClusterID}
	former, _, err := holder.Find(ctx, m.cloud, from.UID)
	if err != nil {
		return nil, nil, err
	}
	own, _, err := holder.Find(ctx, m.cloud, to.UID)
	if err != nil {
		return nil, nil, err
	}
	if err := m.mayWrite(own); err != nil {
		return nil, nil, err
	}
	switch {
	case from.ID != "":
	case former != nil:
		from.ID = former.Name
	default:
		from.ID = to.ID
	}
	if from.Owned, err = teardown.Take(ctx, m.cloud, from.UID); err != nil {
		return nil, nil, err
	}
	if to.Owned, err = teardown.Take(ctx, m.cloud, to.UID); err != nil {
		return nil, nil, err
	}
	services, err := m.api.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list services: %w", err)
	}
	reviewer := review.Own(m.cfg.LoadBalancerClass, m.cfg.DefaultClass)
	ours := slices.DeleteFunc(services.Items, func(svc corev1.Service) bool { return !reviewer.Owned(&svc) })
	successor := m.claim()
	successor.Name, successor.ClaimedBy = from.ID, "the migration to cluster UID "+to.UID
	return migrate.Plan(from, to, ours), []func(context.Context) error{
		m.claimer(from.UID, former, successor), m.claimer(to.UID, own, m.claim()),
	}, nil
}

// mayWrite returns an error if the record of this cluster's UID, which may be nil, is that of another cluster.
func (m *member) mayWrite(own *cloudv1.ClusterHolder) error {
	if own == nil || slices.Contains(own.Fingerprints, m.id.Proven) {
		return nil
	}
	return fmt.Errorf("cluster UID %s is held by %s, and this cluster has the fingerprint %s; run quayctl takeover first",
		m.uid, holder.Describe(own), m.id.Proven)
}

// claimer returns a function that makes this cluster the holder of a cluster UID, unless it is.
func (m *member) claimer(uid string, was *cloudv1.ClusterHolder, s cloudv1.ClusterHolderSpec) func(context.Context) error {
	return func(ctx context.Context) error {
		if holder.Holds(was, s) {
			return nil
		}
		err := holder.Claim(ctx, m.cloud, was, uid, s)
		if cloudapi.HasCode(err, cloudv1.CodeUnsupported) {
			return nil
		}
		return err
	}
}

func toService(item *migrate.Item) string {
	if item.Service == "" {
		return ""
	}
	return " to Service " + item.Service
}
