package env

import (
	"fmt"
	"os"
)

// auditPolicy notes every request once: when it is answered, or when a watch begins and ends.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// AuditLog is the file with the API server's audit events, one a line, where Options.Audit asks for it.
func (e *Env) AuditLog() string { return e.path("audit.log") }

// auditArgs are the arguments of a kube-apiserver that keeps an audit log, if one is asked for.
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
