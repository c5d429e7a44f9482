package tenants_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Content types of requests to the API server.
const (
	plainJSON  = "application/json"
	mergePatch = "application/merge-patch+json"
	protobuf   = "application/vnd.kubernetes.protobuf"
)

// user sends requests to the API server as they are, without the checks and retries of a client library.
type user struct {
	name   string
	host   string
	client *http.Client
}

func issueUser(name string) (*user, error) {
	kubeconfig, err := shared.UserKubeconfig(name)
	if err != nil {
		return nil, err
	}
	return newUser(name, kubeconfig)
}

func newUser(name, kubeconfig string) (*user, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	// Without HTTP/2, large requests do not wait for each other.
	transport := &http.Transport{TLSClientConfig: secure, MaxIdleConnsPerHost: 64}
	return &user{name: name, host: config.Host, client: &http.Client{Transport: transport, Timeout: time.Minute}}, nil
}

// answer is what the API server responds.
type answer struct {
	code int
	text []byte
	err  error
}

// ok reports whether the request succeeded.
func (a answer) ok() bool { return a.err == nil && a.code < 300 }

// refused reports whether the request was refused for its content, by a webhook or otherwise. Other failures, such as too
// many requests, say nothing about the content.
func (a answer) refused() bool {
	switch a.code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return a.err == nil
	}
	return false
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	var status metav1.Status
	text := string(a.text)
	if json.Unmarshal(a.text, &status) == nil && status.Message != "" {
		text = status.Message
	}
	return fmt.Sprintf("%d: %.300s", a.code, text)
}

// header is an additional header of a request.
type header struct{ key, value string }

func (u *user) send(ctx context.Context, method, path, contentType string, body []byte, headers ...header) answer {
	request, err := http.NewRequestWithContext(ctx, method, u.host+path, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("Accept", plainJSON)
	for _, h := range headers {
		request.Header.Set(h.key, h.value)
	}
	response, err := u.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{code: response.StatusCode, text: text, err: err}
}

// post creates an object of a collection.
func (u *user) post(ctx context.Context, collection string, object any) answer {
	return u.send(ctx, http.MethodPost, collection, plainJSON, encode(object))
}

// put replaces an object.
func (u *user) put(ctx context.Context, path string, object any) answer {
	return u.send(ctx, http.MethodPut, path, plainJSON, encode(object))
}

func (u *user) patch(ctx context.Context, path, body string) answer {
	return u.send(ctx, http.MethodPatch, path, mergePatch, []byte(body))
}

func (u *user) get(ctx context.Context, path string) answer {
	return u.send(ctx, http.MethodGet, path, "", nil)
}

func (u *user) remove(ctx context.Context, path string) answer {
	return u.send(ctx, http.MethodDelete, path, "", nil)
}

// encode does not escape <, > and &, so that only the API server does.
func encode(object any) []byte {
	if raw, ok := object.([]byte); ok {
		return raw
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		panic(err)
	}
	return text.Bytes()
}

// Paths of the API.
func servicesOf(namespace string) string { return "/api/v1/namespaces/" + namespace + "/services" }
func claimsOf(namespace string) string {
	return "/api/v1/namespaces/" + namespace + "/persistentvolumeclaims"
}
func policiesOf(namespace string) string {
	return "/apis/quaymaster.dev/v1alpha1/namespaces/" + namespace + "/loadbalancerpolicies"
}

// annotate returns a merge patch that sets an annotation.
func annotate(key, value string) string {
	return string(bytes.TrimSpace(encode(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})))
}

const dlb = "service.beta.kubernetes.io/dlb-"

// Annotations that the webhooks must refuse and accept.
var (
	invalid = annotate(dlb+"scheduler", "fastest")
	valid   = annotate(dlb+"scheduler", "round-robin")
)

// short cuts a text for a log.
func short(text string) string { return strings.ToValidUTF8(fmt.Sprintf("%.200s", text), "?") }
