package recovery

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/env"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
	"quaymaster.dev/test/harness/process"
)

// stopGrace is how long a program may take to end.
const stopGrace = 30 * time.Second

// site is a cloud with its data.
type site struct {
	*env.Mycloud
	data, tokenFile string
	// client is that of the test.
	client *cloudapi.Client
}

// newSite runs a cloud with the example inventory, which accepts a token.
func newSite(t *testing.T, e *env.Env, name, token string) *site {
	t.Helper()
	s := &site{data: filepath.Join(e.Dir, name), tokenFile: filepath.Join(e.Dir, name+".token")}
	must(t, os.Mkdir(s.data, 0o700))
	writeToken(t, s.tokenFile, token)
	var err error
	s.Mycloud, err = e.StartMycloud(t.Context(), "", "--data-dir="+s.data, "--token-file="+s.tokenFile)
	must(t, err)
	s.client, err = cloudapi.New(cloudapi.Options{Endpoint: s.Endpoint, Token: cloudapi.TokenFile(s.tokenFile)})
	must(t, err)
	return s
}

func writeToken(t *testing.T, file, token string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(token), 0o600))
}

// state returns the revision of the cloud, which every write increases.
func (s *site) state(t *testing.T) string {
	t.Helper()
	meta, err := s.client.Meta(t.Context())
	must(t, err)
	return meta.Revision
}

// restart restarts the cloud. Meanwhile, it does not answer.
func (s *site) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	must(t, s.Stop(stopGrace))
	meanwhile()
	must(t, s.Restart(t.Context()))
}

// backup copies the data of the cloud as docs/operations/backup.md says.
func (s *site) backup(t *testing.T) string {
	t.Helper()
	backup := filepath.Join(t.TempDir(), "backup")
	s.restart(t, func() { etcdtest.CopyState(t, s.data, backup) })
	return backup
}

// restore replaces the data of the cloud, which is stopped.
func (s *site) restore(t *testing.T, backup string) {
	t.Helper()
	must(t, os.RemoveAll(s.data))
	etcdtest.CopyState(t, backup, s.data)
}

// gateway is where the endpoint of a cloud config leads.
type gateway struct {
	endpoint string

	mu    sync.Mutex
	to    *site
	calls map[*site][]string
}

func newGateway(t *testing.T, to *site) *gateway {
	t.Helper()
	g := &gateway{to: to, calls: map[*site][]string{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			target, err := url.Parse(g.pass(r.In))
			if err == nil {
				r.SetURL(target)
			}
		},
		// A cloud that does not answer closes connections.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	g.endpoint = front.URL
	return g
}

func (g *gateway) pass(r *http.Request) (endpoint string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[g.to] = append(g.calls[g.to], r.Method+" "+r.URL.Path)
	return g.to.Endpoint
}

// lead makes the endpoint lead to another cloud.
func (g *gateway) lead(to *site) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to = to
}

// asked returns the requests that a cloud got.
func (g *gateway) asked(of *site) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.calls[of]...)
}

// program is a program that is started again when it has ended, as a kubelet does.
type program struct {
	name    string
	current atomic.Pointer[process.Process]
	starts  atomic.Int32
	// starting is held while the program is started, and while something is done in between.
	starting sync.Mutex
}

// supervise runs a program until the test ends.
func supervise(t *testing.T, name string, server *env.Server) *program {
	t.Helper()
	p := &program{name: name}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	launch := func() error {
		p.starting.Lock()
		defer p.starting.Unlock()
		err := server.Launch()
		if err == nil {
			p.current.Store(server.Process)
			p.starts.Add(1)
		}
		return err
	}
	must(t, launch())
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				server.Kill()
				return
			case <-server.Done():
			}
			// Kubelets wait, too, before they start what has failed.
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			if err := launch(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return p
}

// restart ends the program, and returns when it is about to run again.
func (p *program) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	p.starting.Lock()
	defer p.starting.Unlock()
	must(t, p.current.Load().Signal(syscall.SIGTERM))
	_, err := p.current.Load().Wait(stopGrace)
	must(t, err)
	meanwhile()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
