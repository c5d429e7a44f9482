package judge

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestRun(t *testing.T) {
	in := `{"metadata":{"name":"fine"}}
{"metadata":{"name":"bad"}}
{"metadata":{"name":"other"}}
{"metadata":{"name":"panics"}}
`
	want := `{}
{"error":"bad name"}
{"skip":"other class"}
{"error":"panic: assignment to entry in nil map"}
`
	var out bytes.Buffer
	err := run(strings.NewReader(in), &out, func(s *corev1.Service) Verdict {
		switch s.Name {
		case "bad":
			return Refuse(errors.New("bad name"))
		case "other":
			return Skip("other class")
		case "panics":
			s.Annotations["a"] = "b"
		}
		return Refuse(nil)
	})
	if err != nil || out.String() != want {
		t.Errorf("got %s, %v", out.String(), err)
	}
}

func TestRunRefusesWhatIsNoService(t *testing.T) {
	for name, in := range map[string]string{"no JSON": "x\n", "cut off": `{"metadata":{}}`} {
		if err := run(strings.NewReader(in), &bytes.Buffer{}, func(*corev1.Service) Verdict { return Accept() }); err == nil {
			t.Error(name)
		}
	}
}

func TestServiceController(t *testing.T) {
	judge, class := ServiceController(func(*corev1.Service) Verdict { return Warn("called") }), "example.com/class"
	for name, test := range map[string]struct {
		spec   corev1.ServiceSpec
		called bool
	}{
		"passed on": {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}, true},
		"type":      {corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, false},
		"class":     {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class}, false},
	} {
		v := judge(&corev1.Service{Spec: test.spec})
		if (v.Warning != "") != test.called || (v.Skip != "") == test.called {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

func TestAPI(t *testing.T) {
	client := http.Client{Transport: API(func(r *http.Request, body map[string]any) (int, map[string]any) {
		return http.StatusCreated, map[string]any{"path": r.URL.Path, "name": body["name"]}
	})}
	for body, want := range map[string]string{`{"name":"web"}`: `{"name":"web","path":"/v1/balancers"}`, "": `{"name":null,"path":"/v1/balancers"}`} {
		response, err := client.Post("http://cloud.invalid/v1/balancers", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(response.Body)
		if err != nil || string(raw) != want || response.StatusCode != http.StatusCreated {
			t.Errorf("got %s, %s, %v", response.Status, raw, err)
		}
	}
}
