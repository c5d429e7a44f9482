package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/tool/manifest"
)

// decode decodes a Service from the lines after its first two, and returns its mistakes.
func decode(t *testing.T, text string) (*corev1.Service, []string) {
	t.Helper()
	f := manifest.Parse("f", []byte("apiVersion: v1\nkind: Service\n"+text), services)
	if len(f.Objects) != 1 {
		t.Fatalf("%+v", f)
	}
	svc, mistakes := manifest.Decode[corev1.Service](f.Objects[0])
	var texts []string
	for _, m := range mistakes {
		texts = append(texts, fmt.Sprintf("%d:%d %s %q: %s; %s", m.Place.Line, m.Place.Column, m.Path, m.Value,
			m.Message, m.Remedy))
	}
	return svc, texts
}

func TestMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"none": {
			text: "metadata: {annotations: {a: '5', b: , c: 'yes'}}\n" +
				"spec: {ports: [{port: 80, targetPort: web}, {port: 81, targetPort: 8080}]}",
		},
		"a number": {
			text: "metadata:\n  annotations:\n    a: 5000",
			want: []string{`5:5 metadata.annotations[a] "5000": must be a string, not a number; quote it: "5000"`},
		},
		"source text": {
			text: "metadata:\n  labels: {a: 1.50, b: 0x1F}",
			want: []string{`4:12 metadata.labels[a] "1.50": must be a string, not a number; quote it: "1.50"`,
				`4:21 metadata.labels[b] "0x1F": must be a string, not a number; quote it: "0x1F"`},
		},
		"yes is a boolean to kubectl": {
			text: "metadata:\n  annotations: {a: yes}",
			want: []string{`4:17 metadata.annotations[a] "yes": must be a string, not a boolean; quote it: "yes"`},
		},
		"a map for a string": {
			text: "metadata:\n  annotations: {a: {b: c}}",
			want: []string{`4:17 metadata.annotations[a] "": must be a string, not a map of fields; correct the value`},
		},
		"a list for a map": {
			text: "metadata:\n  annotations: [a]",
			want: []string{`4:3 metadata.annotations "": must be a map of fields, not a list; correct the value`},
		},
		"a text for a list": {
			text: "spec:\n  ports: http",
			want: []string{`4:3 spec.ports "http": must be a list, not a string; correct the value`},
		},
		"a text for a boolean": {
			text: "spec:\n  allocateLoadBalancerNodePorts: 'no'",
			want: []string{`4:3 spec.allocateLoadBalancerNodePorts "no": must be true or false, not a string; ` +
				`correct the value`},
		},
		"a quoted integer": {
			text: "spec:\n  ports:\n  - port: 1\n  - port: '80'",
			want: []string{`6:5 spec.ports[1].port "80": must be an integer, not a string; remove the quotes`},
		},
		"no integer": {
			text: "spec:\n  ports:\n  - port: http",
			want: []string{`5:5 spec.ports[0].port "http": must be a 32-bit integer; correct the value`},
		},
		"too big": {
			text: "spec:\n  ports:\n  - port: 5000000000",
			want: []string{`5:5 spec.ports[0].port "5000000000": must be a 32-bit integer; correct the value`},
		},
		"an element of another type": {
			text: "spec:\n  ports:\n  - 80",
			want: []string{`5:5 spec.ports[0] "80": must be a map of fields, not a number; correct the value`},
		},
		"a typo": {
			text: "spec:\n  extrnalTrafficPolicy: Local",
			want: []string{`4:3 spec.extrnalTrafficPolicy "Local": unknown field; did you mean ` +
				`"externalTrafficPolicy"?`},
		},
		"a field of another place": {
			text: "name: a", want: []string{`3:1 name "a": unknown field; remove it or correct its name`},
		},
		"duplicate": {
			text: "metadata:\n  annotations:\n    a: b\n    a: c",
			want: []string{`6:5 metadata.annotations[a] "c": duplicate key, already set in line 5; remove one of them`},
		},
		"own decoder": {
			text: "metadata:\n  creationTimestamp: yesterday",
			want: []string{`4:3 metadata.creationTimestamp "yesterday": must be a valid Time: parsing time ` +
				`"yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"; correct the value`},
		},
		"several, in order": {
			text: "spec: {sessionAffinity: 5}\nmetadata: {name: 7}",
			want: []string{`3:8 spec.sessionAffinity "5": must be a string, not a number; quote it: "5"`,
				`4:12 metadata.name "7": must be a string, not a number; quote it: "7"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := decode(t, tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

// Mistakes are repaired where the meaning is obvious, and never affect other fields.
func TestMistakesAreRepaired(t *testing.T) {
	svc, _ := decode(t, "metadata: {annotations: {a: 5000, b: yes, c: [x]}, name: web}\n"+
		"spec:\n  type: LoadBalancer\n  prots: 1\n  ports: [{port: '80', protocol: UDP}, 5]")
	want := &corev1.Service{}
	want.APIVersion, want.Kind, want.Name = "v1", "Service", "web"
	want.Annotations = map[string]string{"a": "5000", "b": "yes"}
	want.Spec.Type = corev1.ServiceTypeLoadBalancer
	want.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolUDP}, {}}
	if diff := cmp.Diff(want, svc); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	const text = `apiVersion: v1
kind: Service
metadata: &m
  annotations:
    example.com/key: "value"
    example.com/long: |
      text
	# a comment
spec:
  ports:
  - port: 80
    protocol: SCTP
  - {port: 81, name: "ü"}
  loadBalancerSourceRanges:
  - 10.0.0.0/8
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: &meta {annotations: {a: b}}
- apiVersion: v1
  kind: Service
  metadata: *meta
`
	objects := manifest.Parse("f", []byte(strings.ReplaceAll(text, "\t", "")), services).Objects
	for _, tc := range []struct {
		object int
		path   string
		want   string
	}{
		{0, "metadata.annotations[example.com/key]", `5:5 mark 22 width 7`},
		{0, "metadata.annotations[example.com/long]", `6:5 mark 23 width 1`},
		{0, "metadata.annotations[example.com/missing]", `1:1 mark 1 width 1`},
		{0, "metadata.annotations", `4:3 mark 3 width 11`},
		{0, "spec.ports[0].protocol", `12:5 mark 15 width 4`},
		{0, "spec.ports[1].name", `13:16 mark 22 width 3`},
		{0, "spec.ports[1]", `13:5 mark 5 width 1`},
		{0, "spec.ports[2]", `1:1 mark 1 width 1`},
		{0, "spec.loadBalancerSourceRanges[0]", `15:5 mark 5 width 10`},
		{0, "", `1:1 mark 1 width 1`},
		{1, "metadata.annotations[a]", `22:34 mark 37 width 1`},
		{2, "metadata.annotations[a]", `22:34 mark 37 width 1`},
		{2, "spec", `23:3 mark 3 width 1`},
	} {
		at := objects[tc.object].Find(tc.path)
		if got := fmt.Sprintf("%d:%d mark %d width %d", at.Line, at.Column, at.Mark, at.Width); got != tc.want {
			t.Errorf("%d %s is at %s, want %s", tc.object, tc.path, got, tc.want)
		}
	}
}
