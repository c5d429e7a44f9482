package operation

import "testing"

func TestPointer(t *testing.T) {
	tests := map[string]string{
		"body":                   "",
		"body.name":              "/name",
		"body.listeners[0].port": "/listeners/0/port",
		"body.tags.a~2b~1c~3d~4": "/tags/a.b~1c[d]",
		"body.tags.~02":          "/tags/~02",
		"query.limit":            "query/limit",
	}
	for location, want := range tests {
		if got := pointer(location); got != want {
			t.Errorf("pointer(%q) = %q, want %q", location, got, want)
		}
	}
}
