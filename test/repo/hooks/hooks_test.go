package hooks

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../../.."

const (
	good = "apiVersion: v1\nkind: Service\nmetadata: {name: good}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n"
	bad  = "apiVersion: v1\nkind: Service\nmetadata:\n  name: bad\n  annotations:\n    load-balancer.hetzner.cloud/lokation: fsn1\n" +
		"spec: {type: LoadBalancer, ports: [{port: 80}]}\n"
)

// repository writes a folder with manifests.
func repository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "deploy here"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"deploy here/good.yaml": good, "deploy here/bad.yaml": bad, "empty.yaml": "# later\n"} {
		if err := os.WriteFile(filepath.Join(folder, filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// run runs a command in a folder, and returns its exit code and what it wrote.
func run(t *testing.T, folder string, env []string, name string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// decode decodes a file of the repository.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatal(err)
	}
}

// pre-commit calls the entry in the folder of the manifests, with the hook's arguments and the names of files.
func TestPreCommit(t *testing.T) {
	built := filepath.Join(root, "bin", "pre-commit")
	if err := os.RemoveAll(built); err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID, Name, Description, Entry, Language string
		Args                                   []string
		TypesOr                                []string `json:"types_or"`
		RequireSerial                          bool     `json:"require_serial"`
	}
	decode(t, ".pre-commit-hooks.yaml", &hooks)
	path, err := filepath.Abs(built)
	if err != nil {
		t.Fatal(err)
	}
	// The script builds the program that the hook of the system then finds.
	env := []string{"PATH=" + path + string(os.PathListSeparator) + os.Getenv("PATH")}
	for _, hook := range hooks {
		t.Run(hook.ID, func(t *testing.T) {
			entry := strings.Fields(hook.Entry)
			if hook.Language == "script" {
				if entry[0], err = filepath.Abs(filepath.Join(root, entry[0])); err != nil {
					t.Fatal(err)
				}
			}
			for files, want := range map[string]struct {
				code int
				out  string
			}{
				"deploy here/good.yaml":                      {0, "no problems in 1 Service\n"},
				"deploy here/good.yaml,deploy here/bad.yaml": {1, "deploy here/bad.yaml:6:5: error: "},
				"empty.yaml": {0, "nothing to check\n"},
			} {
				args := slices.Concat(entry, hook.Args, strings.Split(files, ","))
				command := append([]string{"-c", `exec "$@"`, "sh"}, args...) // finds the program in the PATH of env
				if code, out := run(t, repository(t), env, "sh", command...); code != want.code || !strings.HasPrefix(out, want.out) {
					t.Errorf("%s: exit code %d, %s", files, code, out)
				}
			}
		})
	}
}

// A composite action runs its steps with bash, after it has replaced expressions.
func TestAction(t *testing.T) {
	var action struct {
		Name, Description string
		Inputs            map[string]struct {
			Description, Default string
			Required             bool
		}
		Runs struct {
			Using string
			Steps []struct {
				Name, Uses, Shell, Run string
				WorkingDirectory       string `json:"working-directory"`
				Env                    map[string]string
				With                   map[string]any
			}
		}
	}
	decode(t, "action.yml", &action)
	// The runner looks for files of the cache in the workspace, outside of which the action is.
	if with := action.Runs.Steps[0].With; with["cache"] != false || with["cache-dependency-path"] != nil {
		t.Errorf("setup-go has a cache: %v", with)
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	const found = "::error file=deploy here/bad.yaml,line=6,col=5,title=hcloud-unknown-key::"
	for name, tc := range map[string]struct {
		inputs map[string]string
		code   int
		out    string
		file   string
	}{
		"finds":      {inputs: map[string]string{"paths": "deploy here\n"}, code: 1, out: found},
		"one file":   {inputs: map[string]string{"paths": "deploy here/good.yaml"}, out: "no problems in 1 Service"},
		"two files":  {inputs: map[string]string{"paths": "\ndeploy here/good.yaml\ndeploy here/bad.yaml\n"}, code: 1, out: found},
		"arguments":  {inputs: map[string]string{"paths": "deploy here", "args": "--catalog=metallb\n--config="}, out: "no problems in 2 Services"},
		"no path":    {inputs: map[string]string{"paths": " "}, code: 2, out: "quayctl lint: no input"},
		"no command": {inputs: map[string]string{"paths": "$(touch injected)\n'; touch injected; '"}, code: 2, out: "$(touch injected): stat"},
		"sarif":      {inputs: map[string]string{"paths": "deploy here", "sarif": "out.sarif"}, code: 1, file: `"ruleId":"hcloud-unknown-key"`},
	} {
		t.Run(name, func(t *testing.T) {
			folder := repository(t)
			value := func(text string) string {
				return expression.ReplaceAllStringFunc(text, func(e string) string {
					of := expression.FindStringSubmatch(e)[1]
					input, isInput := strings.CutPrefix(of, "inputs.")
					switch {
					case of == "github.action_path":
						return absolute
					case of == "runner.temp":
						return temp
					case isInput:
						declared, known := action.Inputs[input]
						if !known {
							t.Errorf("%s is not declared", of)
						}
						return cmp.Or(tc.inputs[input], declared.Default)
					}
					t.Errorf("unknown expression %s", of)
					return ""
				})
			}
			code, out := 0, ""
			for _, step := range action.Runs.Steps {
				if step.Uses != "" {
					continue // another action; it installs Go
				}
				if expression.MatchString(step.Run) {
					t.Errorf("the script of %q contains an expression, which can inject commands", step.Name)
				}
				if _, err := os.Stat(filepath.Join(temp, "quayctl")); err == nil && step.WorkingDirectory != "" {
					continue // built once for all cases
				}
				var env []string
				for key, text := range step.Env {
					env = append(env, key+"="+value(text))
				}
				// The options are those of GitHub's runner for bash.
				code, out = run(t, cmp.Or(value(step.WorkingDirectory), folder), env, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
			}
			written, _ := os.ReadFile(filepath.Join(folder, "out.sarif")) // only one case writes it
			if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(string(written), tc.file) {
				t.Errorf("exit code %d, %s%s", code, out, written)
			}
			if _, err := os.Stat(filepath.Join(folder, "injected")); err == nil {
				t.Error("an input was run as a command")
			}
		})
	}
}

// expression matches an expression of GitHub Actions.
var expression = regexp.MustCompile(`\$\{\{ *([a-z_.]+) *\}\}`)
