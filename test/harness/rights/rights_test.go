package rights

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// manifests parses documents as rendered by the chart.
func manifests(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

const (
	role = `
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [nodes, nodes/status], verbs: [get, patch]}
- {apiGroups: [apps], resources: [deployments], resourceNames: [a, b], verbs: [delete]}
`
	inNamespace = `
kind: RoleBinding
metadata: {name: readers, namespace: shop}
roleRef: {kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, namespace: ns, name: me}]
`
	everywhere = `
kind: ClusterRoleBinding
metadata: {name: delegators}
roleRef: {kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: ServiceAccount, namespace: ns, name: me}]
`
)

func TestGranted(t *testing.T) {
	right := func(verb, group, resource, name, namespace string) Right {
		return Right{Account: "ns/me", Verb: verb, Group: group, Resource: resource, Name: name, Namespace: namespace}
	}
	tests := map[string]struct {
		objects string
		want    []Right
	}{
		"a role without binding": {role, nil},
		"in a namespace": {role + "---\n" + inNamespace, []Right{
			right("get", "", "nodes", "", "shop"), right("patch", "", "nodes", "", "shop"),
			right("get", "", "nodes/status", "", "shop"), right("patch", "", "nodes/status", "", "shop"),
			right("delete", "apps", "deployments", "a", "shop"), right("delete", "apps", "deployments", "b", "shop"),
		}},
		"a role of the API server": {everywhere, []Right{
			right("create", "authentication.k8s.io", "tokenreviews", "", ""),
			right("create", "authorization.k8s.io", "subjectaccessreviews", "", ""),
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			granted, err := Granted(manifests(t, test.objects), WellKnown())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sets.New(test.want...), granted); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Granted(manifests(t, inNamespace), WellKnown()); err == nil {
		t.Error("no error for a binding to an unknown role")
	}
}

func TestUnusedAndBeyond(t *testing.T) {
	get := Right{Account: "ns/me", Verb: "get", Resource: "secrets"}
	with := func(change func(*Right)) Right {
		changed := get
		change(&changed)
		return changed
	}
	named := with(func(r *Right) { r.Name = "a" })
	inShop := with(func(r *Right) { r.Namespace = "shop" })
	use := with(func(r *Right) { r.Name, r.Namespace = "a", "shop" })
	tests := map[string]struct {
		granted, use Right
		covered      bool
	}{
		"all objects":       {get, use, true},
		"by name":           {named, use, true},
		"in a namespace":    {inShop, use, true},
		"exact match":       {use, use, true},
		"another name":      {named, with(func(r *Right) { r.Name = "b" }), false},
		"any name":          {named, get, false},
		"another namespace": {inShop, with(func(r *Right) { r.Namespace = "home" }), false},
		"all namespaces":    {inShop, get, false},
		"another verb":      {get, with(func(r *Right) { r.Verb = "list" }), false},
		"another resource":  {get, with(func(r *Right) { r.Resource = "secrets/status" }), false},
		"another group":     {get, with(func(r *Right) { r.Group = "apps" }), false},
		"another account":   {get, with(func(r *Right) { r.Account = "ns/you" }), false},
		"wildcard verb":     {with(func(r *Right) { r.Verb = "*" }), get, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			granted, used := sets.New(test.granted), sets.New(test.use)
			var unused, beyond []Right
			if !test.covered {
				unused, beyond = []Right{test.granted}, []Right{test.use}
			}
			if diff := cmp.Diff(unused, Unused(granted, used)); diff != "" {
				t.Errorf("unused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(beyond, Beyond(granted, used)); diff != "" {
				t.Errorf("beyond (-want +got):\n%s", diff)
			}
		})
	}
}

const (
	user    = `"user":{"username":"system:serviceaccount:ns:me"}`
	patched = `{"verb":"patch",` + user +
		`,"objectRef":{"resource":"issuers","namespace":"ns","name":"ca","apiGroup":"cert-manager.io"},` +
		`"responseStatus":{"code":201}}` + "\n"
	watched = `{"verb":"watch",` + user + `,"objectRef":{"resource":"secrets","name":"tls","namespace":"ns"}}` + "\n"
	token   = `{"verb":"create",` + user +
		`,"objectRef":{"resource":"serviceaccounts","subresource":"token","name":"x","namespace":"ns"}}` + "\n"
	discovery = `{"verb":"get",` + user + `,"requestURI":"/version","responseStatus":{"code":200}}` + "\n"
	admin     = `{"verb":"get","user":{"username":"admin"},"objectRef":{"resource":"pods"},"responseStatus":{"code":403}}` + "\n"
	refused   = `{"verb":"list",` + user +
		`,"requestURI":"/api/v1/pods","objectRef":{"resource":"pods"},"responseStatus":{"code":403,"message":"no"}}` +
		"\n"
	forbidden = `{"verb":"get",` + user +
		`,"requestURI":"/logs","annotations":{"authorization.k8s.io/decision":"forbid",` +
		`"authorization.k8s.io/reason":"why"}}` + "\n"
)

// The log is read while it is being written, including in the middle of a line.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{patched + watched[:20], watched[20:] + token + discovery,
		admin + refused + forbidden} {
		if _, err := file.WriteString(part); err != nil {
			t.Fatal(err)
		}
		if err := log.Read(); err != nil {
			t.Fatal(err)
		}
	}
	issuer := Right{Account: "ns/me", Verb: "patch", Group: "cert-manager.io", Resource: "issuers", Name: "ca",
		Namespace: "ns"}
	made := issuer
	made.Verb = "create"
	want := &Record{
		Used: sets.New(
			issuer, made,
			Right{Account: "ns/me", Verb: "watch", Resource: "secrets", Name: "tls", Namespace: "ns"},
			Right{Account: "ns/me", Verb: "create", Resource: "serviceaccounts/token", Name: "x", Namespace: "ns"},
		),
		Forbidden: sets.New("ns/me: list /api/v1/pods: no", "ns/me: get /logs: why"),
	}
	if diff := cmp.Diff(want, log.Record); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := errors.Join(file.Close(), log.Close()); err != nil {
		t.Error(err)
	}
}
