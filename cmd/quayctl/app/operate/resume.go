package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/access"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/internal/kube/brakes"
)

// resumeFor is how long work is resumed if the flags say nothing else.
const resumeFor = time.Hour

// resumeOptions holds the flags of quayctl resume.
type resumeOptions struct {
	access.Cluster

	namespace, until string
	duration         time.Duration
	clock            clock.PassiveClock
}

func newResumeCommand() *cobra.Command {
	o := &resumeOptions{clock: clock.RealClock{}}
	cmd := &cobra.Command{
		Use:   "resume [BRAKE]",
		Short: "List engaged brakes, or resume the work that a brake stops",
		Long: "List the brakes of the controllers that are engaged or resumed, or resume the work that a brake stops\n" +
			"for a limited time. Make sure that the cloud is right first. The brakes are:\n\n" + brakeList() +
			"\n--for=0s ends a resumption.",
		Example: "  quayctl resume\n  quayctl resume node-deletions --for=20m",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Usagef("accepts one brake; got %d", len(args))
			}
			return nil
		},
		ValidArgs: brakeNames(),
	}
	o.addFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		until, err := o.validate(args, cmd.Flags().Changed)
		if err != nil {
			return err
		}
		api, _, err := o.Clients()
		if err != nil {
			return err
		}
		maps := api.CoreV1().ConfigMaps(o.namespace)
		if len(args) == 0 {
			return o.list(cmd.Context(), maps, cmd.OutOrStdout())
		}
		return o.resume(cmd.Context(), maps, args[0], until, cmd.OutOrStdout())
	}
	return cmd
}

func (o *resumeOptions) addFlags(fs *pflag.FlagSet) {
	o.Cluster.AddFlags(fs)
	fs.StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceSystem, "`namespace` of the controllers' lease")
	fs.DurationVar(&o.duration, "for", resumeFor, "`duration` of the resumption")
	fs.StringVar(&o.until, "until", "", "`time` in RFC 3339 until which to resume, in place of --for")
}

func brakeNames() []string {
	var names []string
	for _, doc := range brakes.All() {
		names = append(names, doc.Name)
	}
	return names
}

func brakeList() string {
	var text strings.Builder
	for _, doc := range brakes.All() {
		fmt.Fprintf(&text, "  %s\n      %s\n", doc.Name, doc.Stops)
	}
	return text.String()
}

// validate returns every problem of flags and arguments as one error, or the time until which to resume.
func (o *resumeOptions) validate(args []string, given func(flag string) bool) (time.Time, error) {
	var problems []string
	if len(validation.IsDNS1123Label(o.namespace)) > 0 {
		problems = append(problems, fmt.Sprintf("--namespace must be a DNS label such as kube-system; got %q", o.namespace))
	}
	if len(args) == 1 && !slices.Contains(brakeNames(), args[0]) {
		problems = append(problems, fmt.Sprintf("the brake must be %s; got %q", flags.OrList(brakeNames()), args[0]))
	}
	if len(args) == 0 && (given("for") || given("until")) {
		problems = append(problems, "--for and --until require a brake")
	}
	if o.duration < 0 {
		problems = append(problems, fmt.Sprintf("--for must not be negative; got %q", o.duration))
	}
	until := o.clock.Now().Add(o.duration)
	if o.until != "" {
		if given("for") {
			problems = append(problems, "--for and --until must not be combined")
		}
		var err error
		if until, err = time.Parse(time.RFC3339, o.until); err != nil {
			problems = append(problems, fmt.Sprintf("--until must be a time such as 2026-01-02T15:04:05Z; got %q", o.until))
		} else if !until.After(o.clock.Now()) {
			problems = append(problems, fmt.Sprintf("--until must be in the future; got %q; --for=0s ends a resumption", o.until))
		}
	}
	if len(problems) > 0 {
		return until, command.Usagef("%s", strings.Join(problems, "; "))
	}
	return until, nil
}

// list prints the brakes that are engaged or resumed.
func (o *resumeOptions) list(ctx context.Context, maps typedcorev1.ConfigMapInterface, out io.Writer) error {
	cm, err := maps.Get(ctx, brakes.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		cm = &corev1.ConfigMap{}
	} else if err != nil {
		return fmt.Errorf("read the brakes: %w", err)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BRAKE\tENGAGED SINCE\tRESUMED UNTIL\tREASON")
	rows := 0
	for _, name := range brakes.Names(cm) {
		since, until, reason := "-", "-", "-"
		brake, err := brakes.Read(cm, name)
		switch {
		case err != nil:
			since, reason = "unknown", err.Error()
		case brake.Engaged != nil:
			since, reason = brake.Engaged.Since.UTC().Format(time.RFC3339), brake.Engaged.Message
		}
		switch resumed, err := brakes.ResumedUntil(cm, name); {
		case err != nil:
			until = "invalid"
		case o.clock.Now().Before(resumed):
			until = resumed.UTC().Format(time.RFC3339)
		}
		if since != "-" || until != "-" {
			rows++
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, since, until, reason)
		}
	}
	if rows == 0 {
		_, err := fmt.Fprintln(out, "no brake is engaged")
		return err
	}
	return table.Flush()
}

// resume writes the annotation that resumes the work of a brake.
func (o *resumeOptions) resume(
	ctx context.Context, maps typedcorev1.ConfigMapInterface, name string, until time.Time, out io.Writer,
) error {
	annotations := map[string]string{brakes.AnnotationResume(name): until.UTC().Format(time.RFC3339)}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = maps.Patch(ctx, brakes.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "quayctl"})
	if apierrors.IsNotFound(err) {
		return errors.New("there is no ConfigMap " + o.namespace + "/" + brakes.ConfigMap +
			": the controllers have not run yet, or their lease is in a different --namespace")
	}
	if err != nil {
		return fmt.Errorf("resume %s: %w", name, err)
	}
	if !until.After(o.clock.Now()) {
		_, err = fmt.Fprintf(out, "%s: no longer resumed\n", name)
		return err
	}
	_, err = fmt.Fprintf(out, "%s: resumed until %s\n", name, until.UTC().Format(time.RFC3339))
	return err
}
