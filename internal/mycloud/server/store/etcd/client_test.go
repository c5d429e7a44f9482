package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]struct {
		files     Files
		endpoints []string
		prefix    string
		err       string
	}{
		"etcd://a:2379":                {endpoints: []string{"http://a:2379"}, prefix: "/mycloud/"},
		"etcd://a:2379,[::1]:2380/x/y": {endpoints: []string{"http://a:2379", "http://[::1]:2380"}, prefix: "/x/y/"},
		"etcds://a:2379/x/":            {endpoints: []string{"https://a:2379"}, prefix: "/x/"},
		"etcd://b:2379":                {files: Files{User: "u", Password: password}, endpoints: []string{"http://b:2379"}, prefix: "/mycloud/"},
		"etcd://c:2379":                {files: Files{User: "u"}, err: "must both be set"},
		"etcd://d:2379":                {files: Files{Cert: "c"}, err: "must both be set"},
		"etcd://e:2379":                {files: Files{CA: "/none"}, err: "TLS files"},
		"etcd://a":                     {err: "must be HOST:PORT"},
		"etcd://":                      {err: "must be etcd://HOST:PORT"},
		"http://a:2379":                {err: "must be etcd://HOST:PORT"},
	} {
		o, err := Parse(url, want.files)
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%s: %v", url, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if d := cmp.Diff(want.endpoints, o.Config.Endpoints); d != "" || o.Prefix != want.prefix {
			t.Errorf("%s: prefix %s, endpoints (-want +got):\n%s", url, o.Prefix, d)
		}
		if want.files.User != "" && o.Config.Password != "secret" {
			t.Errorf("%s: password %q", url, o.Config.Password)
		}
	}
}
