package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/access"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/ownership"
)

// clusterInCloud holds the flags that select a cluster and its cloud.
type clusterInCloud struct {
	access.Cluster

	cloudConfig, fingerprint, namespace string
}

func (o *clusterInCloud) addFlags(fs *pflag.FlagSet) {
	o.Cluster.AddFlags(fs)
	fs.StringVar(&o.cloudConfig, "cloud-config", "", "cloud config `file` of the cluster (required)")
	fs.StringVar(&o.fingerprint, "fingerprint", "",
		"`fingerprint` by which the controllers identify the cluster, as they report it; if empty, that of the certificate "+
			"authority of the API server as seen from here")
	fs.StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceSystem, "`namespace` of the controllers' lease")
}

// member is a cluster as the cloud sees it.
type member struct {
	api   kubernetes.Interface
	cloud *cloudapi.Client
	uid   string
	id    clusterca.Identity
	cfg   config.Config
}

// own is connect for commands that must touch no cloud but the one that the cluster remembers.
func (o *clusterInCloud) own(ctx context.Context) (*member, error) {
	m := &member{}
	return m, o.connect(ctx, m, func(ctx context.Context) error { return holder.Identify(ctx, m.cloud, o.memory(m)) })
}

func (o *clusterInCloud) memory(m *member) holder.Memory {
	return contact.Memory{Client: m.api, Namespace: o.namespace}
}

// connect identifies the cluster and creates the clients. identify is cloudapi.Options.Identify.
func (o *clusterInCloud) connect(ctx context.Context, m *member, identify func(context.Context) error) error {
	if o.cloudConfig == "" {
		return command.Usagef("--cloud-config is required: name the cloud config file of the cluster")
	}
	var err error
	if m.cfg, m.cloud, err = access.Cloud(o.cloudConfig, identify); err != nil {
		return err
	}
	rc, err := o.RESTConfig()
	if err != nil {
		return err
	}
	identity := o.identity(rc)
	if m.api, err = kubernetes.NewForConfig(rc); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	return m.identify(ctx, identity)
}

// identify reads the UID of the cluster and what distinguishes it from others with that UID.
func (m *member) identify(ctx context.Context, identity func() (clusterca.Identity, error)) error {
	var err error
	if m.uid, err = ownership.NewCluster(m.api.CoreV1()).UID(ctx); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	m.id, err = identity()
	return err
}

// identity returns the function that identifies the cluster: by the fingerprint of the flag, or by the certificate
// authority that the clients of rc, which are created later, meet.
func (o *clusterInCloud) identity(rc *rest.Config) func() (clusterca.Identity, error) {
	if o.fingerprint == "" {
		return clusterca.Observe(rc).Identity
	}
	return func() (clusterca.Identity, error) {
		return clusterca.Identity{Proven: o.fingerprint, Accepted: []string{o.fingerprint}}, nil
	}
}

// claim is the content of the record if this cluster is the holder.
func (m *member) claim() cloudv1.ClusterHolderSpec {
	return cloudv1.ClusterHolderSpec{
		Name: m.cfg.ClusterID, Fingerprints: m.id.Accepted, ClaimedBy: holder.ClaimedBy(access.UserAgent()),
	}
}

func newTakeoverCommand() *cobra.Command {
	o, yes := &clusterInCloud{}, false
	cmd := &cobra.Command{
		Use:   "takeover",
		Short: "Let this cluster write to the cloud in place of another one",
		Long: "Let this cluster write to the cloud in place of another one with the same UID. Clusters that were\n" +
			"restored from the same backup of etcd share their UIDs; only the one that holds the cluster UID in\n" +
			"the cloud may change its load balancers. The command shows which one that is, asks for confirmation,\n" +
			"and makes this cluster the holder. The controllers of the former holder then stop writing.\n\n" +
			"The same command is needed after the cloud was replaced by a different one, after the certificate\n" +
			"authority of the API server was replaced without a time in which clients trusted both, and to change\n" +
			"the clusterID of the cloud config.",
		Example: "  quayctl takeover --cloud-config=cloud.yaml\n  quayctl takeover --cloud-config=cloud.yaml --yes",
		Args:    command.NoArguments,
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m := &member{}
		// The cluster may remember a different cloud.
		if err := o.connect(cmd.Context(), m, nil); err != nil {
			return err
		}
		return m.takeover(cmd.Context(), o.memory(m), yes, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	return cmd
}

func (m *member) takeover(ctx context.Context, memory holder.Memory, yes bool, in io.Reader, out io.Writer) error {
	meta, err := m.cloud.Identity(ctx)
	if err != nil {
		return err
	}
	known, err := memory.CloudID(ctx)
	if err != nil {
		return err
	}
	held, kept, err := holder.Find(ctx, m.cloud, m.uid)
	if err != nil {
		return err
	}
	describe(out, m, held, kept)
	if known == "" {
		fmt.Fprintln(out, "The cluster remembers no cloud: its controllers have not run yet, or their lease is in a different --namespace.")
	}
	moves := known != "" && known != meta.ID
	if moves {
		fmt.Fprintf(out, "The cloud is %s. Until now, the cloud of this cluster was %s: load balancers there are given up.\n",
			meta.ID, known)
	}
	claim := m.claim()
	claims := kept && !holder.Holds(held, claim)
	switch {
	case !claims && !moves && kept:
		_, err := fmt.Fprintln(out, "this cluster is the holder already")
		return err
	case !claims && !moves:
		_, err := fmt.Fprintln(out, "there is nothing to take over")
		return err
	}
	if !yes {
		if err := confirm(in, out, consequence(claims)); err != nil {
			return err
		}
	}
	if claims {
		err = holder.Claim(ctx, m.cloud, held, m.uid, claim)
	}
	if cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
		return fmt.Errorf("the holder has changed meanwhile; run the command again: %w", err)
	}
	if err == nil && moves {
		err = memory.Remember(ctx, meta.ID)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "this cluster may write to the cloud now; its controllers notice within 30 seconds")
	return err
}

// consequence says what the takeover causes.
func consequence(claims bool) string {
	if claims {
		return "The controllers of any other cluster with this UID will stop writing to the cloud."
	}
	return "The controllers of this cluster will write to the cloud."
}

// describe prints the holder of the cluster UID and this cluster.
func describe(out io.Writer, m *member, held *cloudv1.ClusterHolder, kept bool) {
	by := "no cluster"
	switch {
	case held != nil:
		by = holder.Describe(held)
	case !kept:
		by = "unknown; the cloud does not record holders"
	}
	fmt.Fprintf(out, "cluster UID:   %s\nheld by:       %s\nthis cluster:  cluster %q, with the fingerprint %s\n",
		m.uid, by, m.cfg.ClusterID, m.id.Proven)
	if held != nil && held.Name != m.cfg.ClusterID {
		fmt.Fprintf(out, "The controllers will rename all load balancers from %q to %q.\n", held.Name+"-…", m.cfg.ClusterID+"-…")
	}
}

// confirm asks the operator to go on.
func confirm(in io.Reader, out io.Writer, consequence string) error {
	fmt.Fprintf(out, "%s Type yes to continue: ", consequence)
	answer, err := bufio.NewReader(in).ReadString('\n')
	fmt.Fprintln(out)
	if strings.TrimSpace(answer) != "yes" || err != nil && !errors.Is(err, io.EOF) {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}
