package judge

import (
	"bytes"
	"errors"
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
