package app

import (
	"maps"
	"strings"
	"testing"
)

func TestParseEdgeTokens(t *testing.T) {
	for name, test := range map[string]struct {
		text, shared string
		own          map[string]string
		err          string
	}{
		"none":          {},
		"shared":        {text: "s3cret\n", shared: "s3cret"},
		"own":           {text: "edge-1 a\n\n edge-2\tb \n", own: map[string]string{"edge-1": "a", "edge-2": "b"}},
		"both":          {text: "edge-1 a\ns3cret==", shared: "s3cret==", own: map[string]string{"edge-1": "a"}},
		"comment":       {text: "# edge-1\nedge-1 a", err: "line 1 begins with #"},
		"three words":   {text: "edge-1 a b", err: "line 1 has 3 words"},
		"two shared":    {text: "a\nb", err: "line 2 is a second shared token"},
		"same name":     {text: "edge-1 a\nedge-1 b", err: `second token of edge "edge-1"`},
		"same token":    {text: "edge-1 a\nedge-2 a", err: "line 2 repeats a token"},
		"own is shared": {text: "a\nedge-2 a", err: "line 2 repeats a token"},
		"of clients":    {text: "edge-1 client", err: "must not be the token of clients"},
	} {
		t.Run(name, func(t *testing.T) {
			shared, own, err := parseEdgeTokens(test.text, "client")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || shared != test.shared || !maps.Equal(own, test.own) {
				t.Errorf("got %q, %v, %v, want %q, %v", shared, own, err, test.shared, test.own)
			}
		})
	}
}
