package env

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes a self-contained kubeconfig for one user and returns its path.
func (e *Env) writeKubeconfig(name string, user *clientcmdapi.AuthInfo) (string, error) {
	config := clientcmdapi.NewConfig()
	ca := e.pki.authority.PEM()
	config.Clusters["quaymaster"] = &clientcmdapi.Cluster{Server: e.server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = user
	config.Contexts["quaymaster"] = &clientcmdapi.Context{Cluster: "quaymaster", AuthInfo: name}
	config.CurrentContext = "quaymaster"
	path := filepath.Join(e.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	return path, nil
}

// UserKubeconfig issues a client certificate for a user of the API server and returns the path of a kubeconfig that
// contains it. RBAC determines the user's rights.
func (e *Env) UserKubeconfig(user string, groups ...string) (string, error) {
	from, until := period()
	pair, err := e.pki.authority.IssueClient(user, groups, from, until)
	if err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	key, err := pair.EncodeKey()
	if err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return e.writeKubeconfig(fileName(user), &clientcmdapi.AuthInfo{ClientCertificateData: pair.PEM(), ClientKeyData: key})
}

// ServiceAccountKubeconfig requests a token for a ServiceAccount from the API server and returns the path of a
// kubeconfig that contains it: it has exactly the rights of a pod with that ServiceAccount.
func (e *Env) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	lifetime := int64(validity.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := e.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("request a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return e.writeKubeconfig(name, &clientcmdapi.AuthInfo{Token: request.Status.Token})
}

// fileName converts a user name such as system:kube-controller-manager into a file name.
func fileName(user string) string { return strings.NewReplacer(":", "-", "/", "-").Replace(user) }
