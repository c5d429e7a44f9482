package app

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/doctor"
	"quaymaster.dev/internal/report"
)

// doctorOptions holds the flags of quayctl doctor.
type doctorOptions struct {
	cluster

	namespace, release, class, cloudConfig, output string
}

func newDoctorCommand() *cobra.Command {
	o := &doctorOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation, and show how to fix what fails",
		Long: "Check an installation step by step: API server, webhooks, certificates, permissions, controllers and\n" +
			"cloud. For each problem, show its cause and how to fix it. Nothing is changed: the Services sent to\n" +
			"the webhooks are dry runs. The command fails if a check fails; warnings do not count.",
		Example: "  quayctl doctor\n  quayctl doctor --namespace=edge --release=quay --cloud-config=cloud.yaml -o json",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd.Flags())
	completeWith(cmd, "output", []string{outputText, outputJSON})
	return cmd
}

func (o *doctorOptions) addFlags(fs *pflag.FlagSet) {
	o.cluster.addFlags(fs)
	fs.StringVar(&o.namespace, "namespace", "quaymaster-system", "`namespace` of the release")
	fs.StringVar(&o.release, "release", "quaymaster", "`name` of the Helm release")
	fs.StringVar(&o.cloudConfig, "cloud-config", "", "cloud config `file`; if empty, the cloud is not checked")
	fs.StringVar(&o.class, "load-balancer-class", "",
		"loadBalancerClass of the Services that are created as a dry run; needed if Services without a `class` are not ours")
	fs.StringVarP(&o.output, "output", "o", outputText, "output format: text or json")
}

// validate returns every problem in the flags as one error.
func (o *doctorOptions) validate() error {
	var problems []string
	for _, named := range []struct{ flag, value string }{{"--namespace", o.namespace}, {"--release", o.release}} {
		if len(validation.IsDNS1123Label(named.value)) > 0 {
			problems = append(problems,
				fmt.Sprintf("%s must be a DNS label such as quaymaster; got %q", named.flag, named.value))
		}
	}
	if o.output != outputText && o.output != outputJSON {
		problems = append(problems, fmt.Sprintf("--output must be text or json; got %q", o.output))
	}
	if len(problems) > 0 {
		return command.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

func (o *doctorOptions) run(ctx context.Context, out io.Writer) error {
	options, err := o.connect()
	if err != nil {
		return err
	}
	results := doctor.Run(ctx, options)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("check the installation: %w", err)
	}
	show := showText
	if o.output == outputJSON {
		show = showJSON
	}
	if err := show(out, results); err != nil {
		return err
	}
	if failed := names(results, doctor.Fail); len(failed) > 0 {
		return fmt.Errorf("%d of %d checks failed: %s", len(failed), len(results), strings.Join(failed, ", "))
	}
	return nil
}

func names(results []doctor.Result, level doctor.Level) []string {
	var found []string
	for _, r := range results {
		if r.Level == level {
			found = append(found, r.Check)
		}
	}
	return found
}

// showText writes one aligned line per result, and the remedy below it.
func showText(out io.Writer, results []doctor.Result) error {
	width := 0
	for _, r := range results {
		width = max(width, len(r.Check))
	}
	for _, r := range results {
		if _, err := fmt.Fprintf(out, "%-4s  %-*s  %s\n", r.Level, width, r.Check, r.Found); err != nil {
			return err
		}
		if r.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "%-4s  %-*s  fix: %s\n", "", width, "", r.Remedy); err != nil {
			return err
		}
	}
	return nil
}

// examination is the JSON output.
type examination struct {
	// OK is true if no check failed.
	OK     bool            `json:"ok"`
	Checks []doctor.Result `json:"checks"`
}

func showJSON(out io.Writer, results []doctor.Result) error {
	return report.Encode(out, examination{OK: len(names(results, doctor.Fail)) == 0, Checks: results})
}
