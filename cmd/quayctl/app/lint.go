package app

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/lint"
	"quaymaster.dev/internal/manifest"
	"quaymaster.dev/internal/report"
)

// lintOptions are the flags of quayctl lint.
type lintOptions struct {
	files, policies, catalogs        []string
	recursive, defaults              bool
	output, colour, namespace, class string
}

var (
	lintOutputs = []string{outputText, outputJSON, outputSARIF, outputGitHub}
	colours     = []string{"auto", "always", "never"}
)

func newLintCommand() *cobra.Command {
	o := &lintOptions{}
	cmd := &cobra.Command{
		Use:   "lint [-R] [-f FILE|FOLDER|-]... [FILE|FOLDER|-]...",
		Short: "Judge manifests as admission would, without a cluster",
		Long: "Judge the Services of type LoadBalancer in manifests as admission would judge them, without a cluster; - is the standard\n" +
			"input. Documents of other kinds pass. Exit code 0: no errors, though maybe warnings; 1: errors; 2: wrong usage, or something\n" +
			"could not be read, in which case the rest was judged still.",
		Example: "  quayctl lint service.yaml\n" +
			"  quayctl lint -R -f manifests/ --policy=policies.yaml --defaults\n" +
			"  helm template shop ./chart | quayctl lint -f -\n" +
			"  quayctl lint -R deploy/ -o sarif > lint.sarif",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files = append(o.files, args...)
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	completeWith(cmd, "output", lintOutputs)
	completeWith(cmd, "color", colours)
	completeWith(cmd, "catalog", catalog.Names())
	return cmd
}

func (o *lintOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringArrayVarP(&o.files, "filename", "f", nil, "`file` or folder with manifests, or - for the standard input; may be repeated")
	fs.BoolVarP(&o.recursive, "recursive", "R", false, "read the folders below folders, too, but for hidden ones")
	fs.StringArrayVar(&o.policies, "policy", nil, "`file` or folder with policies, which are judged and applied, and with their Namespaces; may be repeated")
	fs.StringVarP(&o.output, "output", "o", outputText, "form of output: "+orList(lintOutputs))
	fs.BoolVar(&o.defaults, "defaults", false, "tell which annotations admission would add")
	fs.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of manifests that name none; empty for default")
	addJudgeFlags(fs, &o.catalogs, &o.class)
	fs.StringVar(&o.colour, "color", colours[0], "colour and lines of the source in text: "+orList(colours))
}

// validate finds every mistake in the flags.
func (o *lintOptions) validate() error {
	problems := slices.Concat(oneOf("output", o.output, lintOutputs), oneOf("color", o.colour, colours), unknownCatalogs(o.catalogs))
	if len(o.files) == 0 && len(o.policies) == 0 {
		problems = append(problems, "must be told what to judge: files, folders, or - for the standard input")
	}
	if len(problems) > 0 {
		return command.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

func (o *lintOptions) run(stdin io.Reader, stdout, stderr io.Writer) error {
	files, unreadable := o.read(o.files, stdin, stderr)
	policyFiles, worse := o.read(o.policies, stdin, stderr)
	namespaces := lint.Namespaces(objects(slices.Concat(files, policyFiles)))
	linter := lint.Linter{Namespace: o.namespace, ShowDefaults: o.defaults}
	policies, results := linter.Policies(objects(policyFiles), namespaces)
	judged := linter.Files(files, lint.NewReviewer(lint.ReviewerOptions{
		Catalogs: o.catalogs, Class: o.class, Policies: policies, Namespaces: namespaces,
	}))
	results = append(results, judged...)
	if err := o.show(stdout, stderr, results); err != nil {
		return err
	}
	return verdict(results, unreadable || worse)
}

// read reads files and folders, and tells what of them cannot be read.
func (o *lintOptions) read(paths []string, stdin io.Reader, stderr io.Writer) (files []manifest.File, unreadable bool) {
	names, problems := manifest.Names(paths, o.recursive)
	files = manifest.Read(names, stdin, lint.Wanted)
	for _, f := range files {
		problems = append(problems, f.Problems...)
	}
	for _, p := range problems {
		fmt.Fprintln(stderr, p)
	}
	return files, len(problems) > 0
}

func objects(files []manifest.File) []*manifest.Object {
	var all []*manifest.Object
	for _, f := range files {
		all = append(all, f.Objects...)
	}
	return all
}

func (o *lintOptions) show(stdout, stderr io.Writer, results []report.Result) error {
	var err error
	if o.output == outputText {
		err = report.Text(stdout, results, o.inColour(stdout))
	} else {
		err = show(stdout, o.output, results)
	}
	if err == nil && (o.output == outputText || o.output == outputGitHub) {
		fmt.Fprintln(stderr, report.Summary(results, len(results)))
	}
	return err
}

// inColour follows https://no-color.org.
func (o *lintOptions) inColour(stdout io.Writer) bool {
	if o.colour != colours[0] {
		return o.colour == colours[1]
	}
	return isTerminal(stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
