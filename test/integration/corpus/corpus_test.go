// Package corpus_test applies the corpus to a real API server with the chart's webhooks: the verdict that the engine
// reaches must be the one that users get.
package corpus_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quaymaster.dev/test/corpus"
	"quaymaster.dev/test/env"
)

const namespace = "corpus"

var (
	cluster *env.Env
	cases   []corpus.Case
)

func TestMain(m *testing.M) { os.Exit(env.Main(m, env.Options{}, setup)) }

// setup stores the old objects of updates before the webhooks exist, as if they had slipped past admission.
func setup(ctx context.Context, e *env.Env) error {
	cluster = e
	var err error
	if cases, err = corpus.Load(); err != nil {
		return err
	}
	if err := e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	for _, c := range cases {
		if c.Old == nil {
			continue
		}
		old := named(c, c.Old)
		if err := e.Client.Create(ctx, old); err != nil {
			return err
		}
		old.Status = c.Old.Status
		if err := e.Client.Status().Update(ctx, old); err != nil {
			return err
		}
	}
	port, err := env.FreePort()
	if err != nil {
		return err
	}
	values := env.Values{"webhook": map[string]any{"url": env.WebhookURL(port), "failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"}}}
	if err := e.InstallChart(ctx, values); err != nil {
		return err
	}
	_, err = e.StartWebhook(ctx, port)
	return err
}

func named(c corpus.Case, svc *corev1.Service) *corev1.Service {
	svc = svc.DeepCopy()
	svc.Namespace, svc.Name = namespace, strings.ReplaceAll(path.Dir(c.Name)+"-"+path.Base(c.Name), ".", "-")
	return svc
}

func TestCorpus(t *testing.T) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			warnings := &recorder{}
			config := rest.CopyConfig(cluster.User)
			config.WarningHandlerWithContext = warnings
			clientset, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			err = send(t.Context(), clientset, c)
			if diff := gocmp.Diff(fields(c.Causes), causes(t, err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if err != nil {
				return // The API server shows a refusal's warnings, too, but the client drops them.
			}
			for _, want := range c.Warnings {
				if !warnings.mention(want.Field) {
					t.Errorf("no warning of %s in %q", want.Field, warnings.texts)
				}
			}
		})
	}
}

// send creates the Service, or updates the old one as far as the case differs.
func send(ctx context.Context, clientset *kubernetes.Clientset, c corpus.Case) error {
	svc := named(c, c.New)
	services := clientset.CoreV1().Services(namespace)
	if c.Old == nil {
		_, err := services.Create(ctx, svc, metav1.CreateOptions{})
		return err
	}
	stored, err := services.Get(ctx, svc.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	stored.Annotations, stored.Spec.Type, stored.Spec.Ports = svc.Annotations, svc.Spec.Type, svc.Spec.Ports
	_, err = services.Update(ctx, stored, metav1.UpdateOptions{})
	return err
}

// causes are the fields that a refusal blames; only a webhook's 422 has them in this form.
func causes(t *testing.T, err error) []string {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		t.Fatalf("not refused as invalid: %v", err)
	}
	var list []string
	for _, cause := range status.Status().Details.Causes {
		list = append(list, cause.Field)
		if !strings.Contains(status.Status().Message, cause.Message) {
			t.Errorf("the message lacks the cause %q", cause.Message)
		}
	}
	slices.SortFunc(list, cmp.Compare[string])
	return list
}

func fields(problems []corpus.Problem) []string {
	var list []string
	for _, p := range problems {
		list = append(list, p.Field)
	}
	slices.SortFunc(list, cmp.Compare[string])
	return list
}

// recorder keeps the warnings of one client.
type recorder struct {
	mu    sync.Mutex
	texts []string
}

func (r *recorder) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}

func (r *recorder) mention(field string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.texts, func(text string) bool { return strings.Contains(text, field) })
}
