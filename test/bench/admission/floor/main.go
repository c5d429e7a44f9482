// Command floor is the least that an admission webhook in Go does: net/http with TLS, encoding/json for the review and
// the Service in it, and an answer. The benchmark compares webhooks with it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// denied is the annotation by which the benchmark finds out that a webhook is called: its value is the path of the
// webhook that denies the Service.
const denied = "example.com/denied-by"

func main() {
	address := flag.String("address", "", "address to serve on")
	certificate := flag.String("cert", "", "file with the certificate")
	key := flag.String("key", "", "file with its key")
	flag.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("/mutate", handle)
	mux.HandleFunc("/validate", handle)
	// API servers offer HTTP/1.1 to webhooks; Go would also accept HTTP/2.
	server := &http.Server{Addr: *address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, server.ListenAndServeTLS(*certificate, *key))
	os.Exit(1)
}

func handle(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "an AdmissionReview is required", http.StatusBadRequest)
		return
	}
	var svc corev1.Service
	if err := json.Unmarshal(review.Request.Object.Raw, &svc); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if svc.Annotations[denied] == r.URL.Path {
		review.Response.Allowed = false
		review.Response.Result = &metav1.Status{Message: denied + " " + r.URL.Path}
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	// The API server reports an answer that it could not read.
	_ = json.NewEncoder(w).Encode(review)
}
