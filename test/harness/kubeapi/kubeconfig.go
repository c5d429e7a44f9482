package kubeapi

import (
	"encoding/pem"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig serves the API on a port, with a certificate of its own, until the test ends. It returns the name of a
// kubeconfig.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	front := httptest.NewTLSServer(s)
	t.Cleanup(front.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: front.URL, CertificateAuthorityData: authority}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, file); err != nil {
		t.Fatal(err)
	}
	return file
}
