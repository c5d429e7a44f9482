package safety

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/test/harness/pipe"
)

// stateFile has the state of a cloud in its folder.
const stateFile = "state.db"

// site is a cloud whose server can be stopped, backed up and restored.
type site struct {
	t       testing.TB
	options server.Options
	// front is the cloud as the controllers reach it, back the cloud without faults.
	front, back *pipe.Listener
	// wrote, if not nil, makes a write and checks what it has changed. There is one call at a time.
	wrote func(write func() (status int), r *http.Request)
	// writing has an element during that call. Unlike a mutex, it can be waited for on virtual time.
	writing chan struct{}

	lock   sync.Mutex
	faults intercept
	// running is nil while the server is stopped.
	running *serverRun
}

// serverRun is one run of the server of a site.
type serverRun struct {
	server  *server.Server
	handler http.Handler
	ended   context.Context //nolint:containedctx // it ends the requests of the run
	end     context.CancelFunc
	// working are the goroutines of the server, serving are the requests.
	working, serving sync.WaitGroup
}

// newSite starts a cloud.
func newSite(t testing.TB, stock *inventory.Inventory, o size) *site {
	t.Helper()
	s := &site{
		t: t, front: pipe.Listen(), back: pipe.Listen(), writing: make(chan struct{}, 1),
		options: server.Options{DataDir: memory(t), Inventory: stock, Token: token, JobDuration: o.jobs, Limits: o.limits},
	}
	s.run(stock)
	logger := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	front := &http.Server{Handler: http.HandlerFunc(s.serveFront), ErrorLog: logger} //nolint:gosec // its only client is the test
	back := &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: logger}       //nolint:gosec // as above
	var serving sync.WaitGroup
	serving.Go(func() { _ = front.Serve(s.front) })
	serving.Go(func() { _ = back.Serve(s.back) })
	t.Cleanup(func() {
		_, _ = front.Close(), back.Close()
		serving.Wait()
		s.halt()
	})
	return s
}

// run starts the server with an inventory.
func (s *site) run(stock *inventory.Inventory) {
	s.t.Helper()
	options := s.options
	options.Inventory = stock
	server, err := server.Open(options)
	if err != nil {
		s.t.Fatal(err)
	}
	r := &serverRun{server: server, handler: server.Handler()}
	r.ended, r.end = context.WithCancel(context.Background())
	r.working.Go(func() { server.Run(r.ended) })
	s.lock.Lock()
	defer s.lock.Unlock()
	s.running = r
}

// halt stops the server. Requests that it has not answered yet end as when a connection breaks.
func (s *site) halt() {
	s.t.Helper()
	s.lock.Lock()
	r := s.running
	s.running = nil
	s.lock.Unlock()
	if r == nil {
		return
	}
	r.end()
	r.serving.Wait()
	r.working.Wait()
	if err := r.server.Close(); err != nil {
		s.t.Error(err)
	}
}

// enter returns the current run for a request, which must call serving.Done, or nil.
func (s *site) enter() *serverRun {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.running != nil {
		s.running.serving.Add(1)
	}
	return s.running
}

func (s *site) serveFront(rw http.ResponseWriter, r *http.Request) {
	s.lock.Lock()
	faults := s.faults
	s.lock.Unlock()
	if faults == nil || !faults(rw, r) {
		s.serve(rw, r)
	}
}

func (s *site) serve(rw http.ResponseWriter, r *http.Request) {
	if s.wrote == nil || r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, ":lookup") {
		s.pass(rw, r)
		return
	}
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.wrote(func() int {
		noted := &statusWriter{ResponseWriter: rw, status: http.StatusOK}
		s.pass(noted, r)
		return noted.status
	}, r)
}

// pass passes a request to the server.
func (s *site) pass(rw http.ResponseWriter, r *http.Request) {
	run := s.enter()
	if run == nil {
		panic(http.ErrAbortHandler)
	}
	defer run.serving.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(run.ended, cancel)()
	run.handler.ServeHTTP(rw, r.WithContext(ctx))
	if run.ended.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// statusWriter notes the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// cloudBackup is a backup of a cloud.
type cloudBackup struct {
	state []byte
	// machines are the IDs of the instances that it has.
	machines map[string]bool
}

// backup stops the server, copies its state and starts it again.
func (s *site) backup(machines []cloudv1.Instance) *cloudBackup {
	s.t.Helper()
	b := &cloudBackup{machines: map[string]bool{}}
	for i := range machines {
		b.machines[machines[i].ID] = true
	}
	s.halt()
	var err error
	if b.state, err = os.ReadFile(filepath.Join(s.options.DataDir, stateFile)); err != nil {
		s.t.Fatal(err)
	}
	s.run(s.options.Inventory)
	return b
}

// restore stops the server, waits, and starts it with the state of a backup and the inventory of today, which has the
// machines that are newer than the backup.
func (s *site) restore(b *cloudBackup, machines []cloudv1.Instance, outage time.Duration) {
	s.t.Helper()
	s.halt()
	time.Sleep(outage)
	if err := os.WriteFile(filepath.Join(s.options.DataDir, stateFile), b.state, 0o600); err != nil {
		s.t.Fatal(err)
	}
	stock := *s.options.Inventory
	stock.Instances = slices.Clone(stock.Instances)
	for i := range machines {
		if m := &machines[i]; m.State == cloudv1.InstanceRunning && !b.machines[m.ID] {
			stock.Instances = append(stock.Instances, inventory.Instance{
				ID: m.ID, Hostname: m.Hostname, Type: m.Type, Zone: m.Zone, Addresses: m.Addresses,
			})
		}
	}
	s.run(&stock)
}

// setFaults makes the cloud fail; nil makes it work.
func (s *site) setFaults(f intercept) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.faults = f
}

// newClient returns a client of the cloud.
func newClient(t testing.TB, transport http.RoundTripper, configure ...func(*cloudapi.Options)) *cloudapi.Client {
	t.Helper()
	o := cloudapi.Options{
		Endpoint: "http://" + cloudHost, Token: cloudapi.StaticToken(token),
		Wrap: func(http.RoundTripper) http.RoundTripper { return transport },
	}
	for _, c := range configure {
		c(&o)
	}
	c, err := cloudapi.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
