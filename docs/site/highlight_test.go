package main

import "testing"

// TestLanguage: most blocks of code are indented, and name no language.
func TestLanguage(t *testing.T) {
	for code, want := range map[string]string{
		"webhook:\n  replicas: 3\n":                              "yaml",
		"# what users may do\n- name: web\n":                     "yaml",
		"helm install quaymaster ./charts/quaymaster\n":          "bash",
		"# once\nVERSION=1.2.3 make chart\n":                     "bash",
		"$ kubectl get services\nNAME   TYPE\n":                  "plaintext",
		"The Service \"web\" is invalid: a number is required\n": "plaintext",
	} {
		if got := language("", code); got != want {
			t.Errorf("%q: got %s, want %s", code, got, want)
		}
	}
	if got := language("json", "kind: Service"); got != "json" {
		t.Errorf("of a block that names json: %s", got)
	}
}
