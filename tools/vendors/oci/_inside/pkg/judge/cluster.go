package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	listersv1 "k8s.io/client-go/listers/core/v1"
)

// kubernetesAPI simulates the API of the cluster without a network: it has the Service, and every Secret whose name the
// API server accepts.
type kubernetesAPI struct{}

var _ http.RoundTripper = kubernetesAPI{}

// RoundTrip answers a request.
func (kubernetesAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, status := any(nil), http.StatusOK
	switch resource, name := path.Split(r.URL.Path); {
	case strings.HasSuffix(resource, "/services/"):
		answer = &corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}}
	case path.Base(name) == "token":
		answer = map[string]any{"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "status": map[string]any{"token": "token"}}
	case strings.HasSuffix(resource, "/secrets/") && named(r.URL.Path):
		answer = &corev1.Secret{
			TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, Data: map[string][]byte{"tls.crt": {}, "tls.key": {}, "ca.crt": {}},
		}
	default:
		status = http.StatusNotFound
		answer = &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
			Message: "not found", Code: http.StatusNotFound,
		}
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)),
	}, nil
}

// named reports whether a path such as /api/v1/namespaces/shop/secrets/web has a possible namespace and name.
func named(resource string) bool {
	parts := strings.Split(strings.TrimPrefix(resource, "/api/v1/namespaces/"), "/")
	return len(parts) == 3 && len(validation.IsDNS1123Label(parts[0])) == 0 && len(validation.IsDNS1123Subdomain(parts[2])) == 0
}

// accounts has every ServiceAccount whose name the API server accepts.
type accounts struct{ listersv1.ServiceAccountLister }

// ServiceAccounts returns those of a namespace.
func (accounts) ServiceAccounts(string) listersv1.ServiceAccountNamespaceLister {
	return accountsOfNamespace{}
}

type accountsOfNamespace struct {
	listersv1.ServiceAccountNamespaceLister
}

func (accountsOfNamespace) Get(name string) (*corev1.ServiceAccount, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), name)
	}
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}
