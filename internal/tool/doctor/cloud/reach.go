package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"quaymaster.dev/internal/version"
)

const (
	// reachTimeout limits the duration of a call.
	reachTimeout = 10 * time.Second
	// longestResponse bounds how much of a response is read.
	longestResponse = 1 << 20
)

// Reach asks the cloud at an endpoint for its description, without credentials. An answer of its API, such as that they
// are missing, proves that this machine reaches it. The authorities of its certificate are in PEM; if empty, those of the
// system are trusted.
func Reach(ctx context.Context, endpoint string, authorities []byte) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	roots, err := x509.SystemCertPool()
	if err != nil || len(authorities) > 0 {
		roots = x509.NewCertPool()
		roots.AppendCertsFromPEM(authorities)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(endpoint, "/")+"/v1/meta", nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "quayctl/"+version.Version())
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestResponse))
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	var answer struct {
		// Code and Detail are fields of a problem, APIVersion is one of the description.
		Code       string `json:"code"`
		Detail     string `json:"detail"`
		APIVersion string `json:"api_version"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Code == "" && answer.APIVersion == "" {
		return fmt.Errorf("a response with status %d that is not of the API of mycloud", response.StatusCode)
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return errors.New(strings.TrimSpace(fmt.Sprintf("status %d: %s %s", response.StatusCode, answer.Code, answer.Detail)))
	}
	return nil
}
