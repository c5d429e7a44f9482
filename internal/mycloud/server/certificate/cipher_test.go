package certificate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

func TestCipher(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key, err := LoadOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadOrCreateKey(path)
	if err != nil || strings.TrimSpace(again) != key {
		t.Errorf("the key is not the one that was created: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files: %v, %v", left, err)
	}
	c, err := NewCipher(again)
	if err != nil {
		t.Fatal(err)
	}
	pair := cloudv1.KeyPair{Chain: "chain", Key: "secret"}
	sealed, err := c.Seal("cert-1", pair)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Open("cert-1", sealed); err != nil || got != pair {
		t.Errorf("opened: %v, %v", got, err)
	}
	if twice, _ := c.Seal("cert-1", pair); twice == sealed {
		t.Error("two encryptions have the same nonce")
	}
	for name, open := range map[string]func() (cloudv1.KeyPair, error){
		"of another certificate": func() (cloudv1.KeyPair, error) { return c.Open("cert-2", sealed) },
		"damaged":                func() (cloudv1.KeyPair, error) { return c.Open("cert-1", sealed[:len(sealed)-1]+"x") },
		"empty":                  func() (cloudv1.KeyPair, error) { return c.Open("cert-1", "") },
	} {
		if got, err := open(); err == nil || got.Key != "" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
