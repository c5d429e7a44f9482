package page

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	// cookieName is that of the cookie with the session, which expires after sessionLife.
	cookieName  = "mycloud-page"
	sessionLife = 12 * time.Hour
	// sealedFor is what sessions are encrypted for, so that nothing else can be taken for one.
	sealedFor = "page session"
	// maxForm limits the body of a login.
	maxForm = 16 << 10
)

// session returns the value of the cookie for a token. It is encrypted and has all that a server needs to know, so that any
// server of the cloud can read it, and a session ends when its token does.
func (p *Page) session(token string) string {
	expires := p.Clock.Now().Add(sessionLife).Unix()
	return p.Cipher.SealText(sealedFor, strconv.FormatInt(expires, 10)+" "+token)
}

// loggedIn reports whether a request belongs to the session of a token that may read, and why that may be out of date; stale is
// nil if it is not.
func (p *Page) loggedIn(r *http.Request) (ok bool, stale, err error) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return false, nil, nil // there is no cookie
	}
	text, ok := p.Cipher.OpenText(sealedFor, cookie.Value)
	if !ok {
		return false, nil, nil
	}
	until, token, _ := strings.Cut(text, " ")
	seconds, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !p.Clock.Now().Before(time.Unix(seconds, 0)) {
		return false, nil, nil // it has expired
	}
	// Another server may have revoked the token.
	stale = p.current(r)
	ok, err = p.MayRead(token)
	return ok, stale, err
}

// current waits for what other servers have written, but not for long.
func (p *Page) current(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), currentWait)
	defer cancel()
	return p.Store.Current(ctx)
}

// loginForm is the data of the login.
type loginForm struct {
	// Next is where the login leads, and Problem why it failed.
	Next, Problem string
}

func (p *Page) showLogin(w http.ResponseWriter, r *http.Request) {
	next := inside(r.URL.Query().Get("next"))
	if ok, _, err := p.loggedIn(r); ok && err == nil {
		http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // G710: inside has checked it
		return
	}
	p.form(w, r, http.StatusOK, loginForm{Next: next})
}

func (p *Page) form(w http.ResponseWriter, r *http.Request, status int, f loginForm) {
	p.write(w, r, status, &frame{Title: "Log in", Page: "login", Now: p.Clock.Now(), Data: f})
}

// login begins a session.
func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTimeout))
	if err := r.ParseForm(); err != nil {
		p.form(w, r, http.StatusBadRequest, loginForm{Next: Path, Problem: "The form is malformed or too large."})
		return
	}
	f := loginForm{Next: inside(r.PostForm.Get("next"))}
	from := source(r.RemoteAddr)
	refund, ok := p.logins.Take(from, p.Clock.Now())
	if !ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(loginEvery.Seconds())))
		f.Problem = "Too many failed attempts from your address; wait a few seconds."
		p.form(w, r, http.StatusTooManyRequests, f)
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	ok, err := p.MayRead(token)
	if !ok && err == nil {
		// Another server may have created the token a moment ago.
		_ = p.current(r)
		ok, err = p.MayRead(token)
	}
	if ok || err != nil {
		refund()
	}
	if err != nil {
		p.Logger.ErrorContext(r.Context(), "Could not read a token", "error", err)
		f.Problem = "The token cannot be checked; the log of the server has the reason."
		p.form(w, r, http.StatusInternalServerError, f)
		return
	}
	if !ok {
		f.Problem = "This is not a valid token that may read."
		p.form(w, r, http.StatusForbidden, f)
		return
	}
	setCookie(w, r, p.session(token), int(sessionLife.Seconds()))
	http.Redirect(w, r, f.Next, http.StatusSeeOther)
}

// formTimeout is how long the body of a login may take to arrive.
const formTimeout = 30 * time.Second

func (p *Page) logout(w http.ResponseWriter, r *http.Request) {
	setCookie(w, r, "", -1)
	http.Redirect(w, r, Path+"login", http.StatusSeeOther)
}

// setCookie sets the cookie for the page alone. Scripts cannot read it, and other sites cannot make a browser send it.
func setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // G124: plain HTTP is for loopback addresses
		Name: cookieName, Value: value, Path: Path, MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// inside returns the address of a page of this server, whatever a link asks for.
func inside(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || strings.Contains(u.Path, "\\") || strings.HasPrefix(u.Path, Path+"login") ||
		!strings.HasPrefix(path.Clean(u.Path)+"/", Path) {
		return Path
	}
	return u.RequestURI()
}

const (
	// loginBurst is how many attempts may fail at once from an address, and loginEvery is the time after which one more may.
	loginBurst = 10
	loginEvery = 6 * time.Second
	// mostSources limits the addresses that are remembered.
	mostSources = 4096
)

// source returns the network that an address is in: IPv6 gives a machine as many addresses as it likes.
func source(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if address = address.Unmap(); address.Is4() {
		return address.String()
	}
	network, err := address.WithZone("").Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}
