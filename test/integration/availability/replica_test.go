package availability_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// replica is one replica of the controllers. Its requests can be told apart from all others: those to the cloud by its
// own proxy, those to the API server by its own user.
type replica struct {
	*env.Server
	name  string
	cloud *way
}

// way is a proxy to the cloud that records the requests.
type way struct {
	cloud *cloud.Cloud

	mu    sync.Mutex
	calls []string
	// fence has the header of each write that identifies its leader.
	fence []string
	// answered is when the last write was answered.
	answered time.Time
}

func (w *way) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	call := r.Method + " " + r.URL.Path
	w.calls = append(w.calls, call)
	write := len(cloud.Writes([]string{call})) > 0
	if write {
		w.fence = append(w.fence, r.Header.Get(cloudv1.HeaderFence))
	}
	w.mu.Unlock()
	w.cloud.ServeHTTP(rw, r)
	if write {
		w.mu.Lock()
		w.answered = time.Now()
		w.mu.Unlock()
	}
}

// lastAnswer returns when the last write was answered.
func (w *way) lastAnswer() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered
}

// since returns the calls after the first n.
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

// kubeconfig returns the kubeconfig of a user who has exactly the rights of the controllers' ServiceAccount.
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

// writes returns the write requests of a replica to the API server after a former end of the log, as "verb resource
// name".
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
