package reload_test

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/reload"
	"quaymaster.dev/test/harness/authority"
)

// replace replaces a file as the kubelet does: by another one.
func replace(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// Content that is not valid keeps the former authorities, and is reported once. Every other change takes effect at once.
func TestCAs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	now := time.Now()
	one, other := authority.New(t, "one", now, now.Add(time.Hour)), authority.New(t, "other", now, now.Add(time.Hour))
	var reported []string
	cas := reload.CAs(file, func(err error) { reported = append(reported, err.Error()) })
	half := string(other.PEM()) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	for _, step := range []struct {
		name   string
		change func()
		want   []*authority.Pair
		// err is the error, if there has been no valid content yet, and reports is how many problems have been reported so far.
		err     string
		reports int
	}{
		{"no file", func() {}, nil, "open " + file, 0},
		{"no certificate", func() { replace(t, file, "none") }, nil, "must contain certificates in PEM", 0},
		{"valid", func() { replace(t, file, string(one.PEM())) }, []*authority.Pair{one}, "", 0},
		{"another one", func() { replace(t, file, string(other.PEM())) }, []*authority.Pair{other}, "", 0},
		{"both", func() { replace(t, file, string(one.PEM())+string(other.PEM())) }, []*authority.Pair{one, other}, "", 0},
		{"one is not valid", func() { replace(t, file, half) }, []*authority.Pair{one, other}, "", 1},
		{"empty", func() { replace(t, file, "") }, []*authority.Pair{one, other}, "", 2},
		{"gone", func() { _ = os.Remove(file) }, []*authority.Pair{one, other}, "", 3},
		{"back", func() { replace(t, file, string(one.PEM())) }, []*authority.Pair{one}, "", 3},
	} {
		step.change()
		want := x509.NewCertPool()
		for _, pair := range step.want {
			want.AddCert(pair.Cert)
		}
		for range 3 {
			got, err := cas.Get()
			if step.err != "" && (err == nil || !strings.Contains(err.Error(), step.err)) || step.err == "" && (err != nil || !got.Equal(want)) {
				t.Errorf("%s: error %v, or other authorities than wanted", step.name, err)
			}
		}
		if len(reported) != step.reports {
			t.Errorf("%s: %d reports, want %d: %q", step.name, len(reported), step.reports, reported)
		}
	}
}

// Files that do not change are neither read nor used again, but a change that hardly shows is found.
func TestFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "value")
	built := 0
	files := reload.New([]string{file, ""}, func(contents [][]byte) (string, error) {
		built++
		if contents[1] != nil {
			return "", errors.New("the file without a name has content")
		}
		return string(contents[0]), nil
	}, nil)
	get := func(want string, times int) {
		t.Helper()
		if got, err := files.Get(); err != nil || got != want || built != times {
			t.Errorf("got %q, %v, built %d times; want %q, %d times", got, err, built, want, times)
		}
	}
	write := func(content string, changed time.Time) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	now, old := time.Now(), time.Now().Add(-time.Hour)
	write("one", now)
	get("one", 1)
	// The same size, and the same time for a file system with coarse ones.
	write("two", now)
	get("two", 2)
	get("two", 2)
	write("two", old)
	get("two", 2)
	// This could only be found by reading a file that has not been changed for an hour.
	write("six", old)
	get("two", 2)
}
