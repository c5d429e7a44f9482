package availability_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/tools/clientcmd"

	"quaymaster.dev/test/cloud"
	"quaymaster.dev/test/env"
)

// replica is one of the controllers. What it asks, and nobody else, is known: of the cloud by its own way there, of the API server by
// its own name.
type replica struct {
	*env.Server
	name  string
	cloud *way
}

// way leads to the cloud, and notes who goes there.
type way struct {
	cloud *cloud.Cloud

	mu    sync.Mutex
	calls []string
}

func (w *way) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.calls = append(w.calls, r.Method+" "+r.URL.Path)
	w.mu.Unlock()
	w.cloud.ServeHTTP(rw, r)
}

// since are the calls after the first n.
func (w *way) since(n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.calls[n:]...)
}

// start runs a replica with the chart's settings of the lease.
func (w *world) start(name string) *replica {
	w.t.Helper()
	r := &replica{name: name, cloud: &way{cloud: w.cloud}}
	front := httptest.NewServer(r.cloud)
	w.t.Cleanup(front.Close)
	tokenFile := filepath.Join(w.Dir, "token")
	if err := os.WriteFile(tokenFile, []byte(cloud.Token), 0o600); err != nil {
		w.t.Fatal(err)
	}
	config := env.CloudConfigFor("dev", &env.Mycloud{Endpoint: front.URL, TokenFile: tokenFile})
	cloudConfig, err := w.CloudConfigArg(name, config)
	if err != nil {
		w.t.Fatal(err)
	}
	args := append([]string{"--kubeconfig=" + w.kubeconfig(name), cloudConfig}, w.lease...)
	if r.Server, err = w.StartControllers(w.t.Context(), config, args...); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(r.Kill)
	return r
}

// kubeconfig is that of a user who has the rights of the controllers' ServiceAccount and no others.
func (w *world) kubeconfig(user string) string {
	w.t.Helper()
	file, err := w.UserKubeconfig(user, "system:masters")
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	config.AuthInfos[user].Impersonate = "system:serviceaccount:" + env.Namespace + ":quaymaster-controllers"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// writes are what a replica asked the API server to change after what was once the end of the log, as "verb resource name".
func (w *world) writes(r *replica, end int) []string {
	w.t.Helper()
	var writes []string
	for _, event := range w.audit.since(w.t, end) {
		if event.User.Username != r.name || event.ObjectRef == nil {
			continue
		}
		switch event.Verb {
		case "create", "update", "patch", "delete":
			writes = append(writes, event.Verb+" "+event.ObjectRef.Resource+" "+event.ObjectRef.Name)
		}
	}
	return writes
}
