package tenants_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/test/adversarial"
	"quaymaster.dev/test/builder"
)

// stranger calls the webhooks directly, as any pod may.
type stranger struct {
	s      *stage
	client *http.Client
}

func (s *stage) stranger() *stranger {
	return &stranger{s: s, client: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: s.target("").TLS},
	}}
}

// ask sends a body and returns the status; 0 if the connection was closed.
func (c *stranger) ask(path, query string, body io.Reader) int {
	request, err := http.NewRequestWithContext(c.s.Context(), http.MethodPost, "https://"+c.s.webhook.Address+path+query, body)
	if err != nil {
		c.s.Fatal(err)
	}
	request.Header.Set("Content-Type", plainJSON)
	response, err := c.client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// reviewOf returns an AdmissionReview for the creation, or with an old object for the update, of an object in JSON.
func reviewOf(resource, object, oldObject string) string {
	operation := "CREATE"
	if oldObject == "" {
		oldObject = "null"
	} else {
		operation = "UPDATE"
	}
	kind := map[string]string{
		"services": "Service", "persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumes": "PersistentVolume",
	}[resource]
	return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"0df28fbd-5f5f-11e8-bc74-36e6bb280816",`+
		`"kind":{"group":"","version":"v1","kind":%q},"resource":{"group":"","version":"v1","resource":%q},`+
		`"name":"x","namespace":"x","operation":%q,"userInfo":{"username":"u"},"object":%s,"oldObject":%s,"dryRun":false,"options":null}}`,
		kind, resource, operation, object, oldObject)
}

// sendQuantities sends volumes and claims with quantities that take long to parse.
func sendQuantities(s *stage) {
	c := s.stranger()
	digits := strings.Repeat("9", 90)
	quantities := []string{
		// White space of Unicode, which the parser of quantities cuts off, as it is and escaped.
		"\"1e-30000000\u00a0\"", "\"" + digits + "e-30000000\u00a0\"", "\"\u00a0" + digits + "e-30000000\"", "\"\u00a01e-30000000\"",
		"\"1e-30000000\u0085\"", "\"1e-30000000\u1680\"", "\"1e-30000000\u2003\"", "\"1e-30000000\u2028\"", "\"1e-30000000\u3000\"",
		"\"1e-30000000\u200b\"", "\"1e-30000000\x0b\"", "\"\f1e-30000000\f\"", "\"\u20281e-30000000\u2029\"",
		`"1e-30000000"`, `" 1e-30000000"`, `"\u00a01e-30000000"`, `"1e-30000000\u00a0"`, `"\u20281e-30000000"`, `"\u30001e-30000000"`,
		`"\u000b1e-30000000"`, `"\u00851e-30000000"`, `"\ufeff1e-30000000"`, `1e-30000000`, `1E-30000000`, `"1E-3000000"`, `"+1e-30000000"`,
		`"1e30000000"`, `"1e+999999999"`, `"1e-999999999"`, `"0.` + strings.Repeat("0", 1<<20) + `1"`, `"` + strings.Repeat("9", 1<<20) + `"`,
		strings.Repeat("9", 1<<20), `"` + strings.Repeat("\\u0039", 100_000) + `"`, `"1\u0065-30000000"`, `"\u0031e-30000000"`, `"1e\u002d30000000"`,
		`"` + strings.Repeat("9", 99) + `e-30000000"`, `"1e-2147483649"`, `"1.` + strings.Repeat("9", 98) + `e-3000000"`, `"1e-0030000000"`,
		`"1e-30000000` + strings.Repeat(" ", 1000) + `"`,
	}
	claim := func(quantity string) string {
		return fmt.Sprintf(`{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"x","namespace":"x"},`+
			`"spec":{"storageClassName":"ssd","volumeName":"x","resources":{"requests":{"storage":%s},"limits":{"storage":%[1]s}}},`+
			`"status":{"phase":"Bound","capacity":{"storage":%[1]s},"allocatedResources":{"storage":%[1]s}}}`, quantity)
	}
	volume := func(quantity string) string {
		return fmt.Sprintf(`{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"x"},"spec":{"capacity":{"storage":%s},`+
			`"csi":{"driver":"csi.mycloud.io","volumeHandle":"vol-data-1"},"storageClassName":"ssd"}}`, quantity)
	}
	for _, q := range quantities {
		for path, body := range map[string]string{
			"/validate-persistentvolumeclaim": reviewOf("persistentvolumeclaims", claim(q), claim(`"1Gi"`)),
			"/mutate-persistentvolumeclaim":   reviewOf("persistentvolumeclaims", claim(q), ""),
			"/mutate-persistentvolume":        reviewOf("persistentvolumes", volume(q), volume(q)),
		} {
			s.cost(path+" with "+short(q), func() int {
				c.ask(path, "?timeout=3s", strings.NewReader(body))
				return 1
			})
			if s.worst > 10*requestLimit {
				// The rest would take minutes.
				return
			}
		}
	}
	// Those that the API server itself parses fast.
	for _, q := range []string{"\u00a01Gi", strings.Repeat("9", 10_000), "1e-999", "1\u2028Gi"} {
		pvc := builder.PersistentVolumeClaim()
		pvc.Namespace, pvc.UID, pvc.Name, pvc.Status = "", "", "quantity", corev1.PersistentVolumeClaimStatus{}
		body := strings.Replace(string(encode(pvc)), `"20Gi"`, string(bytes.TrimSpace(encode(q))), 1)
		s.cost("a claim of "+short(q), func() int {
			s.attacker.send(s.Context(), http.MethodPost, claimsOf(s.namespace)+"?dryRun=All", plainJSON, []byte(body))
			return 1
		})
	}
}

// nested returns a JSON text of nested arrays or objects.
func nested(depth int, open, end string) string {
	return strings.Repeat(open, depth) + "1" + strings.Repeat(end, depth)
}

// endless is a body without end.
type endless struct {
	text string
	left int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text)
	}
	e.left -= n
	return n, nil
}

// sendReviews sends bodies to the webhooks that no API server sends.
func sendReviews(s *stage) {
	c := s.stranger()
	svc := func(metadata, spec string) string {
		return fmt.Sprintf(`{"kind":"Service","apiVersion":"v1","metadata":{"name":"x","namespace":"x"%s},"spec":{"type":"LoadBalancer",`+
			`"ports":[{"name":"web","port":80,"protocol":"TCP","targetPort":80}]%s}}`, metadata, spec)
	}
	create := func(metadata, spec string) string { return reviewOf("services", svc(metadata, spec), "") }
	many := func(n int, format string) string {
		var text strings.Builder
		for i := range n {
			if i > 0 {
				text.WriteByte(',')
			}
			fmt.Fprintf(&text, format, i)
		}
		return text.String()
	}
	bodies := map[string]string{
		"arrays nested 9,000 deep":               create(`,"x":`+nested(9_000, "[", "]"), ""),
		"arrays nested a million deep":           create(`,"x":`+nested(1_000_000, "[", "]"), ""),
		"objects nested 300,000 deep":            create(`,"managedFields":[{"fieldsV1":`+nested(300_000, `{"f:a":`, "}")+`}]`, ""),
		"arrays nested a million deep, unclosed": create(`,"x":`+strings.Repeat("[", 1_000_000), ""),
		"a million duplicate keys":               create(`,"annotations":{`+many(1_000_000, `"a":"%d"`)+`}`, ""),
		"200,000 annotations":                    create(`,"annotations":{`+many(200_000, `"a%d":""`)+`}`, ""),
		"100,000 annotations of the DLB":         create(`,"annotations":{`+many(100_000, `"`+dlb+`x%d":""`)+`}`, ""),
		"200,000 labels":                         create(`,"labels":{`+many(200_000, `"a%d":""`)+`}`, ""),
		"500,000 unknown fields":                 create(","+many(500_000, `"u%d":0`), ""),
		"500,000 unknown fields that collide":    create(","+many(500_000, `"name%d":0`), ""),
		"200,000 ports":                          create("", `,"ports":[`+many(200_000, `{"port":%d}`)+`]`),
		"duplicate ports":                        create("", strings.Repeat(`,"ports":[]`, 300_000)),
		"500,000 source ranges":                  create("", `,"loadBalancerSourceRanges":[`+many(500_000, `"10.0.0.%d/32"`)+`]`),
		"a long number":                          create("", `,"healthCheckNodePort":`+strings.Repeat("9", 4<<20)),
		"a small number":                         create("", `,"healthCheckNodePort":1e-30000000`),
		"a string of escapes":                    create(`,"annotations":{"`+dlb+`tags":"`+strings.Repeat(`\u003c`, 1<<20)+`"}`, ""),
		"lone surrogates":                        create(`,"annotations":{"`+dlb+`tags":"`+strings.Repeat(`\ud800`, 1<<19)+`"}`, ""),
		"invalid UTF-8":                          create(`,"annotations":{"`+dlb+`tags":"`+strings.Repeat("\xff", 4<<20)+`"}`, ""),
		"a long uid":                             strings.Replace(create("", ""), "0df28fbd", strings.Repeat("0", 4<<20), 1),
		"a long user name":                       strings.Replace(create("", ""), `"username":"u"`, `"username":"`+strings.Repeat("u", 4<<20)+`"`, 1),
		"a long operation":                       strings.Replace(create("", ""), `"CREATE"`, `"`+strings.Repeat("C", 4<<20)+`"`, 1),
		"200,000 groups":                         strings.Replace(create("", ""), `"username":"u"`, `"username":"u","groups":[`+many(200_000, `"g%d"`)+`]`, 1),
		"two requests":                           strings.Replace(create("", ""), `"request":`, `"request":{"uid":"a"},"request":`, 1),
		"4 MiB of white space":                   strings.Replace(create("", ""), `"object":`, `"object":`+strings.Repeat(" ", 4<<20), 1),
		"4 MiB after the end":                    create("", "") + strings.Repeat(" ", 4<<20),
		"a second review after the end":          create("", "") + create("", ""),
		"a key of 4 MiB":                         create(`,"annotations":{"`+dlb+strings.Repeat("k", 4<<20)+`":""}`, ""),
		"16 MiB of escapes in two objects":       reviewOf("services", svc(`,"managedFields":[{"manager":"`+strings.Repeat(`\u003c`, 4<<20/3)+`"}]`, ""), svc(`,"managedFields":[{"manager":"`+strings.Repeat(`\u003c`, 4<<20/3)+`"}]`, "")),
		"100,000 conditions":                     strings.Replace(create("", ""), `"spec":`, `"status":{"conditions":[`+many(100_000, `{"type":"t%d"}`)+`]},"spec":`, 1),
		"200,000 managers":                       create(`,"managedFields":[`+many(200_000, `{"manager":"m%d"}`)+`]`, ""),
		"not JSON":                               strings.Repeat("{", 4<<20),
		"an array":                               `[` + many(1_000_000, `%d`) + `]`,
		"types that do not fit":                  create(`,"annotations":[`+many(300_000, `%d`)+`]`, ""),
		"a class of 4 MiB":                       create("", `,"loadBalancerClass":"`+strings.Repeat("c", 4<<20)+`"`),
	}
	for _, o := range adversarial.Objects() {
		bodies["a Service with "+o.Name] = string(adversarial.Review(o.Service))
	}
	for what, body := range bodies {
		for _, path := range []string{"/validate-service", "/mutate-service"}[:size(1, 2)] {
			s.cost(path+" with "+what, func() int {
				c.ask(path, "?timeout=3s", strings.NewReader(body))
				return 1
			})
		}
	}
	for _, query := range []string{"", "?timeout=24h", "?timeout=-1s", "?timeout=1ns", "?timeout=" + strings.Repeat("9", 8000) + "s", "?" + strings.Repeat("a=b&", 2000)} {
		s.cost("the query "+short(query), func() int {
			c.ask("/validate-service", query, strings.NewReader(create("", "")))
			return 1
		})
	}
	s.cost("a body without end", func() int {
		for _, text := range []string{" ", `{"request":`, `{"a":"` + strings.Repeat("b", 1<<10)} {
			c.ask("/validate-service", "?timeout=3s", &endless{text, 64 << 20})
		}
		return 3
	})
	small, invalid := create("", ""), create(`,"annotations":{"`+dlb+`scheduler":"fastest"}`, "")
	if code := c.ask("/validate-service", "?timeout=3s", strings.NewReader(small)); code != http.StatusOK {
		s.Logf("a valid review of a stranger: status %d", code)
	}
	s.during(4, duration(2*time.Second, 10*time.Second), func(worker, i int) {
		// In the order of a map, which is random.
		for _, body := range bodies {
			c.ask("/validate-service", "?timeout=3s", strings.NewReader(body))
			c.ask("/mutate-service", "?timeout=3s", strings.NewReader(invalid))
			break
		}
	})
}

// denyLoudly causes denials that name strings of the attacker.
func denyLoudly(s *stage) {
	const (
		denials = 20
		// mostLogged is enough for all that an operator needs to know about one denial.
		mostLogged = 4 << 10
	)
	long := strings.Repeat("n", 500<<10)
	nameless := service("x", mistake)
	nameless.Name, nameless.GenerateName = "", long
	keyed := service("keyed", mistake, builder.DLB(strings.Repeat("k", 500<<10), "1"))
	valued := service("valued", builder.DLB("scheduler", long))
	quoted := service("quoted", builder.DLB("scheduler", strings.Repeat("\x00\x1b\"<\n", 50<<10)))
	several := service("several")
	for i := range 2_000 {
		builder.DLB(fmt.Sprintf("unknown-%d", i), strings.Repeat("u", 50))(several)
	}
	impersonate := func(name string) []header {
		return []header{{"Impersonate-User", name}, {"Impersonate-Group", "developers"}}
	}
	for _, try := range []struct {
		what    string
		body    any
		headers []header
	}{
		{"a long user name", service("x", mistake), impersonate(strings.Repeat("u", 60<<10))},
		{"a very long user name", service("x", mistake), impersonate(strings.Repeat("u", 700<<10))},
		{"a long prefix of a name", nameless, nil},
		{"a long key", keyed, nil},
		{"a long value", valued, nil},
		{"a value to be quoted", quoted, nil},
		{"2,000 mistakes", several, nil},
	} {
		before, body := s.logSize(), encode(try.body)
		answered := 0
		s.cost(try.what, func() int {
			for range denials {
				got := shared.admin.send(s.Context(), http.MethodPost, servicesOf(s.namespace)+"?dryRun=All", plainJSON, body, try.headers...)
				if got.refused() {
					answered++
				} else {
					s.expectRefusal(try.what, got)
				}
			}
			return answered
		})
		if answered == 0 {
			continue
		}
		logged := s.logSize() - before
		s.note("%s: %d bytes logged for each of %d denials", try.what, logged/denials, answered)
		if logged > denials*mostLogged {
			s.Errorf("%s: %d denials log %d bytes, more than %d each", try.what, denials, logged, mostLogged)
		}
	}
	// The same from a stranger, who also chooses what an API server would not send.
	c := s.stranger()
	before := s.logSize()
	for range denials {
		c.ask("/validate-service", "?timeout=3s", strings.NewReader(strings.Replace(
			reviewOf("services", string(encode(service("x", mistake))), ""), `"username":"u"`, `"username":"`+long+`"`, 1)))
		c.ask("/"+strings.Repeat("p", 8_000), "?timeout=3s", strings.NewReader("{}"))
		c.ask("/validate-service", "?timeout="+strings.Repeat("9", 8_000), strings.NewReader("{}"))
		c.ask("/validate-service", "?timeout=3s", strings.NewReader(`{"kind":"`+long+`"}`))
		c.ask("/validate-service", "?timeout=3s", strings.NewReader(strings.Replace(reviewOf("services", "{}", ""), `"resource":"services"`, `"resource":"`+long+`"`, 1)))
	}
	if logged := s.logSize() - before; logged > 5*denials*mostLogged {
		s.Errorf("%d requests of a stranger log %d bytes, more than %d each", 5*denials, logged, mostLogged)
	}
}
