package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/harness/process"
)

const (
	// Namespace is where Quaymaster is installed.
	Namespace = "quaymaster-system"
	// ClusterCIDR is the range from which Nodes get their pod ranges.
	ClusterCIDR = "10.244.0.0/16"
	// serviceCIDR is the range from which Services get their cluster IPs.
	serviceCIDR = "10.96.0.0/16"
	// user is the unprivileged user of the cluster, developers the user's group and the name of its role.
	user       = "developer"
	developers = "developers"
	// stopGrace is how long a process may take to end before it is killed.
	stopGrace = 15 * time.Second
)

// DualStack holds the APIServerArgs that give Services addresses of both families.
var DualStack = []string{"--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112"}

// Options configure a control plane.
type Options struct {
	// Dir holds certificates, kubeconfigs, etcd's data and, in logs, the output of every process. It is created if
	// it does not exist. Empty means a temporary directory.
	Dir string
	// PIDDir, if set, holds a PID file for every running process; see process.Reap.
	PIDDir string
	// ControllerManager starts kube-controller-manager as well. Without it nothing creates default
	// ServiceAccounts, empties deleted namespaces or gives Nodes their pod ranges.
	ControllerManager bool
	// APIServerArgs are appended to kube-apiserver's arguments.
	APIServerArgs []string
	// Backup, if set, is the directory of a backup of etcd, from which the cluster is restored. It has an authority of its
	// own.
	Backup string
	// Audit makes kube-apiserver write an audit log to AuditLog.
	Audit bool

	temporary bool // Dir was created by New
}

// Env is a running control plane and the processes started with it.
type Env struct {
	// Dir is the directory of Options.
	Dir string
	// Admin and AdminKubeconfig are the credentials of an administrator without restrictions.
	Admin           *rest.Config
	AdminKubeconfig string
	// User and DeveloperKubeconfig are the credentials of a user who may only edit objects in namespaces, including
	// policies.
	User                *rest.Config
	DeveloperKubeconfig string
	// Client is a client with the rights of the administrator.
	Client client.Client

	options Options
	server  string // URL of the API server
	pki     *pki

	etcd, apiServer *Server

	mu        sync.Mutex
	processes []*process.Process // in the order in which they were started
}

// New starts a control plane and returns when it is ready. The caller must stop it. The context only bounds the start.
func New(ctx context.Context, options Options) (*Env, error) {
	if options.Dir == "" {
		dir, err := os.MkdirTemp("", "quaymaster-")
		if err != nil {
			return nil, fmt.Errorf("start a control plane: %w", err)
		}
		options.Dir, options.temporary = dir, true
	}
	e := &Env{Dir: options.Dir, options: options}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a control plane: %w", err), e.Stop())
	}
	return e, nil
}

func (e *Env) start(ctx context.Context) error {
	for _, dir := range []string{e.LogDir(), e.path("pki"), e.options.PIDDir} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var err error
	if e.pki, err = newPKI(e.path("pki")); err != nil {
		return err
	}
	if err := e.startAPIServer(ctx); err != nil {
		return err
	}
	if err := e.makeUser(ctx); err != nil {
		return err
	}
	if e.options.ControllerManager {
		return e.startControllerManager(ctx)
	}
	return nil
}

// connect creates the administrator's kubeconfig and clients once the address of the API server is known.
func (e *Env) connect() error {
	var err error
	if e.AdminKubeconfig, err = e.UserKubeconfig("admin", "system:masters"); err != nil {
		return err
	}
	if e.Admin, err = load(e.AdminKubeconfig); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	e.Client, err = client.New(e.Admin, client.Options{Scheme: scheme})
	return err
}

// makeUser creates the unprivileged user and grants the rights of an administrator of namespaces. It creates a role
// because the rules of the ClusterRoles edit and admin are aggregated by kube-controller-manager, which may not run.
func (e *Env) makeUser(ctx context.Context) error {
	var err error
	if e.DeveloperKubeconfig, err = e.UserKubeconfig(user, developers); err != nil {
		return err
	}
	if e.User, err = load(e.DeveloperKubeconfig); err != nil {
		return err
	}
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: developers},
		Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{""},
				Resources: []string{"configmaps", "events", "persistentvolumeclaims", "pods", "services"},
				Verbs:     verbs,
			},
			{APIGroups: []string{v1alpha1.Group}, Resources: []string{"loadbalancerpolicies"}, Verbs: verbs},
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: developers},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: developers},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: developers}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := client.IgnoreAlreadyExists(e.Client.Create(ctx, object)); err != nil {
			return fmt.Errorf("grant rights to the unprivileged user: %w", err)
		}
	}
	return nil
}

// load loads a kubeconfig without a client-side rate limit: tests and the demonstration poll.
func load(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Start runs a program with its output in LogDir. Stop stops it with the others.
func (e *Env) Start(name, path string, args ...string) (*process.Process, error) {
	p, err := process.Start(process.Spec{
		Name:   name,
		Path:   path,
		Args:   args,
		LogDir: e.LogDir(),
		PIDDir: e.options.PIDDir,
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.processes = append(e.processes, p)
	return p, nil
}

// Processes returns the processes that were started and not stopped, in the order in which they were started.
func (e *Env) Processes() []*process.Process {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.processes)
}

// Stop stops every process in reverse order. It keeps Dir.
func (e *Env) Stop() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, p := range slices.Backward(e.processes) {
		errs = append(errs, p.Stop(stopGrace))
	}
	e.processes = nil
	return errors.Join(errs...)
}

// LogDir returns the directory with the output of every process.
func (e *Env) LogDir() string { return e.path("logs") }

func (e *Env) path(elem ...string) string {
	return filepath.Join(append([]string{e.Dir}, elem...)...)
}
