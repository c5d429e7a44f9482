package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/net/html"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/report"
)

func found(id string, severity finding.Severity) report.Finding {
	return report.Finding{
		ID: id, Severity: severity, Path: "spec.x", Message: "must be 5 %\nand\x1b[31m not: 6", Remedy: "write 5",
		Line: 3, Column: 7,
	}
}

func results() []report.Result {
	return []report.Result{
		{File: "a,b/c:d é.yaml", Line: 1, Object: report.Object{Kind: "Service", Namespace: "shop", Name: "web"},
			Findings: []report.Finding{
				found("known", finding.Error), found("unknown", finding.Warning),
			}},
		{File: "/src/in/e.yaml", Line: 1, Object: report.Object{Kind: "ClusterLoadBalancerPolicy", Name: "all"},
			Findings: []report.Finding{found("known", finding.Error)}},
		{File: "/out/f.yaml", Line: 1, Object: report.Object{Kind: "Service", Name: "x"},
			Findings: []report.Finding{found("known", finding.Error)}},
		{Object: report.Object{Kind: "Service", Namespace: "live", Name: "y"},
			Findings: []report.Finding{found("known", finding.Error)}},
	}
}

func TestSARIF(t *testing.T) {
	var out bytes.Buffer
	tool := report.Tool{Version: "v1", Root: "/src", Rule: func(id string) (report.Rule, bool) {
		return report.Rule{Doc: finding.Doc{ID: id, Severity: finding.Error, Help: "h"},
			Page: "docs/page.md#" + id}, id != "unknown"
	}}
	if err := report.SARIF(&out, results(), tool); err != nil {
		t.Fatal(err)
	}
	validate(t, out.Bytes())

	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct {
					Rules []struct{ ID, HelpURI string }
				}
			}
			LogicalLocations []struct{ FullyQualifiedName string }
			Results          []struct {
				RuleID    string
				RuleIndex *int
				Locations []struct {
					PhysicalLocation *struct {
						ArtifactLocation struct{ URI, URIBaseID string }
						Region           struct{ StartLine, StartColumn int }
					}
					LogicalLocations []struct{ Index int }
				}
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	// Only the rule that occurs and is documented is listed, once.
	if listed := log.Runs[0].Tool.Driver.Rules; len(listed) != 1 ||
		listed[0].HelpURI != "https://quaymaster.dev/docs/page.html#known" {
		t.Errorf("rules: %+v", listed)
	}
	var places []string
	for _, r := range log.Runs[0].Results {
		if known := r.RuleIndex != nil && *r.RuleIndex == 0; known != (r.RuleID == "known") {
			t.Errorf("%s has index %v", r.RuleID, r.RuleIndex)
		}
		place := log.Runs[0].LogicalLocations[r.Locations[0].LogicalLocations[0].Index].FullyQualifiedName
		if at := r.Locations[0].PhysicalLocation; at != nil {
			place += " " + at.ArtifactLocation.URI + " " + at.ArtifactLocation.URIBaseID
			if at.Region.StartLine != 3 || at.Region.StartColumn != 7 {
				t.Errorf("%+v", at.Region)
			}
		}
		places = append(places, place)
	}
	want := []string{
		"shop/Service/web a,b/c:d%20%C3%A9.yaml %SRCROOT%", "shop/Service/web a,b/c:d%20%C3%A9.yaml %SRCROOT%",
		"ClusterLoadBalancerPolicy/all in/e.yaml %SRCROOT%", "Service/x file:///out/f.yaml ", "live/Service/y",
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestSARIFOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := report.SARIF(&out, nil, report.Tool{}); err != nil {
		t.Fatal(err)
	}
	validate(t, out.Bytes())
}

// Suppressed findings are only listed if that is wanted; suppressions are then stated for every result.
func TestSARIFOfSuppressed(t *testing.T) {
	known := results()
	dropped := found("known", finding.Error)
	dropped.Suppression = &report.Suppression{Kind: report.InSource, Justification: "the controller is newer"}
	known[1].Suppressed = []report.Finding{dropped}
	var out bytes.Buffer
	tool := report.Tool{Rule: func(string) (report.Rule, bool) { return report.Rule{}, false }}
	if err := report.SARIF(&out, known, tool); err != nil {
		t.Fatal(err)
	}
	validate(t, out.Bytes())
	if text := out.String(); strings.Contains(text, "suppressions") || strings.Count(text, `"ruleId"`) != 5 {
		t.Errorf("suppressed results are listed\n%s", text)
	}
	out.Reset()
	tool.Suppressed = true
	if err := report.SARIF(&out, known, tool); err != nil {
		t.Fatal(err)
	}
	validate(t, out.Bytes())
	if empty, full := strings.Count(out.String(), `"suppressions":[]`), strings.Count(out.String(),
		`"suppressions":[{"kind":"inSource","status":"accepted","justification":"the controller is newer"}]`); empty != 5 || full != 1 {
		t.Errorf("%d results count and %d do not\n%s", empty, full, out.String())
	}
}

// A thousand manifests with many mistakes are fewer than the 25,000 results and the 10 MB that code hosts accept. What is
// left out are warnings.
func TestSARIFIsLimited(t *testing.T) {
	var many []report.Result
	for range 1000 {
		r := results()[0]
		for range 15 {
			r.Findings = append(r.Findings, r.Findings[:2]...)
		}
		many = append(many, r)
	}
	var out bytes.Buffer
	if err := report.SARIF(&out, many, report.Tool{Rule: func(string) (report.Rule, bool) { return report.Rule{}, false }}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "fullyQualifiedName") != 1 {
		t.Error("an object is listed more than once")
	}
	text := out.String()
	errs, warnings := strings.Count(text, `"level":"error"`), strings.Count(text, `"ruleId":"unknown"`)
	if errs != 16000 || warnings != 4000 || !strings.Contains(text, "12000 more findings are not listed") || out.Len() > 10_000_000 {
		t.Errorf("%d errors and %d warnings in %d bytes", errs, warnings, out.Len())
	}
}

// validate validates a document with the official schema.
func validate(t *testing.T, document []byte) {
	t.Helper()
	schema, err := os.Open("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	defer schema.Close()
	parsed, err := jsonschema.UnmarshalJSON(schema)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("sarif.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(value); err != nil {
		t.Errorf("%v\n%s", err, document)
	}
}

func TestGitHubEscapes(t *testing.T) {
	var out bytes.Buffer
	if err := report.GitHub(&out, results()[:1]); err != nil {
		t.Fatal(err)
	}
	const want = "::error file=a%2Cb/c%3Ad é.yaml,line=3,col=7,title=known::spec.x: must be 5 %25 and\\u001b[31m not: 6; " +
		"write 5\n"
	if got, _, _ := strings.Cut(out.String(), "::warning"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An empty list is not null, and findings of severity Audit are not shown.
func TestJSON(t *testing.T) {
	var out bytes.Buffer
	clean := report.Result{File: "f", Line: 1,
		Findings: report.Findings([]finding.Finding{{ID: "x", Severity: finding.Audit}})}
	if err := report.JSON(&out, []report.Result{clean}); err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, out.Bytes()); err != nil {
		t.Fatal(err)
	}
	const want = `{"results":[{"file":"f","line":1,"object":{"kind":"","namespace":"","name":""},"findings":[]}]}`
	if got := compact.String(); got != want {
		t.Errorf("got %s", got)
	}
}

func TestFindingsNameListeners(t *testing.T) {
	got := report.Findings([]finding.Finding{{ID: "x", Catalog: "c", Severity: finding.Error, Field: "p", Value: "v",
		Message: "m", Remedy: "r", Listeners: []string{"tcp/80", "udp/53"}}})
	want := []report.Finding{{ID: "x", Catalog: "c", Severity: finding.Error, Path: "p", Value: "v",
		Message: "m (tcp/80, udp/53)", Remedy: "r"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	service := func(findings ...report.Finding) report.Result {
		return report.Result{Object: report.Object{Kind: "Service"}, Findings: findings}
	}
	bad, doubtful := found("x", finding.Error), found("x", finding.Warning)
	services := func(n int) report.Counts { return report.Counts{Checked: map[string]int{"Service": n}} }
	with := func(c report.Counts, more report.Counts) report.Counts { c.Add(more); return c }
	wrong := report.Result{Object: report.Object{Kind: "service"}, Findings: []report.Finding{bad}}
	for want, tc := range map[string]struct {
		results []report.Result
		counts  report.Counts
	}{
		"nothing to check":                         {},
		"no problems in 1 Service":                 {counts: services(1)},
		"1 warning in 1 of 2 Services":             {[]report.Result{service(), service(doubtful)}, services(2)},
		"2 errors in 2 of 2 Services":              {[]report.Result{service(bad), service(bad)}, services(2)},
		"2 errors and 1 warning in 1 of 1 Service": {[]report.Result{service(bad, bad, doubtful)}, services(1)},
		"1 error in 1 of 3 objects (2 Services, 1 LoadBalancerPolicy)": {
			[]report.Result{service(bad)}, with(services(2), report.Counts{Checked: map[string]int{"LoadBalancerPolicy": 1}}),
		},
		"nothing to check; skipped 2 Elasticsearches, 2 Gateways, 2 NetworkPolicies, 2 other Services, 1 Ingress": {
			counts: report.Counts{Skipped: map[string]int{
				"Ingress": 1, "NetworkPolicy": 2, "other Service": 2, "Gateway": 2, "Elasticsearch": 2,
			}},
		},
		"1 error in 1 of 2 objects; 2 documents of unknown kind; 1 part of the input could not be read": {
			[]report.Result{wrong}, with(services(1), report.Counts{Unknown: 2, Unreadable: 1}),
		},
	} {
		if got := report.Summary(tc.results, tc.counts); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// On a terminal, lines are broken between words and begin with the place.
func TestTextFitsTerminals(t *testing.T) {
	var out bytes.Buffer
	f := report.Finding{ID: "x-id", Severity: finding.Error, Path: "spec.x", Message: strings.Repeat("word ", 30), Line: 1, Column: 2}
	if err := report.Text(&out, []report.Result{{File: "f.yaml", Findings: []report.Finding{f}}}, false, 80); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !strings.HasPrefix(lines[0], "f.yaml:1:2: error: spec.x: word") || !strings.HasSuffix(out.String(), "word [x-id]\n") {
		t.Errorf("got\n%s", out.String())
	}
	for _, line := range lines {
		if len(line) > 80 || strings.HasSuffix(line, "wor") {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}

// A terminal neither obeys nor hides characters of a manifest, and the mark stays below its text.
func TestTextIsVisible(t *testing.T) {
	const reversed = "\u202egnp\u202c"
	f := report.Finding{
		ID: "x-id", Severity: finding.Error, Path: "metadata.annotations[" + reversed + "]", Message: "must\nbe\x1b[2J 5",
		Excerpt: report.Excerpt{Text: "\t" + reversed + ": x", Mark: 2, Width: 5},
	}
	all := []report.Result{{
		File: "f.yaml", Object: report.Object{Kind: "Service", Name: reversed}, Findings: []report.Finding{f},
		Defaults: []report.Default{{Key: "k", Value: "v"}},
	}}
	var text, table bytes.Buffer
	if err := errors.Join(report.Text(&text, all, true, 0), report.Table(&table, all)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`metadata.annotations[\u202egnp\u202c]: must be\u001b[2J 5`, "\n    \t\\u202egnp\\u202c: x\n    \t\x1b[1;31m^" +
			strings.Repeat("~", 14) + "\x1b[0m\n", `admission adds to Service \u202egnp\u202c:`,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text does not contain %q:\n%q", want, text.String())
		}
	}
	if !strings.Contains(table.String(), `Service \u202egnp\u202c `) || strings.ContainsAny(table.String(), "\u202e\x1b") {
		t.Errorf("the table is %q", table.String())
	}
}

// hostile has what a browser must not take for anything but text.
const hostile = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e{{script}}{{policy}}"

// TestHTML: the page needs nothing else, its policy lets its own script and style run and nothing more, and everything of
// users is text.
func TestHTML(t *testing.T) {
	all := results()
	all[0].File, all[0].Object.Name = hostile, hostile
	all[0].Defaults = []report.Default{{Key: hostile, Value: hostile, Policy: hostile}}
	all[0].Findings = append(all[0].Findings, report.Finding{
		ID: hostile, Severity: finding.Warning, Path: hostile, Value: hostile, Message: hostile, Remedy: hostile, Line: 1,
		Excerpt: report.Excerpt{Text: "\t" + hostile, Mark: 2, Width: 5},
	})
	var out bytes.Buffer
	err := report.HTML(&out, all, hostile, hostile, report.Tool{Version: hostile, Rule: func(id string) (report.Rule, bool) {
		return report.Rule{Doc: finding.Doc{ID: id, Help: hostile}, Page: "docs/page.md#x"}, id != "unknown"
	}})
	if err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if strings.Contains(page, "\u202e") {
		t.Error("the page has a mark that reverses text")
	}
	tags, policy := map[string]int{}, ""
	inside := map[string]string{}
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		token := z.Token()
		if token.Type != html.StartTagToken {
			continue
		}
		tags[token.Data]++
		for _, a := range token.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "src", a.Key == "action":
				t.Errorf("the page has %s", token)
			case a.Key == "href" && !strings.HasPrefix(a.Val, "#") && a.Val != "https://quaymaster.dev/docs/page.html#x":
				t.Errorf("the page refers to %s", a.Val)
			case a.Key == "content" && strings.HasPrefix(a.Val, "default-src"):
				policy = a.Val
			}
		}
		if token.Data == "script" || token.Data == "style" {
			z.Next()
			sum := sha256.Sum256(z.Raw())
			inside[token.Data] = token.Data + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
	}
	if tags["script"] != 1 || tags["style"] != 1 || tags["img"] != 0 || tags["link"] != 0 {
		t.Errorf("tags: %v", tags)
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, inside["script"]) || !strings.Contains(policy, inside["style"]) {
		t.Errorf("policy %q does not have %v", policy, inside)
	}
	if got := strings.Count(page, `class="finding `); got != 6 {
		t.Errorf("%d findings, want 6", got)
	}
	for _, want := range []string{"Remedy: write 5", "must be 5 % and\\u001b[31m not: 6", "ClusterLoadBalancerPolicy all", "It is not described."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}

	out.Reset()
	if err := report.HTML(&out, nil, "Findings", "no problems in 3 Services", report.Tool{}); err != nil || !strings.Contains(out.String(), "There are no findings.") {
		t.Errorf("without findings: %v %s", err, out.String())
	}
}
