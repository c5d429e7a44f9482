package page_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/showcase"
)

// browser keeps cookies and does not follow redirects.
type browser struct {
	*testing.T

	endpoint string
	client   *http.Client
}

func newBrowser(t *testing.T, endpoint string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{T: t, endpoint: endpoint, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

func (b *browser) send(r *http.Request) (*http.Response, string) {
	b.Helper()
	response, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return response, string(body)
}

func (b *browser) request(method, path string, body io.Reader) *http.Request {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.endpoint+path, body)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// get returns a page, which must have a status.
func (b *browser) get(path string, status int) string {
	b.Helper()
	response, body := b.send(b.request(http.MethodGet, path, nil))
	if response.StatusCode != status {
		b.Fatalf("GET %s: %s, want %d: %s", path, response.Status, status, body)
	}
	return body
}

// post sends a form.
func (b *browser) post(path string, form url.Values, headers ...string) (*http.Response, string) {
	b.Helper()
	r := b.request(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return b.send(r)
}

func (b *browser) login() {
	b.Helper()
	response, body := b.post("/ui/login", url.Values{"token": {cloud.Token}})
	if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/ui/" {
		b.Fatalf("login: %s to %q: %s", response.Status, response.Header.Get("Location"), body)
	}
}

// TestStrangers: without a session there is nothing but the login, which leads back.
func TestStrangers(t *testing.T) {
	b := newBrowser(t, showcase.Start(t).Endpoint)
	for _, path := range []string{"/ui/", "/ui/load-balancers?q=shop&page=2", "/ui/nothing", "/ui/edges/x"} {
		response, body := b.send(b.request(http.MethodGet, path, nil))
		want := "/ui/login"
		if path != "/ui/" {
			want += "?next=" + url.QueryEscape(path)
		}
		if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != want || strings.Contains(body, "shop") && path == "/ui/" {
			t.Errorf("GET %s: %s to %q", path, response.Status, response.Header.Get("Location"))
		}
	}
	b.get("/ui/series", http.StatusUnauthorized)
	response, _ := b.send(b.request(http.MethodGet, "/ui", nil))
	if response.Header.Get("Location") != "/ui/" {
		t.Errorf("GET /ui: %s to %q", response.Status, response.Header.Get("Location"))
	}
	// The token of the API is not a session: a page would run with the rights of any script that has it.
	r := b.request(http.MethodGet, "/ui/", nil)
	r.Header.Set("Authorization", "Bearer "+cloud.Token)
	if response, _ := b.send(r); response.StatusCode != http.StatusSeeOther {
		t.Errorf("with the token in a header: %s", response.Status)
	}
}

func TestLogin(t *testing.T) {
	b := newBrowser(t, showcase.Start(t).Endpoint)
	for name, token := range map[string]string{"wrong": "guess", "empty": "", "of edges": cloud.RegistrationToken} {
		if response, body := b.post("/ui/login", url.Values{"token": {token}}); response.StatusCode != http.StatusForbidden ||
			len(response.Cookies()) > 0 || !strings.Contains(body, "not a valid token") {
			t.Errorf("%s token: %s %v", name, response.Status, response.Cookies())
		}
	}
	for next, want := range map[string]string{
		"/ui/edges?x=%3Cb%3E": "/ui/edges?x=%3Cb%3E", "": "/ui/", "https://evil.example/ui/": "/ui/", "//evil.example/ui/": "/ui/",
		"/ui/\\evil": "/ui/", "/ui//../v1/meta": "/ui/", "/ui/%2e%2e/v1/meta": "/ui/",
		"/ui/a\r\nb": "/ui/", "/v1/meta": "/ui/", "/ui/login?next=/ui/login": "/ui/",
	} {
		response, _ := b.post("/ui/login", url.Values{"token": {" " + cloud.Token + "\n"}, "next": {next}})
		if got := response.Header.Get("Location"); got != want {
			t.Errorf("login that leads to %q: to %q, want %q", next, got, want)
		}
		for _, c := range response.Cookies() {
			if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/ui/" || c.Secure || strings.Contains(c.Value, cloud.Token) {
				t.Errorf("cookie: %s", c)
			}
		}
	}
	b.get("/ui/", http.StatusOK)
	if response, _ := b.send(b.request(http.MethodGet, "/ui/login?next=/ui/jobs", nil)); response.Header.Get("Location") != "/ui/jobs" {
		t.Errorf("a second login: %s to %q", response.Status, response.Header.Get("Location"))
	}
	b.post("/ui/logout", nil)
	b.get("/ui/", http.StatusSeeOther)
}

// TestForgedSessions: only what the server has encrypted is a session.
func TestForgedSessions(t *testing.T) {
	endpoint := showcase.Start(t).Endpoint
	b := newBrowser(t, endpoint)
	b.login()
	u, err := url.Parse(endpoint + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	own := b.client.Jar.Cookies(u)[0].Value
	flipped := []byte(own)
	flipped[len(flipped)/2] ^= 1
	for _, value := range []string{"", "x", cloud.Token, string(flipped), own + "A", "99999999999%20" + cloud.Token} {
		stranger := newBrowser(t, endpoint)
		r := stranger.request(http.MethodGet, "/ui/", nil)
		r.Header.Set("Cookie", "mycloud-page="+value)
		if response, _ := stranger.send(r); response.StatusCode != http.StatusSeeOther {
			t.Errorf("session %q: %s", value, response.Status)
		}
	}
}

// TestOtherSites: no other site can log a browser in or out.
func TestOtherSites(t *testing.T) {
	b := newBrowser(t, showcase.Start(t).Endpoint)
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		for _, path := range []string{"/ui/login", "/ui/logout"} {
			if response, _ := b.post(path, url.Values{"token": {cloud.Token}}, headers...); response.StatusCode != http.StatusForbidden || len(response.Cookies()) > 0 {
				t.Errorf("POST %s with %v: %s", path, headers, response.Status)
			}
		}
	}
}

// TestGuesses: after some failed attempts, further ones from the same address are not even looked at.
func TestGuesses(t *testing.T) {
	b := newBrowser(t, showcase.Start(t).Endpoint)
	statuses, begin := map[int]int{}, time.Now()
	for range 20 {
		response, _ := b.post("/ui/login", url.Values{"token": {"guess"}})
		statuses[response.StatusCode]++
	}
	most := 11 + int(time.Since(begin)/(6*time.Second))
	if n := statuses[http.StatusForbidden]; n < 10 || n > most || n+statuses[http.StatusTooManyRequests] != 20 {
		t.Errorf("answers to 20 guesses: %v", statuses)
	}
	response, _ := b.post("/ui/login", url.Values{"token": {cloud.Token}})
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
		t.Errorf("after them: %s", response.Status)
	}
}

// TestReadOnly: no method but GET reaches a page.
func TestReadOnly(t *testing.T) {
	b := newBrowser(t, showcase.Start(t).Endpoint)
	b.login()
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		for _, path := range []string{"/ui/", "/ui/load-balancers", "/ui/series", "/ui/assets/x"} {
			if response, _ := b.send(b.request(method, path, nil)); response.StatusCode < 400 {
				t.Errorf("%s %s: %s", method, path, response.Status)
			}
		}
	}
}

// pages returns the paths of all pages.
func pages(s *showcase.Showcase) []string {
	all := []string{
		"/ui/", "/ui/?range=24h", "/ui/load-balancers", "/ui/load-balancers?show=problems", "/ui/edges", "/ui/edges/" + s.EdgeID, "/ui/jobs",
		"/ui/certificates", "/ui/search", "/ui/login", "/ui/search?q=" + url.QueryEscape(`"><script>alert(1)</script>`),
		"/ui/load-balancers?show=%3Cb%3E&page=-1&q=" + url.QueryEscape(`"><script>alert(1)</script>`),
	}
	for _, id := range s.Names {
		all = append(all, "/ui/load-balancers/"+id)
	}
	return all
}

// reversed is a character that changes the direction of the text after it.
const reversed = "\u202e"

// unsafe returns what a browser would run or load from elsewhere: what no template has, so that a name must have become it.
func unsafe(body string) (found []string) {
	for z := html.NewTokenizer(strings.NewReader(body)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return found
		}
		token := z.Token()
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		source := ""
		for _, a := range token.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
				found = append(found, token.String())
			case a.Key == "src":
				source = a.Val
				fallthrough
			case a.Key == "href", a.Key == "action":
				if !strings.HasPrefix(a.Val, "/ui/") && !strings.HasPrefix(a.Val, "#") {
					found = append(found, token.String())
				}
			}
		}
		if token.Data == "script" && source == "" || token.Data == "style" || token.Data == "iframe" || token.Data == "base" {
			found = append(found, token.String())
		}
	}
}

// TestHostileNames: names are text, whatever they contain.
func TestHostileNames(t *testing.T) {
	s := showcase.Start(t)
	s.Beat(t, map[string]uint64{"shop": 1})
	b := newBrowser(t, s.Endpoint)
	for _, logged := range []bool{false, true} {
		if logged {
			b.login()
		}
		for _, path := range append(pages(s), "/ui/nothing/%3Cscript%3Ealert(1)%3C/script%3E", "/ui/load-balancers/%3Cscript%3E") {
			response, body := b.send(b.request(http.MethodGet, path, nil))
			if found := unsafe(body); len(found) > 0 && response.StatusCode != http.StatusSeeOther {
				t.Errorf("%s contains %q", path, found)
			}
			if strings.Contains(body, reversed) {
				t.Errorf("%s contains a mark that reverses text", path)
			}
		}
	}
	if got := unsafe(showcase.Hostile[0] + `<p style="x"><a href="javascript:x">`); len(got) != 3 {
		t.Errorf("the test finds only %q", got)
	}
	list := b.get("/ui/load-balancers", http.StatusOK)
	for _, want := range []string{
		"&lt;script&gt;alert(&#34;name&#34;)&lt;/script&gt;", "&#34;&gt;&lt;img src=x onerror=alert(1)&gt;", "&#39; onmouseover=&#39;alert(1)",
		`shop\u202etnemyap`, "{{.Cloud}} ${1} javascript:alert(1)",
	} {
		if !strings.Contains(list, want) {
			t.Errorf("the list does not show %s", want)
		}
	}
}

func TestHeaders(t *testing.T) {
	b := newBrowser(t, showcase.Start(t).Endpoint)
	b.login()
	body := b.get("/ui/", http.StatusOK)
	asset := regexp.MustCompile(`/ui/assets/[^"]*page\.js`).FindString(body)
	for path, cache := range map[string]string{"/ui/": "no-store", "/ui/login": "no-store", "/ui/series": "no-store", asset: "public, max-age=31536000, immutable"} {
		response, _ := b.send(b.request(http.MethodGet, path, nil))
		h := response.Header
		csp := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") || strings.Contains(csp, "*") ||
			!strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy: %s", path, csp)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": cache,
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", path, name, got, want)
			}
		}
	}
	b.get("/ui/assets/", http.StatusNotFound)
	b.get("/ui/assets/000000000000/page.js", http.StatusNotFound)
}

// has fails the test unless a page has texts.
func has(t *testing.T, what, body string, texts ...string) {
	t.Helper()
	plain := regexp.MustCompile(`\s+`).ReplaceAllString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, " "), " ")
	for _, want := range texts {
		if !strings.Contains(plain, want) {
			t.Errorf("%s does not have %q: %s", what, want, plain)
		}
	}
}

// TestPages: each page shows what it is for.
func TestPages(t *testing.T) {
	s := showcase.Start(t)
	s.Beat(t, nil)
	b := newBrowser(t, s.Endpoint)
	b.login()
	has(t, "the overview", b.get("/ui/", http.StatusOK), "Load balancers 11", "with problems", "Edges 1", "1 online", "1 ends within 30 days",
		"shop-example-com ends in 8 days", "payments 1 member offline", "empty it has no members", "203.0.113.0/24 public 11")
	has(t, "the list", b.get("/ui/load-balancers", http.StatusOK), "payments degraded 1 member offline", "tcp/80, tcp/443", "tcp/80, tcp/443", "1–11 of 11")
	has(t, "problems", b.get("/ui/load-balancers?show=problems", http.StatusOK), "payments", "1–3 of 3")
	has(t, "a search in the list", b.get("/ui/load-balancers?q=PAY+tcp/80", http.StatusOK), "payments", "1–1 of 1")
	has(t, "a load balancer", b.get("/ui/load-balancers/"+s.Names["shop"], http.StatusOK), "shop online active", "tcp/443 https", "5\u202f000/s 1 client range",
		"node group ingress", "node-3 online 10.0.0.13:30080", "edge-1 applied 203.0.113.", "shop-example-com shop.example.com; ends in 8 days", "team shop")
	has(t, "a load balancer with a problem", b.get("/ui/load-balancers/"+s.Names["payments"], http.StatusOK), "node-3 offline connection refused")
	has(t, "a load balancer that is not announced", b.get("/ui/load-balancers/"+s.Names["mail"], http.StatusOK), "edge-1 applied nothing")
	has(t, "the edges", b.get("/ui/edges", http.StatusOK), "edge-1 active up to date 10 of 11 addresses 1")
	has(t, "the edge", b.get("/ui/edges/"+s.EdgeID, http.StatusOK), "10.0.0.101", "direct, proxy", "tcp/443 certificate &lt;script&gt;", "Does not announce 203.0.113.4 mail")
	has(t, "the certificates", b.get("/ui/certificates", http.StatusOK), "shop-example-com in 8 days", "2026", "shop")
	has(t, "a search", b.get("/ui/search?q=example.com", http.StatusOK), "2 found", "Certificate shop-example-com")
	has(t, "a search for an edge", b.get("/ui/search?q=10.0.0.101", http.StatusOK), "1 found", "Edge edge-1")
	has(t, "jobs", b.get("/ui/jobs", http.StatusOK), "There is no such job")
	has(t, "a page that does not exist", b.get("/ui/load-balancers/lb-none", http.StatusNotFound), "There is no such load balancer")

	job := s.Fail(t)
	has(t, "failed jobs", b.get("/ui/jobs?state=failed", http.StatusOK), "load-balancer.create failed broken", "1–1 of 1")
	has(t, "the job", b.get("/ui/jobs/"+job, http.StatusOK), "load-balancer.create", "capacity", "Ended")
	has(t, "the overview", b.get("/ui/", http.StatusOK), "1 failed in the last hour", "broken the last change failed", "load-balancer.create failed now: capacity")

	// The edge does not know of that change.
	has(t, "an edge that is behind", b.get("/ui/edges", http.StatusOK), "edge-1 active 1 change, since")
}

// TestSeries: the traffic of a load balancer, and of all, as a script reads it.
func TestSeries(t *testing.T) {
	s := showcase.Start(t)
	b := newBrowser(t, s.Endpoint)
	b.login()
	s.Beat(t, nil)
	for _, path := range []string{"/ui/series", "/ui/series?range=24h", "/ui/series?id=" + s.Names["shop"], "/ui/series?id=lb-none"} {
		var got struct {
			Begin, End, Step int64
			Accepted         []float64
		}
		if err := json.Unmarshal([]byte(b.get(path, http.StatusOK)), &got); err != nil {
			t.Fatal(err)
		}
		want := int64(900)
		if strings.Contains(path, "24h") {
			want = 24 * 3600
		}
		if got.End-got.Begin != want || got.Step == 0 || got.Accepted == nil {
			t.Errorf("%s: %+v", path, got)
		}
	}
}
