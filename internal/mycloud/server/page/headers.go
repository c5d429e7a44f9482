package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"quaymaster.dev/internal/look"
)

// policy lets a page load what this server serves, and nothing else: no inline script or style, no other site. A script cannot
// make text into content of the page, except for pages that it has got from this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types page"

// secured sets the headers of every response of the page.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

//go:embed assets
var embedded embed.FS

// assets are scripts, styles and pictures. Their addresses contain a hash of their content, so that they can be cached.
type assets struct {
	// addresses are by name, and files by address.
	addresses map[string]string
	files     map[string]asset
}

type asset struct {
	name    string
	content []byte
}

func newAssets() *assets {
	a := &assets{addresses: map[string]string{}, files: map[string]asset{}}
	err := fs.WalkDir(embedded, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		short := strings.TrimPrefix(name, "assets/")
		if short == "style.css" {
			content = append([]byte(look.CSS), content...)
		}
		sum := sha256.Sum256(content)
		address := Path + "assets/" + hex.EncodeToString(sum[:6]) + "/" + short
		a.addresses[short], a.files[address] = address, asset{path.Base(name), content}
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	return a
}

// ServeHTTP serves an asset to everyone: they are the same for all clouds.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, file.name, time.Time{}, bytes.NewReader(file.content))
}
