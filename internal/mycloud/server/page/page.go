// Package page serves a page to look at the cloud: load balancers and their traffic, edges, jobs, certificates. It is
// read-only, and everything that it shows is in its address, so that links can be shared.
package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/connections"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/certificate"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/history"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/ratelimit"
)

// Path is where the page is served, and below it.
const Path = "/ui/"

//go:embed templates/*.html
var templates embed.FS

// Options holds the dependencies of a page.
type Options struct {
	Store store.Store
	Clock clock.PassiveClock
	// Edges are the registered edges with what they have reported.
	Edges *edges.Registry
	// EdgeView, LoadBalancerView and JobView define how objects are read.
	EdgeView         read.View[cloudv1.Edge]
	LoadBalancerView read.View[cloudv1.LoadBalancer]
	JobView          read.View[cloudv1.Job]
	// Facts returns the facts that the health of members depends on.
	Facts func(*store.Tx) balancer.Facts
	// History has the traffic of load balancers.
	History *history.History
	// MayRead reports whether a token is valid and lets its bearer read everything that the page shows.
	MayRead func(token string) (bool, error)
	// Cipher encrypts sessions.
	Cipher *certificate.Cipher
	Logger *slog.Logger
}

// Page serves the page.
type Page struct {
	Options

	templates map[string]*template.Template
	assets    *assets
	logins    *ratelimit.ByKey[string]
	balancers *mirror[cloudv1.LoadBalancer, row]
	jobs      *mirror[cloudv1.Job, cloudv1.Job]
	found     found
}

// New returns a page.
func New(o Options) *Page {
	p := &Page{
		Options: o, assets: newAssets(), logins: ratelimit.New[string](loginEvery, loginBurst, mostSources),
		balancers: newMirror(store.LoadBalancers, rowOf, byName),
		jobs:      newMirror(store.Jobs, func(j *cloudv1.Job) cloudv1.Job { return *j }, latest),
	}
	p.templates = p.parse()
	return p
}

// parse parses the templates, each with the layout.
func (p *Page) parse() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(p.functions()).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name[len("templates/"):len(name)-len(".html")]] = template.Must(template.Must(layout.Clone()).ParseFS(templates, name))
	}
	return all
}

// view is a page for a request: it returns the data of its template.
type view func(tx *store.Tx, r *http.Request) (any, error)

// Handler serves the page. Requests of those who are logged in go through limited, which may refuse them.
func (p *Page) Handler(limited func(http.Handler) http.Handler) http.Handler {
	inside := http.NewServeMux()
	for path, v := range map[string]struct {
		template string
		view     view
	}{
		"{$}":                 {"overview", p.overview},
		"load-balancers":      {"load-balancers", p.loadBalancers},
		"load-balancers/{id}": {"load-balancer", p.loadBalancer},
		"edges":               {"edges", p.edges},
		"edges/{id}":          {"edge", p.edge},
		"jobs":                {"jobs", p.listJobs},
		"jobs/{id}":           {"job", p.job},
		"certificates":        {"certificates", p.certificates},
		"search":              {"search", p.search},
	} {
		inside.Handle("GET "+Path+path, p.serve(v.template, v.view))
	}
	inside.HandleFunc("GET "+Path+"series", p.series)
	inside.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusNotFound, "There is no such page.")
	})

	mux := http.NewServeMux()
	mux.Handle("GET "+Path+"assets/", p.assets)
	mux.HandleFunc("GET "+Path+"login", p.showLogin)
	mux.HandleFunc("POST "+Path+"login", p.login)
	mux.HandleFunc("POST "+Path+"logout", p.logout)
	mux.Handle(Path, p.authenticated(limited(inside)))
	// A browser must not be made to log in or out by another site.
	return secured(http.NewCrossOriginProtection().Handler(mux))
}

// frame is what every page has around its content.
type frame struct {
	Title, Page, Query string
	// Self is the address of the page, without the parameters that are not part of it.
	Self string
	// Now is the time of the server, and Stale why what is shown may be out of date; empty if it is not.
	Now   time.Time
	Stale string
	// Cloud and Revision identify the state that is shown.
	Cloud, Revision string
	Inside          bool
	Data            any
}

// staleKey is the key of why the state may be out of date, in the context of a request of those who are logged in.
type staleKey struct{}

// currentWait is how long a page waits for what other servers have written.
const currentWait = 2 * time.Second

// refusal is the error for a request that cannot be served, such as for what does not exist.
type refusal struct {
	status int
	text   string
}

// Error returns why.
func (e *refusal) Error() string { return e.text }

// serve serves a page from one snapshot of the state.
func (p *Page) serve(name string, v view) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := frame{Page: name, Self: r.URL.RequestURI(), Inside: true, Query: r.URL.Query().Get("q"), Now: p.Clock.Now()}
		if name != "search" {
			f.Query = ""
		}
		if stale, ok := r.Context().Value(staleKey{}).(error); ok {
			f.Stale = stale.Error()
		}
		err := p.Store.View(func(tx *store.Tx) (err error) {
			f.Cloud, f.Revision = tx.CloudID(), tx.Revision()
			f.Data, err = v(tx, r)
			return err
		})
		if refused, ok := errors.AsType[*refusal](err); ok {
			p.fail(w, r, refused.status, refused.text)
			return
		}
		if err != nil {
			p.Logger.ErrorContext(r.Context(), "Could not show a page", "path", r.URL.Path, "error", err)
			p.fail(w, r, http.StatusInternalServerError, "The page cannot be shown; the log of the server has the reason.")
			return
		}
		p.write(w, r, http.StatusOK, &f)
	})
}

// fail serves a page that says what went wrong.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	p.write(w, r, status, &frame{Title: http.StatusText(status), Page: "failure", Inside: true, Now: p.Clock.Now(), Data: text})
}

// write writes a page, or none of it.
func (p *Page) write(w http.ResponseWriter, r *http.Request, status int, f *frame) {
	if titled, ok := f.Data.(interface{ title() string }); ok {
		f.Title = titled.title()
	}
	var page bytes.Buffer
	if err := p.templates[f.Page].ExecuteTemplate(&page, "layout.html", f); err != nil {
		p.Logger.ErrorContext(r.Context(), "Could not write a page", "path", r.URL.Path, "error", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}

// authenticated sends those who are not logged in to the login.
func (p *Page) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok, stale, err := p.loggedIn(r)
		switch {
		case err != nil:
			p.Logger.ErrorContext(r.Context(), "Could not read a token", "error", err)
			http.Error(w, "the session cannot be checked", http.StatusInternalServerError)
		case ok:
			connections.Trust(r.Context())
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), staleKey{}, stale)))
		case r.URL.Path == Path+"series":
			// A script asks.
			http.Error(w, "not logged in", http.StatusUnauthorized)
		default:
			http.Redirect(w, r, loginAddress(r.URL), http.StatusSeeOther) //nolint:gosec // G710: it is a page of this server
		}
	})
}

// loginAddress returns the address of a login that leads to a page.
func loginAddress(to *url.URL) string {
	next := to.RequestURI()
	if next == Path {
		return Path + "login"
	}
	return Path + "login?next=" + url.QueryEscape(next)
}
