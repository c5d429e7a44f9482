package operations_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/observability"
	"quaymaster.dev/test/harness/env"
)

// Both roles write every line of their logs in the same format, with the same format of times, whichever library logs:
// from the start to the end, and when clients are at fault.
func TestLogs(t *testing.T) {
	t.Parallel()
	formats := map[string]func(line string) bool{
		observability.FormatJSON: isJSON,
		observability.FormatText: regexp.MustCompile(
			`^time=` + timestamp + ` level=(info|warn|error|debug) msg=("[^"\\]*(\\.[^"\\]*)*"|[^ "]+) role=(webhook|controllers)( |$)`,
		).MatchString,
	}
	e := env.Start(t, env.Options{})
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.InstallChart(t.Context(), values(port)); err != nil {
		t.Fatal(err)
	}
	cloud, err := e.StartMycloud(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for format, valid := range formats {
		t.Run(format, func(t *testing.T) {
			webhook, err := e.StartWebhook(t.Context(), port, "--log-format="+format, "-v=2")
			if err != nil {
				t.Fatal(err)
			}
			controllers, err := e.StartControllers(t.Context(), env.CloudConfigFor("dev", cloud), "--leader-elect=true", "--log-format="+format, "-v=2")
			if err != nil {
				t.Fatal(err)
			}
			disturb(t, webhook.Address)
			disturb(t, strings.TrimPrefix(controllers.URL, "https://"))
			for _, server := range []*env.Server{&webhook.Server, controllers} {
				if err := server.Stop(20 * time.Second); err != nil {
					t.Error(err)
				}
				log, err := os.ReadFile(server.Log())
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(server.Log()); err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")
				if len(lines) < 5 {
					t.Errorf("%s logged only %q", server.Name(), lines)
				}
				for _, line := range lines {
					if !valid(line) || strings.Contains(line, "[{},{}]") {
						t.Errorf("%s logged: %s", server.Name(), line)
					}
				}
			}
		})
	}
}

const timestamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`

// isJSON reports whether a line is an object with time, level, message and role.
func isJSON(line string) bool {
	var fields struct{ Time, Level, Msg, Role string }
	return json.Unmarshal([]byte(line), &fields) == nil && fields.Msg != "" &&
		regexp.MustCompile(`^`+timestamp+`$`).MatchString(fields.Time) &&
		slices.Contains([]string{"info", "warn", "error", "debug"}, fields.Level) &&
		slices.Contains([]string{"webhook", "controllers"}, fields.Role)
}

// disturb connects to a server as broken and foreign clients do.
func disturb(t *testing.T, address string) {
	t.Helper()
	for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n"} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, text)
		c.Close()
	}
	insecure := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} // as a scanner
	if c, err := (&tls.Dialer{Config: insecure}).DialContext(t.Context(), "tcp", address); err == nil {
		fmt.Fprint(c, "nonsense in place of the preface\r\n")
		c.Close()
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as a scanner
	defer client.CloseIdleConnections()
	for _, path := range []string{"/", "/metrics", "/validate-service?a;b"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
		}
	}
}
