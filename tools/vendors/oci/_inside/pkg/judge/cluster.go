package main

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/testing"
)

// kubernetes returns a cluster that accepts everything, and has every Secret whose namespace and name the API server accepts.
func kubernetes() *fake.Clientset {
	cluster := &fake.Clientset{}
	cluster.AddReactor("get", "secrets", func(action testing.Action) (bool, runtime.Object, error) {
		name := action.(testing.GetAction).GetName()
		if len(validation.IsDNS1123Label(action.GetNamespace())) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return true, nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
		}
		return true, &corev1.Secret{Data: map[string][]byte{"tls.crt": {}, "tls.key": {}, "ca.crt": {}}}, nil
	})
	return cluster
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
