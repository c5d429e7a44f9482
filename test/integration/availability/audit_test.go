package availability_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditLog is the file in which the API server records who requested what, and the result.
type auditLog string

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}`

// audited creates a log and returns the arguments that make an API server write it.
func audited(t *testing.T) (log auditLog, args []string) {
	t.Helper()
	dir := t.TempDir()
	log = auditLog(filepath.Join(dir, "audit.log"))
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return log, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + string(log)}
}

// end returns the current end of the log.
func (a auditLog) end(t *testing.T) int {
	t.Helper()
	return len(a.read(t))
}

// since returns the events after a former end.
func (a auditLog) since(t *testing.T, end int) []auditv1.Event {
	t.Helper()
	var events []auditv1.Event
	for line := range bytes.Lines(a.read(t)[end:]) {
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, event)
	}
	return events
}

// read reads the complete lines of the log.
func (a auditLog) read(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(string(a))
	if err != nil {
		t.Fatal(err)
	}
	return text[:bytes.LastIndexByte(text, '\n')+1]
}
