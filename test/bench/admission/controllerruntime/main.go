// Command controllerruntime is the webhook that most projects build: controller-runtime's defaulter and validator for
// Services, with one default and one check. The benchmark compares webhooks with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	prefix    = "service.beta.kubernetes.io/dlb-"
	maxQPS    = prefix + "listener-maxqps"
	scheduler = prefix + "scheduler"
)

func main() {
	host := flag.String("host", "", "address to serve on")
	port := flag.Int("port", 0, "port to serve on")
	certificate := flag.String("cert", "", "file with the certificate")
	key := flag.String("key", "", "file with its key")
	// controller-runtime adds --kubeconfig.
	flag.Parse()
	ctrl.SetLogger(klog.NewKlogr())
	if err := run(*host, *port, *certificate, *key); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(host string, port int, certificate, key string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: host, Port: port,
			CertDir: filepath.Dir(certificate), CertName: filepath.Base(certificate), KeyName: filepath.Base(key),
		}),
	})
	if err != nil {
		return err
	}
	err = ctrl.NewWebhookManagedBy(manager, &corev1.Service{}).WithDefaulter(services{}).WithValidator(services{}).Complete()
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

// services sets and checks annotations of Services.
type services struct{}

var (
	_ admission.Defaulter[*corev1.Service] = services{}
	_ admission.Validator[*corev1.Service] = services{}
)

// Default sets a missing annotation.
func (services) Default(_ context.Context, svc *corev1.Service) error {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || svc.Annotations[maxQPS] != "" {
		return nil
	}
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	svc.Annotations[maxQPS] = "10000"
	return nil
}

// ValidateCreate checks an annotation.
func (services) ValidateCreate(_ context.Context, svc *corev1.Service) (admission.Warnings, error) {
	return nil, check(svc)
}

// ValidateUpdate checks an annotation.
func (services) ValidateUpdate(_ context.Context, _, svc *corev1.Service) (admission.Warnings, error) {
	return nil, check(svc)
}

// ValidateDelete allows everything.
func (services) ValidateDelete(context.Context, *corev1.Service) (admission.Warnings, error) {
	return nil, nil
}

func check(svc *corev1.Service) error {
	switch value := svc.Annotations[scheduler]; value {
	case "", "round-robin", "least-connections", "source-ip":
		return nil
	default:
		return fmt.Errorf("%s: %q is not a valid scheduler", scheduler, value)
	}
}
