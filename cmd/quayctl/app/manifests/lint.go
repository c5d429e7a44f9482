package manifests

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/cmd/quayctl/app/output"
	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/settings"
	"quaymaster.dev/internal/tool/suppress"
)

// lintOptions holds the flags of quayctl lint.
type lintOptions struct {
	flags.Engine
	flags.Accept

	files, policies          []string
	recursive, defaults      bool
	allowEmpty               bool
	output, color, namespace string

	// wanted reports whether objects of a kind are of interest.
	wanted func(apiVersion, kind string) bool
}

var (
	lintOutputs = []string{flags.Text, flags.JSON, flags.SARIF, flags.GitHub, flags.HTML}
	colors      = []string{"auto", "always", "never"}
)

func newLintCommand() *cobra.Command {
	o := &lintOptions{}
	cmd := &cobra.Command{
		Use:   "lint [-R] [-f FILE|DIRECTORY|-]... [FILE|DIRECTORY|-]...",
		Short: "Validate manifests as admission would, without a cluster",
		Long: "Validate the Services of type LoadBalancer in manifests with the same checks as admission, without a\n" +
			"cluster, the annotations of objects for which controllers create such Services, and the policies. Use -\n" +
			"for standard input. The summary counts what was not checked: objects of other kinds, and Services of\n" +
			"other types.\n\n" +
			"Findings do not count if a comment (# quayctl:ignore ID: REASON), an annotation\n" +
			"(ignore.quaymaster.dev/ID: REASON), the config file or the baseline says so. Admission ignores these.\n\n" +
			"Exit code 0: no errors, possibly warnings; 1: errors; 2: wrong usage, the input contains no object,\n" +
			"or something could not be read, in which case everything else was still validated.",
		Example: "  quayctl lint service.yaml\n" +
			"  quayctl lint -R -f manifests/ --policy=policies.yaml --defaults\n" +
			"  helm template shop ./chart | quayctl lint -f -\n" +
			"  quayctl lint -R deploy/ -o sarif > lint.sarif\n" +
			"  quayctl lint -R deploy/ --baseline=quayctl-baseline.json\n" +
			"  quayctl lint -R deploy/ -o html > lint.html",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = append(o.files, args...)
			if err := o.validate(cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	o.Engine.AddFlags(cmd)
	o.Accept.AddFlags(cmd.Flags(), settings.Name)
	flags.CompleteWith(cmd, "output", lintOutputs)
	flags.CompleteWith(cmd, "color", colors)
	return cmd
}

func (o *lintOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringArrayVarP(&o.files, "filename", "f", nil,
		"`file` or directory with manifests, or - for standard input; can be repeated")
	fs.BoolVarP(&o.recursive, "recursive", "R", false, "process subdirectories, except hidden ones")
	fs.BoolVar(&o.allowEmpty, "allow-empty", false, "succeed if the input contains no document")
	fs.StringArrayVar(&o.policies, "policy", nil,
		"`file` or directory with more policies to validate and apply, and with their Namespaces; can be repeated")
	fs.StringVarP(&o.output, "output", "o", flags.Text, "output format: "+flags.OrList(lintOutputs))
	fs.BoolVar(&o.defaults, "defaults", false, "show the annotations that admission would add")
	fs.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of manifests without one; empty for default")
	fs.StringVar(&o.color, "color", colors[0], "colors and source lines in text output: "+flags.OrList(colors))
}

// validate returns every problem in the flags as one error.
func (o *lintOptions) validate(fs *pflag.FlagSet) error {
	problems := slices.Concat(flags.OneOf("output", o.output, lintOutputs), flags.OneOf("color", o.color, colors),
		o.Accept.Load(fs, &o.Engine))
	if len(o.files) == 0 && len(o.policies) == 0 {
		problems = append(problems, "no input: name files, directories, or - for standard input")
	}
	if len(problems) > 0 {
		return command.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

func (o *lintOptions) run(stdin io.Reader, stdout, stderr io.Writer) error {
	linter := lint.Linter{Namespace: o.namespace, ShowDefaults: o.defaults, Templates: o.Templates}
	o.wanted = linter.Wanted
	files, problems := o.read(o.files, stdin)
	policyFiles, more := o.readPolicies(files, stdin)
	problems = append(problems, more...)
	governing := objects(slices.Concat(files, policyFiles))
	namespaces := lint.Namespaces(governing)
	policies, results := linter.Policies(governing, namespaces)
	services, counts := linter.Files(files, lint.NewReviewer(lint.ReviewerOptions{
		Catalogs: o.Names, Class: o.Class.Name, DefaultClass: o.Class.Default, Policies: policies, Namespaces: namespaces,
		Library: o.Library, UnknownKeys: o.Unknown, Placeholders: true,
	}))
	for _, r := range results {
		counts.Check(r.Object.Kind, 1)
	}
	results = append(results, services...)
	counts.Unreadable = len(problems)
	if len(problems) == 0 && len(results) == 0 && counts.Empty() && !(o.allowEmpty && counts.Unknown == 0) {
		problems = append(problems, o.empty(counts.Unknown))
	}
	for _, p := range problems {
		fmt.Fprintln(stderr, p)
	}
	if o.Write && len(problems) > 0 {
		o.Write = false
		fmt.Fprintf(stderr, "%s: not written, because not everything could be read\n", o.Baseline)
	}
	all := slices.Concat(files, policyFiles)
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
	}
	if err := o.Apply(results, all, suppress.OfFiles(filepath.Dir(o.Baseline), names), stderr); err != nil {
		return command.Exit(command.ExitUsage, err)
	}
	if err := o.show(stdout, stderr, results, counts); err != nil {
		return err
	}
	return output.Verdict(results, len(problems) > 0)
}

// empty returns the problem that the input contains no object, as that of a pipe whose first command has failed. unknown is
// the number of documents without a kind, which --allow-empty does not allow: such a command may have written its error.
func (o *lintOptions) empty(unknown int) manifest.Problem {
	input := slices.Concat(o.files, o.policies)
	remedy := "check what wrote it"
	if slices.Contains(input, manifest.Stdin) {
		remedy = "check that the command before the pipe has not failed (set -o pipefail)"
	}
	message := "contains no object; " + remedy + ", or allow that with --allow-empty"
	if unknown > 0 {
		message = "contains no object with a kind; " + remedy
	}
	return manifest.Problem{File: strings.Join(input, ", "), Message: message}
}

// read reads files and directories, and returns what cannot be read.
func (o *lintOptions) read(paths []string, stdin io.Reader) ([]manifest.File, []manifest.Problem) {
	names, problems := manifest.Names(paths, o.recursive)
	// They may be in the folder of the manifests.
	names = slices.DeleteFunc(names, o.Own)
	files := manifest.Read(names, stdin, o.wanted)
	for _, f := range files {
		problems = append(problems, f.Problems...)
	}
	return files, problems
}

// readPolicies reads the files of --policy that are not among the others. Each path must contain a policy, or a
// Namespace for those of others.
func (o *lintOptions) readPolicies(
	others []manifest.File, stdin io.Reader,
) (all []manifest.File, problems []manifest.Problem) {
	for _, path := range o.policies {
		files, unreadable := o.read([]string{path}, stdin)
		problems = append(problems, unreadable...)
		if len(unreadable) == 0 && !slices.ContainsFunc(objects(files), lint.Governs) {
			problems = append(problems, manifest.Problem{
				File: path, Message: "contains no policy; name a file with a LoadBalancerPolicy or ClusterLoadBalancerPolicy",
			})
		}
		for _, f := range files {
			same := func(other manifest.File) bool { return other.Name == f.Name }
			if !slices.ContainsFunc(others, same) && !slices.ContainsFunc(all, same) {
				all = append(all, f)
			}
		}
	}
	return all, problems
}

func objects(files []manifest.File) []*manifest.Object {
	var all []*manifest.Object
	for _, f := range files {
		all = append(all, f.Objects...)
	}
	return all
}

func (o *lintOptions) show(stdout, stderr io.Writer, results []report.Result, counts report.Counts) error {
	var err error
	summary := report.Summary(results, counts)
	if o.output == flags.Text {
		err = report.Text(stdout, results, o.inColor(stdout), output.WidthOf(stdout))
	} else {
		err = output.Show(stdout, o.output, results, "Findings in manifests", summary, o.Suppressed)
	}
	if err == nil && (o.output == flags.Text || o.output == flags.GitHub) {
		fmt.Fprintln(stderr, output.Fitted(stderr, summary))
	}
	return err
}

// inColor reports whether to write colors, following https://no-color.org.
func (o *lintOptions) inColor(stdout io.Writer) bool {
	if o.color != colors[0] {
		return o.color == colors[1]
	}
	return output.IsTerminal(stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
