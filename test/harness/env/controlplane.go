package env

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// startLimit bounds the start of one component. It usually takes seconds; a loaded machine needs longer.
const startLimit = 2 * time.Minute

func (e *Env) startAPIServer(ctx context.Context) error {
	etcdURL, err := e.startEtcd(ctx)
	if err != nil {
		return err
	}
	path, err := Tool("kube-apiserver")
	if err != nil {
		return err
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	cert, key, err := e.pki.server("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	accounts, err := e.pki.serviceAccountKey()
	if err != nil {
		return err
	}
	audit, err := e.auditArgs()
	if err != nil {
		return err
	}
	e.server = "https://127.0.0.1:" + strconv.Itoa(port)
	args := slices.Concat([]string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		// A loopback address cannot be an endpoint of the Service kubernetes, so its endpoints are not maintained.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceCIDR,
		"--authorization-mode=RBAC",
		"--allow-privileged",
		"--client-ca-file=" + e.Authority(),
		"--tls-cert-file=" + cert,
		"--tls-private-key-file=" + key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + accounts,
		"--service-account-signing-key-file=" + accounts,
	}, audit, e.options.APIServerArgs)
	if err := e.connect(); err != nil {
		return err
	}
	e.apiServer = &Server{env: e, name: "kube-apiserver", path: path, args: args, ready: probe(e.server + "/readyz")}
	return e.apiServer.Restart(ctx)
}

func (e *Env) startEtcd(ctx context.Context) (string, error) {
	path, err := Tool("etcd")
	if err != nil {
		return "", err
	}
	port, err := FreePort()
	if err != nil {
		return "", err
	}
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	e.etcd = &Server{env: e, name: "etcd", path: path, ready: probe(url + "/health"), args: []string{
		"--data-dir=" + e.path("etcd"),
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		"--listen-peer-urls=http://127.0.0.1:0",
		// The data of a test or a demonstration need not survive a crash of the machine.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}}
	if backup := e.options.Backup; backup != "" {
		if err := os.CopyFS(e.path("etcd"), os.DirFS(backup)); err != nil {
			return "", fmt.Errorf("restore etcd: %w", err)
		}
	}
	return url, e.etcd.Restart(ctx)
}

// Backup copies the data of etcd into a directory that does not exist. The control plane stops for that.
func (e *Env) Backup(ctx context.Context, dir string) error {
	return e.whileStopped(ctx, func() error { return os.CopyFS(dir, os.DirFS(e.path("etcd"))) })
}

// Restore replaces the data of etcd by that of a backup. The control plane stops for that.
func (e *Env) Restore(ctx context.Context, backup string) error {
	return e.whileStopped(ctx, func() error {
		if err := os.RemoveAll(e.path("etcd")); err != nil {
			return err
		}
		return os.CopyFS(e.path("etcd"), os.DirFS(backup))
	})
}

func (e *Env) whileStopped(ctx context.Context, do func() error) error {
	// Requests that are held, such as watches, do not delay the end of an API server that is killed.
	e.apiServer.Kill()
	if err := e.etcd.Stop(stopGrace); err != nil {
		return err
	}
	if err := do(); err != nil {
		return fmt.Errorf("copy the data of etcd: %w", err)
	}
	if err := e.etcd.Restart(ctx); err != nil {
		return err
	}
	return e.apiServer.Restart(ctx)
}

func (e *Env) startControllerManager(ctx context.Context) error {
	path, err := Tool("kube-controller-manager")
	if err != nil {
		return err
	}
	port, err := FreePort()
	if err != nil {
		return err
	}
	kubeconfig, err := e.UserKubeconfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	manager, err := e.Start("kube-controller-manager", path,
		"--kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(port),
		"--cert-dir="+e.path("pki"),
		"--leader-elect=false",
		"--cloud-provider=external",
		"--allocate-node-cidrs",
		"--cluster-cidr="+ClusterCIDR,
		"--service-cluster-ip-range="+serviceCIDR,
		"--use-service-account-credentials",
		"--root-ca-file="+e.Authority(),
		"--service-account-private-key-file="+e.path("pki", "service-accounts.key"),
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	health := fmt.Sprintf("https://127.0.0.1:%d/healthz", port)
	return Poll(ctx, "kube-controller-manager", probe(health), manager)
}

// auditPolicy logs every request once: when it has been answered, or when a watch begins and ends.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// AuditLog returns the file with the API server's audit events, one per line. It exists if Options.Audit is set.
func (e *Env) AuditLog() string { return e.path("audit.log") }

// auditArgs returns the arguments of kube-apiserver for the audit log of Options.Audit.
func (e *Env) auditArgs() ([]string, error) {
	if !e.options.Audit {
		return nil, nil
	}
	policy := e.path("audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + e.AuditLog(), "--audit-log-mode=blocking"}, nil
}
