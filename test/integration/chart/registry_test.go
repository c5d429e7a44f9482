package chart

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// registry is the part of an OCI registry that Helm uses: it stores blobs and manifests in memory.
type registry struct {
	mu sync.Mutex
	// content is the content of blobs and manifests by path; the media type of a manifest is in kinds.
	content map[string][]byte
	kinds   map[string]string
}

// startRegistry starts a registry with TLS, and returns its address and a file with its CA.
func startRegistry(t *testing.T) (address, authority string) {
	t.Helper()
	server := httptest.NewTLSServer(&registry{content: map[string][]byte{}, kinds: map[string]string{}})
	t.Cleanup(server.Close)
	authority = filepath.Join(t.TempDir(), "registry.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.Listener.Addr().String(), authority
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256(body)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	name, _, upload := strings.Cut(req.URL.Path, "/blobs/uploads/")
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case req.URL.Path == "/v2/":
	case req.Method == http.MethodPost && upload:
		w.Header().Set("Location", name+"/blobs/uploads/1")
		w.WriteHeader(http.StatusAccepted)
	case req.Method == http.MethodPut && upload:
		r.content[name+"/blobs/"+digest] = body
		w.WriteHeader(http.StatusCreated)
	case req.Method == http.MethodPut:
		name, _, _ := strings.Cut(req.URL.Path, "/manifests/")
		for _, path := range []string{req.URL.Path, name + "/manifests/" + digest} {
			r.content[path], r.kinds[path] = body, req.Header.Get("Content-Type")
		}
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
	default:
		content, found := r.content[req.URL.Path]
		if !found {
			http.NotFound(w, req)
			return
		}
		sum := sha256.Sum256(content)
		w.Header().Set("Docker-Content-Digest", "sha256:"+hex.EncodeToString(sum[:]))
		if kind := r.kinds[req.URL.Path]; kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(content))
	}
}
