package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"quaymaster.dev/internal/kube/brakes"
)

// brakesServer serves the ConfigMap of the brakes, if there is one, and returns a kubeconfig. Patches of annotations are
// applied.
func brakesServer(t *testing.T, cm *corev1.ConfigMap) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if cm == nil || r.URL.Path != "/api/v1/namespaces/kube-system/configmaps/quaymaster-brakes" {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			return
		}
		if r.Method == http.MethodPatch {
			raw, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(raw, cm); err != nil {
				t.Error(err)
			}
		}
		_ = json.NewEncoder(w).Encode(cm)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestResumeLists(t *testing.T) {
	since := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	engaged, err := brakes.Brake{Engaged: &brakes.Engagement{Since: since, Message: "30 of 200 Nodes"}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	spent, err := brakes.Brake{Spent: []brakes.Spending{{Key: "a", At: since}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	record := func(data, annotations map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: brakes.ConfigMap, Annotations: annotations}, Data: data,
		}
	}
	for name, tt := range map[string]struct {
		cm   *corev1.ConfigMap
		want string
	}{
		"no record":    {nil, "no brake is engaged\n"},
		"only a count": {record(map[string]string{brakes.NodeDeletions: spent}, nil), "no brake is engaged\n"},
		"engaged and resumed": {
			record(map[string]string{brakes.NodeDeletions: engaged, brakes.Routes: "off"},
				map[string]string{brakes.AnnotationResume(brakes.NodeDeletions): "2999-01-01T00:00:00Z", brakes.AnnotationResume(brakes.Routes): "tomorrow"}),
			"BRAKE           ENGAGED SINCE         RESUMED UNTIL         REASON\n" +
				"node-deletions  2026-01-02T15:04:05Z  2999-01-01T00:00:00Z  30 of 200 Nodes\n" +
				"routes          unknown               invalid               the entry of brake routes in ConfigMap quaymaster-brakes is invalid; remove it: invalid character 'o' looking for beginning of value\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, "resume", "--kubeconfig="+brakesServer(t, tt.cm))
			if code != 0 || stdout != tt.want {
				t.Errorf("exit code %d: %s\n%s", code, stderr, stdout)
			}
		})
	}
}

func TestResume(t *testing.T) {
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}}
	file := brakesServer(t, cm)
	began := time.Now()
	code, stdout, stderr := run(t, "resume", "node-deletions", "--kubeconfig="+file)
	until, err := brakes.ResumedUntil(cm, brakes.NodeDeletions)
	if code != 0 || err != nil || until.Sub(began).Round(time.Minute) != time.Hour || !strings.HasPrefix(stdout, "node-deletions: resumed until ") {
		t.Errorf("exit code %d: %s%s; until %v, %v", code, stdout, stderr, until, err)
	}
	code, stdout, _ = run(t, "resume", "routes", "--until=2999-01-01T01:00:00+01:00", "--kubeconfig="+file)
	if code != 0 || stdout != "routes: resumed until 2999-01-01T00:00:00Z\n" {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, stdout, _ = run(t, "resume", "routes", "--for=0s", "--kubeconfig="+file)
	if code != 0 || stdout != "routes: no longer resumed\n" {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, _, stderr = run(t, "resume", "routes", "--kubeconfig="+file, "--namespace=edge")
	if code != 1 || !strings.Contains(stderr, "there is no ConfigMap edge/quaymaster-brakes") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestResumeUsage(t *testing.T) {
	const list = "missing-load-balancers, node-deletions, pool-members or routes"
	for want, args := range map[string][]string{
		"the brake must be " + list + `; got "nodes"`:                            {"nodes"},
		"--for and --until require a brake":                                      {"--for=1h"},
		`--for must not be negative; got "-1h0m0s"`:                              {"routes", "--for=-1h"},
		"--for and --until must not be combined":                                 {"routes", "--for=1h", "--until=2999-01-02T15:04:05Z"},
		`--until must be a time such as 2026-01-02T15:04:05Z; got "tomorrow"`:    {"routes", "--until=tomorrow"},
		`--namespace must be a DNS label such as kube-system; got "kube_system"`: {"-n", "kube_system"},
		"accepts one brake; got 2":                                               {"routes", "node-deletions"},
	} {
		if code, _, stderr := run(t, append([]string{"resume"}, args...)...); code != 2 || !strings.Contains(stderr, want+"; see") {
			t.Errorf("exit code %d: %s, want %s", code, stderr, want)
		}
	}
}

// Every brake is documented.
func TestBrakesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations", "brakes.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, brake := range brakes.All() {
		if row := "| `" + brake.Name + "` | " + brake.Stops + " |\n"; !strings.Contains(string(page), row) {
			t.Errorf("docs/operations/brakes.md lacks the row %s", row)
		}
	}
}
